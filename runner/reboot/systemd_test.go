//go:build integration

package reboot

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
	testsystemd "github.com/nodemend/nodemend/test/systemd"
)

// A target that only writes down that it was reached, in place of systemd's own.
const (
	ownTarget = "[Unit]\nDefaultDependencies=no\nRequires=record.service\nAfter=record.service\n"
	record    = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo reached >>/run/reached'\n"
	never     = "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=/bin/sh -c 'echo reached >>/run/reached; exec sleep 1000'\n"
)

// newHost boots a systemd for one test, since what it is asked for is
// irreversible.
func newHost(t *testing.T, service string) (*testsystemd.Host, *scene) {
	t.Helper()
	host, err := testsystemd.Boot(t.Context())
	if errors.Is(err, testsystemd.ErrUnavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := newScene(t, v1alpha1.RebootSystemd)
	s.reboot.opts.Dialer = systemd.Dialer{Bus: host.Bus()}
	for name, content := range map[string]string{"record.service": service, target: ownTarget} {
		if err := host.Unit(t.Context(), name, content); err != nil {
			t.Fatal(err)
		}
	}
	return host, s
}

// reached waits until the target was reached, and returns how often.
func reached(t *testing.T, host *testsystemd.Host) int {
	t.Helper()
	var data []byte
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) {
		var err error
		data, err = os.ReadFile(filepath.Join(host.RunDir(), "reached"))
		return err == nil && len(data) > 0, nil
	})
	if err != nil {
		t.Fatal("reboot.target was not reached")
	}
	return strings.Count(string(data), "reached")
}

func TestSystemdIsAskedForItsRebootTarget(t *testing.T) {
	host, s := newHost(t, record)
	prepared, failure := s.reboot.Prepare(t.Context(), s.order)
	if failure != nil || prepared.Execution != v1alpha1.ExecutionSystemd {
		t.Fatalf("prepared %+v, outcome %+v", prepared, failure)
	}
	var points []string
	ctx := remedy.WithPoints(t.Context(), func(point string) { points = append(points, point) })
	outcome := s.start(ctx, s.reboot.Execute)
	s.waits(timeout, timeout)
	if times := reached(t, host); times != 1 {
		t.Errorf("reboot.target was reached %d times", times)
	}
	s.clock.Step(timeout)
	got := s.outcome(outcome)
	want := "systemd was asked to reboot, and 10m0s later this node still runs with boot ID boot-1: "
	if got.Reason != v1alpha1.ReasonRebootNotObserved || !strings.HasPrefix(got.Message, want) || got.Result.Execution != v1alpha1.ExecutionSystemd {
		t.Errorf("outcome %+v", got)
	}
	if strings.Join(points, " ") != "before-reboot after-reboot" {
		t.Errorf("points %v", points)
	}
	s.untouched()
}

func TestTheRebootOfSystemdIsIrreversible(t *testing.T) {
	host, s := newHost(t, never)
	outcome := s.start(t.Context(), s.reboot.Execute)
	reached(t, host)
	out, err := host.Run(t.Context(), "systemctl", "stop", target)
	if err == nil || !strings.Contains(string(out), "is destructive") {
		t.Errorf("it could be stopped: %v: %s", err, out)
	}
	s.pending(outcome)
}

func TestARunnerThatSystemdStopsOnTheWayDownReportsNothing(t *testing.T) {
	host, s := newHost(t, never)
	ctx, cancel := context.WithCancel(t.Context())
	outcome := s.start(ctx, s.reboot.Execute)
	reached(t, host)
	s.waits(timeout, timeout)
	cancel()
	if got := s.outcome(outcome); got != nil {
		t.Errorf("outcome %+v", got)
	}
}

func TestARebootThatSystemdRefusesWasNotStarted(t *testing.T) {
	for name, tc := range map[string]struct {
		setUp func(t *testing.T, host *testsystemd.Host)
		want  string
	}{
		"masked": {func(t *testing.T, host *testsystemd.Host) {
			run(t, host, "rm", "/run/systemd/system/"+target)
			run(t, host, "systemctl", "mask", "--runtime", target)
		}, "masked"},
		"while it is being halted": {func(t *testing.T, host *testsystemd.Host) {
			if err := host.Unit(t.Context(), "halting.target", ownTarget+"Conflicts="+target+"\n"); err != nil {
				t.Fatal(err)
			}
			run(t, host, "systemctl", "start", "--no-block", "--job-mode=replace-irreversibly", "halting.target")
			reached(t, host)
		}, "destructive"},
	} {
		t.Run(name, func(t *testing.T) {
			host, s := newHost(t, never)
			tc.setUp(t, host)
			got := s.outcome(s.start(t.Context(), s.reboot.Execute))
			if got == nil || got.Reason != v1alpha1.ReasonStartFailed || got.Result != nil || !strings.Contains(got.Message, tc.want) ||
				!strings.HasPrefix(got.Message, "systemd refuses to start reboot.target: ") {
				t.Errorf("outcome %+v", got)
			}
		})
	}
}

func TestSystemdThatHangsWhenItIsAskedMayStillReboot(t *testing.T) {
	host, s := newHost(t, record)
	ctx := remedy.WithPoints(t.Context(), func(point string) {
		if point == "before-reboot" {
			host.Freeze(t)
		}
	})
	outcome := s.start(ctx, s.reboot.Execute)
	s.waits(timeout)
	s.clock.Step(timeout)
	got := s.outcome(outcome)
	if got.Reason != v1alpha1.ReasonRebootNotObserved || !strings.HasPrefix(got.Message, "systemd was asked to reboot and did not say whether it does (context canceled), and 10m0s later") {
		t.Errorf("outcome %+v", got)
	}
}

func TestSystemdMayAnswerAfterTheTimeoutToo(t *testing.T) {
	host, s := newHost(t, never)
	s.clock.SetTime(begun.Add(timeout))
	outcome := s.start(t.Context(), s.reboot.Execute)
	s.waits(patience)
	got := s.outcome(outcome)
	if got.Reason != v1alpha1.ReasonRebootNotObserved || !strings.HasPrefix(got.Message, "systemd was asked to reboot, and ") {
		t.Errorf("outcome %+v", got)
	}
	reached(t, host)
}

func TestALostConnectionLeavesItOpenWhetherSystemdReboots(t *testing.T) {
	host, s := newHost(t, never)
	bus := strings.TrimSpace(run(t, host, "systemctl", "show", "--property=MainPID", "--value", "dbus.service"))
	var thaw func()
	ctx := remedy.WithPoints(t.Context(), func(point string) {
		if point == "before-reboot" {
			thaw = host.Freeze(t)
		}
	})
	outcome := s.start(ctx, s.reboot.Execute)
	s.waits(timeout)
	run(t, host, "kill", "-KILL", bus)
	thaw()
	s.waits(timeout)
	s.clock.Step(timeout)
	if got := s.outcome(outcome); got.Reason != v1alpha1.ReasonRebootNotObserved || !strings.Contains(got.Message, "did not say whether it does") {
		t.Errorf("outcome %+v", got)
	}
}

func run(t *testing.T, host *testsystemd.Host, argv ...string) string {
	t.Helper()
	out, err := host.Run(t.Context(), argv...)
	if err != nil {
		t.Fatalf("%v: %v: %s", argv, err, out)
	}
	return string(out)
}
