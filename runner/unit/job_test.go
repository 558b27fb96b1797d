//go:build integration

package unit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

const (
	// waited is what a message says of a job that was cancelled.
	waited = `systemd's job for it still waited for others \(see systemctl list-jobs\) and was cancelled`
	// perhaps begins the message of an adopted order of which nothing is known.
	perhaps = `the restart of \S+ may or may not have been asked for: `
)

// show returns a property of the unit.
func (s *scene) show(property string) string {
	s.Helper()
	value, err := s.host.Run(s.Context(), "systemctl", "show", "--value", "--property="+property, s.name)
	s.Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(string(value))
}

// behindAStart returns the order for a unit that is not started before another one,
// which hangs. It was never started itself.
func behindAStart(t *testing.T, name string, timeout time.Duration) (s, blocker *scene, order remedy.Order) {
	t.Helper()
	host := systemdtest.Shared(t)
	blocker = newScene(t, host, "blocks-"+name, hangs)
	s = newScene(t, host, name, "[Unit]\nWants="+blocker.name+"\nAfter="+blocker.name+"\n"+sleeper)
	order = s.prepare(timeout)
	return s, blocker, order
}

// behindAStop returns the order for a running unit that is not stopped before another
// one, whose stop hangs.
func behindAStop(t *testing.T, name string, timeout time.Duration) (s, dependent *scene, order remedy.Order) {
	t.Helper()
	host := systemdtest.Shared(t)
	s = newScene(t, host, name, sleeper)
	dependent = newScene(t, host, "needs-"+name, "[Unit]\nRequires="+name+"\nAfter="+name+"\n"+stubborn)
	s.systemctl("start", dependent.name)
	order = s.prepare(timeout)
	return s, dependent, order
}

// cancelling returns a context under which the unit's job is cancelled once the restart was
// asked for and the unit is in this state. Meanwhile somebody has systemd read all units anew.
func (s *scene) cancelling(activeState string) context.Context {
	return remedy.WithPoints(s.Context(), func(point string) {
		if point == "after-restart" {
			s.systemctl("daemon-reload")
			s.Eventually(s.show).WithArguments("ActiveState").WithTimeout(time.Minute).Should(Equal(activeState))
			s.systemctl("cancel", s.show("Job"))
		}
	})
}

func TestARestartThatWaitsAtItsTimeoutNeverRunsLater(t *testing.T) {
	t.Parallel()
	s, dependent, order := behindAStop(t, "waits.service", ample)
	s.expect(s.remedy.Execute(t.Context(), order), v1alpha1.ReasonTimedOut,
		`the restart of waits\.service was not over within 10s: `+waited+`; then it was active \(running\); see .*`)
	s.Expect(s.show("Job")).To(BeEmpty())
	s.Expect(dependent.show("MainPID")).NotTo(Equal("0"), "it is not ours to be killed")

	dependent.systemctl("kill", "--signal=KILL", dependent.name)
	s.Eventually(dependent.show).WithArguments("ActiveState").WithTimeout(time.Minute).ShouldNot(Equal("deactivating"))
	s.Expect(s.prepare(time.Second).Prepared).To(Equal(order.Prepared), "it was not restarted")
}

func TestAStartThatWaitsAtTheTimeoutNeverRunsLater(t *testing.T) {
	t.Parallel()
	s, blocker, order := behindAStart(t, "waits-stopped.service", ample)
	s.expect(s.remedy.Execute(t.Context(), order), v1alpha1.ReasonTimedOut,
		`the restart of waits-stopped\.service was not over within 10s: `+waited+`; then it was inactive \(dead\); see .*`)
	s.Expect(s.show("Job")).To(BeEmpty())
	s.Expect(blocker.show("ActiveState")).To(Equal("activating"), "it is not ours to be killed")
	blocker.systemctl("stop", blocker.name)
	s.Expect(s.show("ActiveState")).To(Equal("inactive"))
}

func TestAnAdoptedRestartThatWaitsNeverRunsLater(t *testing.T) {
	t.Parallel()
	s, _, order := behindAStop(t, "adopted-waits.service", ample)
	s.abandon(order)
	s.Expect(s.show("Job")).NotTo(BeEmpty())
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonInterrupted,
		perhaps+`it is active \(running\) and has not been started since; `+waited+`; see .*`)
	s.Expect(s.show("Job")).To(BeEmpty())
}

