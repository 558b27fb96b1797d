package customplugin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodemend/nodemend/checks"
)

// What NPD gets wrong, with real plugins.

// newRealMonitor returns a monitor of the permanent rules "Condition=path", run
// every 50 ms with this time-out.
func newRealMonitor(t *testing.T, timeout time.Duration, rules ...string) *played {
	t.Helper()
	config := sample(3, rules...)
	config.interval = 50 * time.Millisecond
	for i := range config.rules {
		config.rules[i].timeout = timeout
	}
	return newMonitorOf(t, config, false)
}

func newMonitorOf(t *testing.T, config Config, allowRepair bool) *played {
	t.Helper()
	options, _ := testOptions(t)
	options.AllowRepair = allowRepair
	m := &played{Monitor: New(config, options)}
	t.Cleanup(func() {
		m.Stop()
		noChildren(t)
	})
	return m
}

// next returns the next condition that is reported.
func next(t *testing.T, statuses <-chan *checks.Report) checks.Observation {
	t.Helper()
	select {
	case status := <-statuses:
		return status.Observations[0]
	case <-time.After(patient):
		t.Fatalf("nothing was reported for %s", patient)
		return checks.Observation{}
	}
}

func TestAFailingConditionNeverTurnsFalseSinceAnotherRuleFinishedFirst(t *testing.T) {
	quick, slow := script(t, "quick", "exit 0"), script(t, "slow", "sleep 0.2; exit 1")
	statuses := start(t, newRealMonitor(t, time.Minute, "Quick="+quick, "HardwareFailure="+slow))
	for seen := 0; seen < 3; {
		got := next(t, statuses)
		if got.Type != "HardwareFailure" {
			continue
		}
		seen++
		if got.Status != checks.True {
			t.Fatalf("report %d of the failing condition is %+v", seen, got)
		}
	}
}

func TestATimeOutOfAFailingRuleIsUnknownWithAReasonOfItsOwn(t *testing.T) {
	flag := filepath.Join(t.TempDir(), "hang")
	statuses := start(t, newRealMonitor(t, time.Second, "Disk="+script(t, "plugin", fmt.Sprintf("[ -e %s ] && sleep 1000; echo bad; exit 1", flag))))
	if got := next(t, statuses); got.Status != checks.True || got.Message != "bad" {
		t.Fatalf("before the time-out: %+v", got)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := next(t, statuses)
	for got.Status == checks.True {
		got = next(t, statuses)
	}
	if got.Status != checks.Unknown || got.Reason != ReasonPluginTimeout || !strings.Contains(got.Message, "plugin: killed at its time-out of 1s") {
		t.Errorf("at the time-out: %+v", got)
	}
}

func TestRulesOfOneConditionDoNotFlipIt(t *testing.T) {
	bad, good := script(t, "bad", "exit 1"), script(t, "good", "exit 0")
	statuses := start(t, newRealMonitor(t, time.Minute, "Disk="+good, "Disk="+bad, "Disk="+good))
	for range 5 {
		if got := next(t, statuses); got.Status != checks.True {
			t.Errorf("got %+v", got)
		}
	}
}

func TestStopReturnsWithinTwoSecondsWhateverPluginsDo(t *testing.T) {
	for name, tc := range map[string]struct {
		body    string
		escapes bool
	}{
		"a plugin that ignores signals":                {"trap '' TERM INT HUP; while :; do sleep 1000; done", false},
		"a plugin that prints without end":             {"exec yes", false},
		"an escaped child that holds the output":       {"wait", true},
		"an escaped child, and a plugin that is ended": {"exit 1", true},
	} {
		t.Run(name, func(t *testing.T) {
			began, pidFile := filepath.Join(t.TempDir(), "began"), filepath.Join(t.TempDir(), "pid")
			body := ": >" + began + "; " + tc.body
			if tc.escapes {
				body = escape(pidFile) + body
				t.Cleanup(func() { _ = syscall.Kill(readPID(t, pidFile), syscall.SIGKILL) })
			}
			config := sample(1, "Disk="+script(t, "plugin", body))
			config.rules[0].timeout = time.Hour
			m := newMonitorOf(t, config, false)
			start(t, m)
			eventually(t, "the plugin runs", func() bool { _, err := os.Stat(began); return err == nil })
			m.Stop() // does not wait for the plugin, which has an hour
		})
	}
}

func TestHealthCheckerRepairsNothingUnlessItIsAllowedTo(t *testing.T) {
	for allow, want := range map[bool]string{false: "--enable-repair=false --component=cri", true: "--component=cri --enable-repair=true"} {
		config := sample(1, "Runtime="+script(t, "health-checker", `echo "$@"; exit 1`))
		config.rules[0].args = []string{"--component=cri", "--enable-repair=true"}
		config.rules[0].timeout = patient
		if got := next(t, start(t, newMonitorOf(t, config, allow))).Message; got != want {
			t.Errorf("allowed=%v: it was run with %q, want %q", allow, got, want)
		}
	}
}

func TestAFileOfNPDRunsFromEndToEnd(t *testing.T) {
	plugin := script(t, "check_ntp.sh", "echo ntp is down; exit 1")
	config, err := Parse("ntp.json", fmt.Appendf(nil, `{
		"plugin": "custom", "source": "ntp-custom-plugin-monitor", "metricsReporting": true,
		"conditions": [{"type": "NTPProblem", "reason": "NTPIsUp", "message": "ntp service is up"}],
		"rules": [
			{"type": "temporary", "reason": "NTPIsDown", "path": %q},
			{"type": "permanent", "condition": "NTPProblem", "reason": "NTPIsDown", "path": %q}
		]}`, plugin, plugin))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	statuses := start(t, newMonitorOf(t, config, false))
	var conditions []checks.Observation
	var events []checks.Event
	for range 2 {
		status := <-statuses
		if status.Source != "ntp-custom-plugin-monitor" {
			t.Errorf("source is %q", status.Source)
		}
		conditions, events = append(conditions, status.Observations...), append(events, status.Events...)
	}
	if len(conditions) != 1 || len(events) != 1 {
		t.Fatalf("got conditions %+v and events %+v, want one of each", conditions, events)
	}
	if c := conditions[0]; c.Status != checks.True || c.Reason != "NTPIsDown" || c.Message != "ntp is down" || c.At.Before(began) {
		t.Errorf("got condition %+v", c)
	}
	if e := events[0]; e.Reason != "NTPIsDown" || e.Message != "ntp is down" || e.At.Before(began) {
		t.Errorf("got event %+v", e)
	}
}
