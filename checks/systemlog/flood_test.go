package systemlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

// floodConfig has the rules of node-problem-detector's kernel-monitor.json, and two that span lines.
const floodConfig = `{
	"plugin": "kmsg", "source": "kernel", "bufferSize": 10,
	"conditions": [{"type": "KernelDeadlock", "reason": "NoDeadlock", "message": "no deadlock"}],
	"rules": [
		{"type": "temporary", "reason": "OOMKilling", "pattern": "Killed process \\d+ (.+) total-vm:\\d+kB, anon-rss:\\d+kB, file-rss:\\d+kB.*"},
		{"type": "temporary", "reason": "TaskHung", "pattern": "task [\\S ]+:\\w+ blocked for more than \\w+ seconds\\."},
		{"type": "temporary", "reason": "UnregisterNetDevice", "pattern": "unregister_netdevice: waiting for \\w+ to become free. Usage count = \\d+"},
		{"type": "temporary", "reason": "KernelOops", "pattern": "BUG: unable to handle kernel NULL pointer dereference at .*"},
		{"type": "temporary", "reason": "KernelOops", "pattern": "divide error: 0000 \\[#\\d+\\] SMP"},
		{"type": "temporary", "reason": "Ext4Error", "pattern": "EXT4-fs error .*"},
		{"type": "temporary", "reason": "Ext4Warning", "pattern": "EXT4-fs warning .*"},
		{"type": "temporary", "reason": "IOError", "pattern": "Buffer I/O error .*"},
		{"type": "permanent", "condition": "KernelDeadlock", "reason": "XfsHasShutdown", "pattern": "XFS .* Shutting down filesystem.?"},
		{"type": "temporary", "reason": "MemoryReadError", "pattern": "CE memory read error .*"},
		{"type": "temporary", "reason": "CperCorrected", "pattern": ".*\\[Hardware Error\\]: event severity: corrected$"},
		{"type": "temporary", "reason": "CperRecoverable", "pattern": ".*\\[Hardware Error\\]: event severity: recoverable$"},
		{"type": "permanent", "condition": "KernelDeadlock", "reason": "CperFatal", "pattern": ".*\\[Hardware Error\\]: event severity: fatal$"},
		{"type": "permanent", "condition": "KernelDeadlock", "reason": "DockerHung", "pattern": "task docker:\\w+ blocked for more than \\w+ seconds\\."},
		{"type": "temporary", "reason": "Oops", "pattern": "RIP: .*\\nCode: .*\\n.*"},
		{"type": "temporary", "reason": "Lockup", "pattern": "(?s)soft lockup.*RIP: .*"}
	]
}`

// floodLine is one of a flood, as a firewall logs it.
const floodLine = "IN=eth0 OUT= MAC=52:54:00:12:34:56:52:54:00:65:43:21:08:00 SRC=203.0.113.7 DST=198.51.100.1 LEN=60 TTL=49 ID=%d PROTO=TCP DPT=22"

func floodMonitor(tb testing.TB) *Monitor {
	tb.Helper()
	config, err := Parse("flood.json", []byte(floodConfig))
	if err != nil {
		tb.Fatal(err)
	}
	m := New(config, Options{Clock: clock.RealClock{}})
	m.count = func(string, int64) error { return nil }
	return m
}

func TestALineCompilesNoPattern(t *testing.T) {
	m, ctx := floodMonitor(t), klog.NewContext(t.Context(), klog.Logger{})
	log := &logLine{Timestamp: time.Unix(1, 0), Message: fmt.Sprintf(floodLine, 0)}
	send := func(*checks.Report) bool { return true }
	if allocated := testing.AllocsPerRun(1000, func() { m.take(ctx, log, send) }); allocated > 1 {
		t.Errorf("a line makes %.0f allocations, want 1 at the most", allocated)
	}
}

// BenchmarkAFloodOf20000Lines is what a flood costs from the line on that a reader hands over.
func BenchmarkAFloodOf20000Lines(b *testing.B) {
	for name, line := range map[string]string{
		"nothing matches": floodLine,
		"all match":       "Buffer I/O error on dev sda1, logical block %d, async page read",
		"many lines":      "RIP: 0010:[<ffffffff81234567>] %d",
	} {
		b.Run(name, func(b *testing.B) {
			ctx := klog.NewContext(b.Context(), klog.Logger{})
			send := func(*checks.Report) bool { return true }
			b.ReportAllocs()
			for b.Loop() {
				m := floodMonitor(b)
				for i := range 20_000 {
					m.take(ctx, &logLine{Timestamp: time.Unix(int64(i), 0), Message: fmt.Sprintf(line, i)}, send)
				}
			}
		})
	}
}

// BenchmarkAFileOf20000Lines has the reader in it.
func BenchmarkAFileOf20000Lines(b *testing.B) {
	path := filepath.Join(b.TempDir(), "log")
	var text strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&text, "2026-11-20T03:12:40.000001Z node kernel: "+floodLine+"\n", i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithCancel(klog.NewContext(b.Context(), klog.Logger{}))
		m, out := floodMonitor(b), make(chan entry)
		f := file{path: path, translator: newTranslator(isoConfig, clock.RealClock{}), clock: clock.RealClock{}}
		ended := make(chan error, 1)
		go func() { ended <- f.read(ctx, time.Time{}, out, nil) }()
		for e := range out {
			if e.log == nil && !e.readUpTo.IsZero() {
				break
			}
			if e.log != nil {
				m.take(ctx, e.log, func(*checks.Report) bool { return true })
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			b.Fatal(err)
		}
	}
}