func TestAStartThatHangsAfterAWedgedStopIsEnded(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "twice.service", "[Service]\nType=notify\nNotifyAccess=all\nTimeoutSec=infinity\n"+
		"ExecStart=/bin/sh -c 'trap \"\" TERM; mkdir /run/twice && systemd-notify --ready; while :; do sleep 1000; done'\n")
	_, err := s.host.Run(t.Context(), "rm", "-rf", "/run/twice") // of a run before
	s.Expect(err).NotTo(HaveOccurred())
	s.systemctl("start", s.name)
	_, outcome := s.execute(ample)
	s.expect(outcome, v1alpha1.ReasonTimedOut, `the restart of twice\.service was not over within 10s: `+
		`its processes were killed \(escalated to kill\), and systemd's job for it was cancelled; then it was failed \(failed\): result signal, .*`)
	s.Expect(outcome.Result.FinishedAt.Sub(outcome.Result.StartedAt.Time)).To(BeNumerically("<", ample+deadline.EndGrace))
	s.Expect(s.show("MainPID")).To(Equal("0"))
}

func TestAJobThatIsCancelledBeforeItBeganHasExecutedNothing(t *testing.T) {
	t.Parallel()
	t.Run("of a running unit", func(t *testing.T) {
		s, _, order := behindAStop(t, "cancelled.service", time.Minute)
		s.expect(s.remedy.Execute(s.cancelling("active"), order), v1alpha1.ReasonStartFailed,
			`systemd's job to restart cancelled\.service was cancelled before it began, .*: it is active \(running\) as before; .*`)
		s.Expect(s.prepare(time.Second).Prepared).To(Equal(order.Prepared))
	})
	t.Run("of a unit that was never started", func(t *testing.T) {
		s, _, order := behindAStart(t, "cancelled-stopped.service", time.Minute)
		s.expect(s.remedy.Execute(s.cancelling("inactive"), order), v1alpha1.ReasonStartFailed,
			`systemd's job to restart cancelled-stopped\.service was cancelled before it began, .*: it is inactive \(dead\) as before; .*`)
	})
}

func TestARestartThatIsCancelledWhenItHasBegunHasFailed(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "cancelled-stop.service", stubborn)
	s.systemctl("start", s.name)
	s.expect(s.remedy.Execute(s.cancelling("deactivating"), s.prepare(time.Minute)), v1alpha1.ReasonFailed,
		`cancelled-stop\.service is deactivating \(\S+\) after its restart: systemd's job was cancelled, .*`)
}

func TestAHangingStopThatReplacesTheRestartIsNotKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "replaced.service", stubborn)
	s.systemctl("start", s.name)
	order := s.prepare(time.Minute)
	ctx := remedy.WithPoints(t.Context(), func(point string) {
		if point == "after-restart" {
			s.systemctl("stop", "--no-block", s.name)
		}
	})
	start := time.Now()
	outcome := s.remedy.Execute(ctx, order)
	s.Expect(time.Since(start)).To(BeNumerically("<", time.Minute))
	s.expect(outcome, v1alpha1.ReasonFailed, `replaced\.service is deactivating \(\S+\) after its restart: systemd's job was cancelled, .*`)
	s.Expect(outcome.Result.Unit.MainPIDAfter).To(Equal(order.Prepared.MainPID))
	s.Expect(s.prepare(time.Second).Prepared).To(Equal(order.Prepared))
}

func TestAHangingStopOfSomebodyElseIsNotAdopted(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "stopped-by-others.service", stubborn)
	s.systemctl("start", s.name)
	order := s.prepare(ample)
	s.systemctl("stop", "--no-block", s.name)
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonInterrupted,
		perhaps+`it is deactivating \(\S+\) and has not been started since; see .*`)
	s.Expect(s.prepare(time.Second).Prepared).To(Equal(order.Prepared), "it was not killed")
}

func TestAnAdoptedOneshotIsProvedByTheInvocationThatSystemdRemembers(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "adopted-oneshot.service", "[Service]\nType=oneshot\nExecStart=/bin/sleep 2\n")
	order := s.prepare(time.Minute)
	s.abandon(order)
	outcome := s.remedy.Adopt(t.Context(), order)
	s.expect(outcome, v1alpha1.ReasonSucceeded, `adopted-oneshot\.service has run to its end, proved by a changed invocation ID`)
	s.Expect(outcome.Result.Unit.InvocationIDAfter).To(HaveLen(32))
	s.Eventually(s.show).WithArguments("InvocationID").WithTimeout(time.Minute).Should(BeEmpty(), "systemd need not remember it any more")
}
