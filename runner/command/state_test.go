package command

import (
	"syscall"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// props are those of a unit whose command has ended by itself.
func props(change map[string]any) map[string]any {
	p := map[string]any{
		"LoadState": "loaded", "ActiveState": "active", "SubState": "exited", "Result": "success",
		"ExecMainCode": int32(codeExited), "ExecMainStatus": int32(0), "ExecMainStartTimestamp": uint64(1e15),
		"ExecMainStartTimestampMonotonic": uint64(1_000_000), "ActiveEnterTimestampMonotonic": uint64(1_001_000),
		"ExecMainExitTimestampMonotonic": uint64(3_000_000), "Job": []any{uint32(0), "/"},
	}
	for name, value := range change {
		p[name] = value
	}
	return p
}

func TestWhatSystemdSaysBecomesAnOutcome(t *testing.T) {
	const uptime = time.Second + time.Minute
	for name, test := range map[string]struct {
		change                  map[string]any
		absent, ended, executed bool
		reason, message         string
	}{
		"exited": {ended: true, executed: true, reason: v1alpha1.ReasonSucceeded, message: "exit status 0 after 2s"},
		"failed": {
			change: map[string]any{"ExecMainStatus": int32(3)},
			ended:  true, executed: true, reason: v1alpha1.ReasonFailed, message: "exit status 3 after 2s",
		},
		"ended by a signal": {
			change: map[string]any{"ActiveState": "failed", "SubState": "failed", "Result": "signal", "ExecMainCode": int32(2), "ExecMainStatus": int32(15)},
			ended:  true, executed: true, reason: v1alpha1.ReasonFailed, message: "ended by signal 15 (terminated) after 2s",
		},
		"killed at the timeout": {
			change: map[string]any{"ActiveState": "failed", "SubState": "failed", "Result": "timeout", "ExecMainCode": int32(2), "ExecMainStatus": int32(9)},
			ended:  true, executed: true, reason: v1alpha1.ReasonTimedOut, message: "killed after 2s",
		},
		"gave in at the timeout": {
			change: map[string]any{"ActiveState": "failed", "SubState": "failed", "Result": "timeout", "ExecMainStatus": int32(4)},
			ended:  true, executed: true, reason: v1alpha1.ReasonTimedOut, message: "asked to stop at the timeout, and ended with exit status 4 after 2s",
		},
		"does not go": {
			change: map[string]any{"ActiveState": "failed", "SubState": "failed", "Result": "timeout", "ExecMainExitTimestampMonotonic": uint64(0)},
			ended:  true, executed: true, reason: v1alpha1.ReasonTimedOut, message: "killed after 1m0s" + stuckNote,
		},
		"stopped by somebody": {
			change: map[string]any{"ActiveState": "inactive", "SubState": "dead", "ExecMainCode": int32(2), "ExecMainStatus": int32(15)},
			ended:  true, executed: true, reason: v1alpha1.ReasonFailed, message: "ended by signal 15 (terminated) after 2s",
		},
		"runs":              {change: map[string]any{"SubState": "running", "ExecMainExitTimestampMonotonic": uint64(0)}, executed: true},
		"is being stopped":  {change: map[string]any{"ActiveState": "deactivating", "SubState": "stop-sigterm"}, executed: true},
		"waits to be begun": {change: map[string]any{"ActiveState": "inactive", "SubState": "dead", "Job": []any{uint32(7), "/"}, "ExecMainStartTimestampMonotonic": uint64(0), "ExecMainExitTimestampMonotonic": uint64(0)}},
		"was never begun": {
			change: map[string]any{"ActiveState": "inactive", "SubState": "dead", "ExecMainStartTimestampMonotonic": uint64(0), "ExecMainExitTimestampMonotonic": uint64(0)},
			absent: true,
		},
		"no such unit": {change: map[string]any{"LoadState": "not-found", "ActiveState": "inactive", "ExecMainStartTimestampMonotonic": uint64(0), "ExecMainExitTimestampMonotonic": uint64(0)}, absent: true},
		"runs, but its file can't be read any more": {change: map[string]any{"LoadState": "bad-setting", "SubState": "running", "ExecMainExitTimestampMonotonic": uint64(0)}, executed: true},
		"was killed before it was executed": {
			change: map[string]any{"ActiveState": "failed", "Result": "timeout", "ExecMainCode": int32(2), "ExecMainStatus": int32(9), "ActiveEnterTimestampMonotonic": uint64(0)},
			ended:  true,
		},
		"does not go and was not executed": {
			change: map[string]any{"ActiveState": "failed", "Result": "timeout", "ExecMainExitTimestampMonotonic": uint64(0), "ActiveEnterTimestampMonotonic": uint64(0)},
			ended:  true,
		},
		"is being executed": {
			change:   map[string]any{"ActiveState": "activating", "SubState": "start", "ExecMainExitTimestampMonotonic": uint64(0), "ActiveEnterTimestampMonotonic": uint64(0)},
			executed: true,
		},
		"could not be made": {change: map[string]any{"ActiveState": "failed", "Result": "resources", "ExecMainStartTimestampMonotonic": uint64(0)}, ended: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf(props(test.change))
			executed, sure := s.executed()
			if s.absent() != test.absent || s.ended() != test.ended || executed != test.executed || !sure {
				t.Fatalf("absent %t, ended %t, executed %t (sure: %t); want %t, %t, %t", s.absent(), s.ended(), executed, sure, test.absent, test.ended, test.executed)
			}
			if test.reason == "" {
				return
			}
			got := s.ending(uptime).outcome(v1alpha1.ExecutionTransientUnit)
			if got.Reason != test.reason || got.Message != test.message {
				t.Errorf("got %s %q, want %s %q", got.Reason, got.Message, test.reason, test.message)
			}
			if want := time.UnixMicro(1e15); !got.Result.StartedAt.Time.Equal(want) {
				t.Errorf("started at %s, want %s", got.Result.StartedAt, want)
			}
		})
	}
}

