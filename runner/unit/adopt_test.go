//go:build integration

package unit_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/systemd/systemdtest"
)

// abandon executes the order until the restart was asked for and the runner is told
// to stop.
func (s *scene) abandon(order remedy.Order) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	ctx = remedy.WithPoints(ctx, func(point string) {
		if point == "after-restart" {
			cancel()
		}
	})
	start := time.Now()
	s.Expect(s.remedy.Execute(ctx, order)).To(BeNil())
	s.Expect(time.Since(start)).To(BeNumerically("<", order.Step.Timeout.Duration))
}

func TestAnAdoptedRestartIsProvedByTheInvocation(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "adopted.service", sleeper)
	s.systemctl("start", s.name)
	order := s.prepare(time.Minute)
	s.abandon(order)
	outcome := s.remedy.Adopt(t.Context(), order)
	s.expect(outcome, v1alpha1.ReasonSucceeded,
		`adopted\.service is active \(running\) again: main process \d+ -> \d+, proved by a changed invocation ID`)
	s.Expect(outcome.Result.StartedAt.Time).To(BeTemporally("~", order.StartedAt, time.Microsecond))

	after := s.prepare(time.Minute).Prepared
	s.Expect(after.InvocationID).To(Equal(outcome.Result.Unit.InvocationIDAfter), "it was not restarted again")
}

func TestAnAdoptedRestartThatFailedHasFailed(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "adopted-dead.service", "[Service]\nType=exec\nExecStart=/bin/sh -c 'exit 7'\n")
	order := s.prepare(time.Minute)
	_, _ = s.host.Run(t.Context(), "systemctl", "restart", s.name) // it may see the failure
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonFailed,
		`adopted-dead\.service (was restarted and did not stay active: it )?is failed \(failed\).*status 7; see .*`)
}

func TestARestartThatWasPerhapsNotAskedForIsInterrupted(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "unasked.service", sleeper)
	s.systemctl("start", s.name)
	order := s.prepare(time.Minute)
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonInterrupted,
		`the restart of unasked\.service may or may not have been asked for: it is active \(running\) and has not been started since; .*`)
	s.Expect(s.prepare(time.Minute).Prepared).To(Equal(order.Prepared), "it was not restarted")
}

func TestACrashLoopIsNotTakenForAnAdoptedRestart(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "loops.service", "[Service]\nType=exec\nExecStart=/bin/sleep 10000\nRestart=always\nRestartSec=100ms\n")
	s.systemctl("start", s.name)
	order := s.prepare(time.Minute)
	s.systemctl("kill", "--signal=KILL", s.name) // it crashes by itself
	s.Eventually(s.show).WithArguments("NRestarts").WithTimeout(time.Minute).Should(Equal("1"))
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonInterrupted,
		`the restart of loops\.service may or may not have been asked for: it is \S+ \(\S+\), and systemd has restarted it by itself since; .*`)

	order = s.prepare(time.Minute)
	s.abandon(order)
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonSucceeded, `loops\.service is active .*, proved by a changed invocation ID`)
}

func TestAnAdoptedRestartThatIsUnderWayIsWaitedFor(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "slow.service",
		"[Service]\nType=exec\nExecStart=/bin/sleep 10000\nExecStop=/bin/sleep 2\n")
	s.systemctl("start", s.name)
	order := s.prepare(time.Minute)
	s.abandon(order)
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonSucceeded, `slow\.service is active .*, proved by a changed invocation ID`)
}

func TestAnAdoptedRestartWhoseStopIsWedgedIsKilledAtItsOwnTimeout(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "adopted-stubborn.service", stubborn)
	s.systemctl("start", s.name)
	order := s.prepare(20 * time.Second)
	s.abandon(order)
	order.StartedAt = order.StartedAt.Add(-time.Hour) // the runner was away for long
	start := time.Now()
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonSucceeded,
		`.* is active \(running\) again: .*, proved by a changed invocation ID; it did not stop within 20s, and its processes were killed .*`)
	s.Expect(time.Since(start)).To(BeNumerically("<", order.Step.Timeout.Duration))
}

func TestAnOrderFromTheFutureHasItsTimeoutFromNow(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "future.service", stubborn)
	s.systemctl("start", s.name)
	order := s.prepare(ample)
	s.abandon(order)
	order.StartedAt = order.StartedAt.Add(time.Hour) // the clock was set back
	start := time.Now()
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonSucceeded, `.*escalated to kill.*`)
	s.Expect(time.Since(start)).To(BeNumerically(">=", ample))
}

func TestAnAdoptionWaitsForASystemdThatHangs(t *testing.T) {
	t.Parallel()
	host := ownHost(t)
	s := newScene(t, host, "thawed.service", sleeper)
	s.systemctl("start", s.name)
	order := s.prepare(time.Minute)
	s.abandon(order)

	thaw := host.Freeze(t)
	timer := time.AfterFunc(2*time.Second, thaw)
	defer timer.Stop()
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonSucceeded, `thawed\.service is active .*`)

	host.Freeze(t)
	order.Step.Timeout.Duration = time.Second
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonInterrupted, `.*systemd did not answer within 1s; .*`)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	order.Step.Timeout.Duration = time.Hour
	s.Expect(s.remedy.Adopt(ctx, order)).To(BeNil())
}

func TestAnothersRestartIsNotKilledByAnAdoption(t *testing.T) {
	t.Parallel()
	s := newScene(t, systemdtest.Shared(t), "others.service", "[Service]\nType=exec\nExecStart=/bin/sleep 10000\nExecStop=/bin/sleep 4\n"+
		"ExecStopPost=/bin/sh -c 'echo $SERVICE_RESULT >>/run/others-result'\n")
	s.systemctl("start", s.name)
	order := s.prepare(time.Minute)
	s.abandon(order)
	s.systemctl("restart", s.name) // it replaces ours, or comes after it
	// Much later a person restarts the unit, and in this moment a runner comes back.
	s.systemctl("restart", "--no-block", s.name)
	order.StartedAt = order.StartedAt.Add(-10 * time.Minute)
	s.expect(s.remedy.Adopt(t.Context(), order), v1alpha1.ReasonFailed, `others\.service (was restarted and did not stay active: it )?is deactivating \(\S+\).*`)
	s.systemctl("start", s.name) // waits for the end of what is under way
	results, err := s.host.Run(t.Context(), "tail", "-n1", "/run/others-result")
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(string(results)).NotTo(ContainSubstring("signal"), "it was killed")
}
