//go:build integration

package unit_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/systemd"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

// ownHost boots a systemd for a test that is not kind to it.
func ownHost(t *testing.T) *systemd.Host {
	t.Helper()
	systemdtest.Shared(t) // skips where none can be booted
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	host, err := systemd.Boot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Stop(); err != nil {
			t.Error(err)
		}
	})
	return host
}

// ample is a timeout in which systemd answers, however busy the machine is.
const ample = 10 * time.Second

func TestAWedgedStopIsKilledAndTheUnitIsActiveAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "stubborn.service", stubborn)
	s.systemctl("start", s.name)
	order, outcome := s.execute(ample)
	s.expect(outcome, v1alpha1.ReasonSucceeded,
		`stubborn\.service is active \(running\) again: main process \d+ -> \d+, after \d+(\.\d)?s; it did not stop within 10s, and its processes were killed \(escalated to kill\)`)
	s.Expect(outcome.Result.Unit.MainPIDAfter).NotTo(BeElementOf(int64(0), order.Prepared.MainPID))
}

func TestAStartThatHangsIsKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "hangs.service", hangs)
	_, outcome := s.execute(ample)
	s.expect(outcome, v1alpha1.ReasonTimedOut,
		`the restart of hangs\.service was not over within 10s: its processes were killed \(escalated to kill\); then it was failed \(failed\): result signal, main process killed by signal SIGKILL; see .*`)
	s.Expect(outcome.Result.FinishedAt.Sub(outcome.Result.StartedAt.Time)).To(BeNumerically("<", ample+deadline.EndGrace))
}

func TestARestartThatSystemdDoesNotAnswerIsInterrupted(t *testing.T) {
	t.Parallel()
	host := ownHost(t)
	s := newScene(t, host, "frozen.service", sleeper)
	s.systemctl("start", s.name)
	order := s.prepare(2 * time.Second)
	ctx := remedy.WithPoints(t.Context(), func(point string) {
		if point == "before-restart" {
			host.Freeze(t)
		}
	})
	start := time.Now()
	s.expect(s.remedy.Execute(ctx, order), v1alpha1.ReasonInterrupted,
		`the restart of frozen\.service may or may not have been asked for: systemd did not answer within 2s; .*`)
	s.Expect(time.Since(start)).To(BeNumerically("<", order.Step.Timeout.Duration+deadline.EndGrace))
}

func TestASystemdThatHangsAfterItHasAcceptedIsTimedOut(t *testing.T) {
	t.Parallel()
	host := ownHost(t)
	s := newScene(t, host, "hanging.service", stubborn)
	s.systemctl("start", s.name)
	order := s.prepare(ample)
	ctx := remedy.WithPoints(t.Context(), func(point string) {
		if point == "after-restart" {
			host.Freeze(t)
		}
	})
	s.expect(s.remedy.Execute(ctx, order), v1alpha1.ReasonTimedOut,
		`systemd began to restart hanging\.service and did not answer any more within 10s; .*`)
}

func TestASystemdThatDoesNotAnswerIsNotAskedToRestart(t *testing.T) {
	t.Parallel()
	host := ownHost(t)
	s := newScene(t, host, "unasked.service", sleeper)
	order := s.prepare(time.Second)
	host.Freeze(t)
	reached := false
	ctx := remedy.WithPoints(t.Context(), func(string) { reached = true })
	const message = `systemd does not answer: (?s:.*); nothing was executed`
	s.expect(s.remedy.Execute(ctx, order), v1alpha1.ReasonStartFailed, message)
	s.Expect(reached).To(BeFalse())
	_, outcome := s.remedy.Prepare(t.Context(), order)
	s.expect(outcome, v1alpha1.ReasonStartFailed, message)
}

func TestARunnerThatIsStoppedBeforeTheRestartHasExecutedNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "unstarted.service", sleeper)
	order := s.prepare(time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.expect(s.remedy.Execute(ctx, order), v1alpha1.ReasonNotStarted, `the runner was stopped before .*`)
	s.Expect(s.prepare(time.Minute).Prepared.InvocationID).To(BeEmpty())
}

func TestTheMessageBusItselfIsRestarted(t *testing.T) {
	t.Parallel()
	s := newScene(t, ownHost(t), "dbus.service", "")
	_, outcome := s.execute(30 * time.Second)
	s.expect(outcome, v1alpha1.ReasonSucceeded, `dbus\.service is active \(running\) again: main process \d+ -> \d+, .*`)
}

func TestSystemdItselfMayBeExecutedAnew(t *testing.T) {
	t.Parallel()
	s := newScene(t, ownHost(t), "reexec.service", stubborn)
	s.systemctl("start", s.name)
	order := s.prepare(ample)
	ctx := remedy.WithPoints(t.Context(), func(point string) {
		if point == "after-restart" {
			s.systemctl("daemon-reexec")
		}
	})
	s.expect(s.remedy.Execute(ctx, order), v1alpha1.ReasonSucceeded,
		`reexec\.service is active \(running\) again: .*escalated to kill.*`)
}
