// Package boot tells one boot of this node from the next.
package boot

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/clock"
)

// IDPath is where Linux tells one boot from the next: a random UUID that is made when
// the kernel starts (random(4)).
const IDPath = "/proc/sys/kernel/random/boot_id"

// ID reads the ID of the present boot from path.
func ID(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the boot ID, without which a reboot cannot be told from a restart: %w", err)
	}
	id := strings.TrimSpace(string(data))
	if id == "" {
		return "", fmt.Errorf("reading the boot ID: %s is empty, expected is a UUID as in %s", path, IDPath)
	}
	return id, nil
}

// Time returns when the node has booted, by the clock.
func Time(c clock.PassiveClock) (time.Time, error) {
	uptime, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return time.Time{}, fmt.Errorf("finding out when the node has booted: %w", err)
	}
	text, _, _ := strings.Cut(string(uptime), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("finding out when the node has booted: /proc/uptime: %w", err)
	}
	return c.Now().Add(-time.Duration(seconds * float64(time.Second))), nil
}