func TestAHighExitStatusMayBeThatOfSystemdItself(t *testing.T) {
	const handoff = "ExecMainHandoffTimestampMonotonic"
	for name, test := range map[string]struct {
		change         map[string]any
		executed, sure bool
	}{
		"it was active before it ended":       {executed: true, sure: true},
		"it was active when it had ended":     {change: map[string]any{"ActiveEnterTimestampMonotonic": uint64(3_000_001)}, executed: true},
		"it was never active":                 {change: map[string]any{"ActiveEnterTimestampMonotonic": uint64(0)}, executed: true},
		"systemd says that it tried":          {change: map[string]any{"ActiveEnterTimestampMonotonic": uint64(0), handoff: uint64(1)}, executed: true},
		"systemd says that it was not":        {change: map[string]any{handoff: uint64(0)}, sure: true},
		"systemd's are all higher than this":  {change: map[string]any{"ActiveEnterTimestampMonotonic": uint64(0), "ExecMainStatus": int32(199)}, executed: true, sure: true},
		"and lower than this":                 {change: map[string]any{"ActiveEnterTimestampMonotonic": uint64(0), "ExecMainStatus": int32(255)}, executed: true, sure: true},
		"a signal is never that of systemd's": {change: map[string]any{"ActiveEnterTimestampMonotonic": uint64(0), "ExecMainCode": int32(3)}, executed: true, sure: true},
	} {
		change := map[string]any{"ExecMainStatus": int32(statusExec)}
		for k, v := range test.change {
			change[k] = v
		}
		if executed, sure := stateOf(props(change)).executed(); executed != test.executed || sure != test.sure {
			t.Errorf("%s: got executed %t, sure %t; want %t, %t", name, executed, sure, test.executed, test.sure)
		}
	}
}

func TestAKillThatCameTooLateIsNotTheCause(t *testing.T) {
	for _, test := range []struct {
		ending  ending
		reason  string
		message string
	}{
		{ending{cause: interrupted, took: time.Second}, v1alpha1.ReasonSucceeded, "exit status 0 after 1s"},
		{ending{cause: interrupted, signal: syscall.SIGTERM, took: time.Second}, v1alpha1.ReasonFailed, "ended by signal 15 (terminated) after 1s"},
		{ending{cause: interrupted, signal: syscall.SIGKILL, took: time.Second}, v1alpha1.ReasonInterrupted, "the runner was stopped and killed the command after 1s"},
		{ending{cause: interrupted, stuck: true, took: 6 * time.Millisecond}, v1alpha1.ReasonInterrupted, "the runner was stopped and killed the command after 6ms" + stuckNote},
	} {
		if got := test.ending.outcome(v1alpha1.ExecutionDirect); got.Reason != test.reason || got.Message != test.message {
			t.Errorf("got %s %q, want %s %q", got.Reason, got.Message, test.reason, test.message)
		}
	}
}

func TestTheTimeThatIsLeftIsSystemdsNotTheWallClocks(t *testing.T) {
	s := stateOf(props(nil)) // started at 1 s of the monotonic clock
	for uptime, want := range map[time.Duration]time.Duration{
		time.Second: time.Minute, 21 * time.Second: 40 * time.Second, 61 * time.Second: 0, time.Hour: 0, 0: time.Minute,
	} {
		if got := s.left(time.Minute, uptime); got != want {
			t.Errorf("at %s %s are left, want %s", uptime, got, want)
		}
	}
	if uptime() < time.Second || uptime() > 100*365*24*time.Hour {
		t.Errorf("the clock says %s", uptime())
	}
}
