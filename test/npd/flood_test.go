//go:build integration

package npd

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// spent is what a flood has cost a program.
type spent struct {
	cpu time.Duration
	// began and most are what it had in memory, in MB.
	began, most float64
	requests    int64
	events      int
}

func (s spent) String() string {
	return fmt.Sprintf("%.2f s of a processor, %.0f MB resident before and %.0f MB at most, %d requests to the API server, events that stand for %d lines",
		s.cpu.Seconds(), s.began, s.most, s.requests, s.events)
}

func TestAFloodOf20000LinesCostsTheDetectorLessThanAQuarter(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"nothing matches": "IN=eth0 OUT= MAC=52:54:00:12:34:56:52:54:00:65:43:21:08:00 SRC=203.0.113.7 DST=198.51.100.1 LEN=60 TTL=49 ID=%d PROTO=TCP DPT=22",
		"all match":       "Buffer I/O error on dev sda1, logical block %d, async page read",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var all []spent
			for _, p := range programs(t) {
				t.Run(p.name, func(t *testing.T) {
					cost := flood(t, p, line)
					t.Log(cost)
					all = append(all, cost)
				})
			}
			if len(all) != 2 {
				t.Fatal("one of the two was not measured")
			}
			if all[1].cpu > all[0].cpu/4 {
				t.Errorf("the detector has needed %s of a processor, node-problem-detector %s", all[1].cpu, all[0].cpu)
			}
		})
	}
}

// flood has a program read 20,000 such lines by the rules of node-problem-detector's
// kernel-monitor.json, until it has come to the last line, which sets a condition.
func flood(t *testing.T, p program, line string) (cost spent) {
	t.Helper()
	const condition = "KernelDeadlock"
	s := newScene(t, p)
	s.ship()
	s.createNode()
	d := s.door(0)
	log := s.path("kernel.log")
	s.Expect(os.WriteFile(log, nil, 0o600)).To(Succeed())
	data, err := os.ReadFile(s.path("config/kernel-monitor.json"))
	s.Expect(err).NotTo(HaveOccurred())
	config := map[string]any{}
	s.Expect(json.Unmarshal(data, &config)).To(Succeed())
	config["plugin"], config["logPath"] = "filelog", log
	config["pluginConfig"] = map[string]string{"timestamp": `^\S+`, "message": "kernel: (.*)", "timestampFormat": time.RFC3339}
	data, err = json.Marshal(config)
	s.Expect(err).NotTo(HaveOccurred())
	s.monitor("system-log-monitor", string(data))
	process := s.start()
	s.confirmed(condition, corev1.ConditionFalse, process.started)

	measured := measuredProcess{process.Pid, s.address, d}
	cost.began = measured.kilobytes(t, "VmRSS") / 1024
	cpu, requests := measured.cpu(t), d.requests.Load()
	var text strings.Builder
	stamp := time.Now().Format(time.RFC3339)
	for i := range 20_000 {
		fmt.Fprintf(&text, "%s node kernel: "+line+"\n", stamp, i)
	}
	fmt.Fprintf(&text, "%s node kernel: task docker:7 blocked for more than 120 seconds.\n", stamp)
	s.Expect(os.WriteFile(log, []byte(text.String()), 0o600)).To(Succeed())
	s.confirmed(condition, corev1.ConditionTrue, process.started)
	cost.cpu, cost.requests = measured.cpu(t)-cpu, d.requests.Load()-requests
	cost.most = measured.kilobytes(t, "VmHWM") / 1024
	cost.events = s.events("IOError")
	return cost
}
