package detector

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// boot is when the node has booted, by the local clock, and the kernel's ID of it.
type boot struct {
	at time.Time
	id string
}

// readBoot reads both from /proc.
func readBoot(c clock.PassiveClock) (boot, error) {
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return boot{}, fmt.Errorf("finding out when the node has booted: %w", err)
	}
	text, _, _ := strings.Cut(string(uptime), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return boot{}, fmt.Errorf("finding out when the node has booted: /proc/uptime: %w", err)
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return boot{}, fmt.Errorf("finding out which boot this is: %w", err)
	}
	return boot{
		at: c.Now().Add(-time.Duration(seconds * float64(time.Second))),
		id: strings.TrimSpace(string(id)),
	}, nil
}
