package unit

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestAnEndingIsJudgedByTheInvocationAndTheState(t *testing.T) {
	const before, after, later = "aa", "bb", "cc"
	running := state{active: "active", sub: "running", invocation: after, mainPID: 456, kind: "simple", result: "success"}
	old := state{active: "active", sub: "running", changed: 5, invocation: before, mainPID: 123, kind: "simple", result: "success"}
	failed := state{active: "failed", sub: "failed", invocation: after, kind: "simple", result: "exit-code", exitCode: exited, exitStatus: 203}
	waiting := state{active: "activating", sub: "auto-restart", invocation: after, kind: "simple", result: "exit-code", exitCode: exited, exitStatus: 1}
	stopping := state{active: "deactivating", sub: "stop-sigterm", changed: 9, invocation: before, job: 7, mainPID: 123}
	dead := state{active: "inactive", sub: "dead", kind: "simple", result: "success"}
	oneshot := state{active: "inactive", sub: "dead", kind: "oneshot", result: "success"}
	with := func(s state, change func(*state)) state { change(&s); return s }

	for name, c := range map[string]struct {
		ending  ending
		reason  string
		message string
	}{
		"restarted": {
			ending{accepted: true, seen: true, job: jobDone, first: running, last: running},
			v1alpha1.ReasonSucceeded,
			"x.service is active (running) again: main process 123 -> 456, after 1.2s",
		},
		"restarted, the signal was lost": {
			ending{accepted: true, seen: true, first: running, last: running},
			v1alpha1.ReasonSucceeded,
			"x.service is active (running) again: main process 123 -> 456, after 1.2s",
		},
		"restarted, while it reloads": {
			ending{accepted: true, seen: true, first: running, last: with(running, func(s *state) { s.active = "reloading"; s.sub = "reload" })},
			v1alpha1.ReasonSucceeded,
			"x.service is reloading (reload) again: main process 123 -> 456, after 1.2s",
		},
		"adopted": {
			ending{seen: true, first: running, last: running},
			v1alpha1.ReasonSucceeded,
			"x.service is active (running) again: main process 123 -> 456, proved by a changed invocation ID",
		},
		"adopted, and systemd has restarted it by itself": {
			ending{seen: true, restarts: 2, first: running, last: with(running, func(s *state) { s.restarts = 3 })},
			v1alpha1.ReasonInterrupted,
			"the restart of x.service may or may not have been asked for: it is active (running), and systemd has restarted it by itself since; see systemctl status x.service",
		},
		"adopted, and systemd had restarted it by itself": {
			ending{seen: true, restarts: 2, first: running, last: running},
			v1alpha1.ReasonSucceeded,
			"x.service is active (running) again: main process 123 -> 456, proved by a changed invocation ID",
		},
		"restarted after systemd has done so by itself": {
			ending{accepted: true, seen: true, first: running, last: with(running, func(s *state) { s.restarts = 1 })},
			v1alpha1.ReasonSucceeded,
			"x.service is active (running) again: main process 123 -> 456, after 1.2s",
		},
		"killed while it stopped": {
			ending{accepted: true, seen: true, overdue: true, wedged: true, killed: "they were killed", job: jobDone, first: running, last: running},
			v1alpha1.ReasonSucceeded,
			"x.service is active (running) again: main process 123 -> 456, after 1.2s; it did not stop within 1m0s, and they were killed",
		},
		"killed while it started": {
			ending{accepted: true, seen: true, overdue: true, killed: "they were killed", job: "failed", first: running, last: running},
			v1alpha1.ReasonTimedOut,
			"the restart of x.service was not over within 1m0s: they were killed; then it was active (running); see systemctl status x.service",
		},
		"killed and still stopping": {
			ending{accepted: true, seen: true, overdue: true, wedged: true, killed: "they were killed", first: stopping, last: stopping},
			v1alpha1.ReasonTimedOut,
			"the restart of x.service was not over within 1m0s: they were killed; then it was deactivating (stop-sigterm); see systemctl status x.service",
		},
		"the job waited for others": {
			ending{accepted: true, seen: true, overdue: true, cancelled: "its job was cancelled", job: jobCancelled, prior: old, first: old, last: old},
			v1alpha1.ReasonTimedOut,
			"the restart of x.service was not over within 1m0s: its job was cancelled; then it was active (running); see systemctl status x.service",
		},
		"killed and then cancelled": {
			ending{accepted: true, seen: true, overdue: true, wedged: true, killed: "they were killed", cancelled: "its job was cancelled", first: failed, last: failed},
			v1alpha1.ReasonTimedOut,
			"the restart of x.service was not over within 1m0s: they were killed, and its job was cancelled; then it was failed (failed): result exit-code, main process exited with status 203/EXEC; see systemctl status x.service",
		},
		"not executable": {
			ending{accepted: true, seen: true, job: "failed", first: failed, last: failed},
			v1alpha1.ReasonFailed,
			"x.service is failed (failed) after its restart: it did not start: result exit-code, main process exited with status 203/EXEC; see systemctl status x.service",
		},
		"waits for the next try": {
			ending{accepted: true, seen: true, job: "failed", first: waiting, last: waiting},
			v1alpha1.ReasonFailed,
			"x.service is activating (auto-restart) after its restart: it did not start: result exit-code, main process exited with status 1; see systemctl status x.service",
		},
		"died at once": {
			ending{accepted: true, seen: true, job: jobDone, first: running, last: waiting},
			v1alpha1.ReasonFailed,
			"x.service was restarted and did not stay active: it is activating (auto-restart): result exit-code, main process exited with status 1; see systemctl status x.service",
		},
		"died at once and was started again": {
			ending{accepted: true, seen: true, job: jobDone, first: running, last: with(running, func(s *state) { s.invocation = later })},
			v1alpha1.ReasonFailed,
			"x.service was restarted and did not stay active: it is active (running); see systemctl status x.service",
		},
		"a signal killed it": {
			ending{accepted: true, seen: true, job: jobDone, first: running, last: with(failed, func(s *state) { s.result, s.exitCode, s.exitStatus = "signal", 2, 9 })},
			v1alpha1.ReasonFailed,
			"x.service was restarted and did not stay active: it is failed (failed): result signal, main process killed by signal SIGKILL; see systemctl status x.service",
		},
		"cancelled before it began": {
			ending{accepted: true, seen: true, job: jobCancelled, prior: old, first: old, last: old},
			v1alpha1.ReasonStartFailed,
			"systemd's job to restart x.service was cancelled before it began, as by systemctl cancel; nothing was executed: it is active (running) as before; see systemctl status x.service",
		},
		"cancelled before it began, never started": {
			ending{accepted: true, seen: true, held: true, job: jobCancelled, prior: dead, first: dead, last: dead},
			v1alpha1.ReasonStartFailed,
			"systemd's job to restart x.service was cancelled before it began, as by systemctl cancel; nothing was executed: it is inactive (dead) as before; see systemctl status x.service",
		},
		"cancelled, and perhaps forgotten": {
			ending{accepted: true, seen: true, job: jobCancelled, prior: dead, first: dead, last: dead},
			v1alpha1.ReasonFailed,
			"x.service is inactive (dead) after its restart: systemd's job was cancelled, as by systemctl cancel or by a stop of the unit; see systemctl status x.service",
		},
		"cancelled while it stopped": {
			ending{accepted: true, seen: true, held: true, job: jobCancelled, prior: old, first: stopping, last: stopping},
			v1alpha1.ReasonFailed,
			"x.service is deactivating (stop-sigterm) after its restart: systemd's job was cancelled, as by systemctl cancel or by a stop of the unit; see systemctl status x.service",
		},
		"done without a restart": {
			ending{accepted: true, seen: true, held: true, job: jobDone, prior: old, first: old, last: old},
			v1alpha1.ReasonFailed,
			"x.service is active (running) but was not restarted: systemd's job is done, so it has ended at once or a condition in its unit file is not met; see systemctl status x.service",
		},
		"cancelled when the unit had changed": {
			ending{accepted: true, seen: true, held: true, job: jobCancelled, prior: old, first: old, last: with(old, func(s *state) { s.changed++ })},
			v1alpha1.ReasonFailed,
			"x.service is active (running) but was not restarted: systemd's job was cancelled, as by systemctl cancel or by a stop of the unit; see systemctl status x.service",
		},
		"a required unit failed": {
			ending{accepted: true, seen: true, job: "dependency", first: with(oneshot, func(s *state) { s.kind = "simple" }), last: with(oneshot, func(s *state) { s.kind = "simple" })},
			v1alpha1.ReasonFailed,
			"x.service is inactive (dead) after its restart: a unit that it requires did not start (see systemctl list-dependencies); see systemctl status x.service",
		},
		"a condition is not met": {
			ending{accepted: true, seen: true, job: jobDone, first: with(oneshot, func(s *state) { s.conditionFailed = true }), last: with(oneshot, func(s *state) { s.conditionFailed = true })},
			v1alpha1.ReasonFailed,
			"x.service is inactive (dead) after its restart: systemd's job is done, so it has ended at once or a condition in its unit file is not met: " +
				"a condition in its unit file is not met, so systemd does not start it; see systemctl status x.service",
		},
		"a oneshot that systemd has forgotten": {
			ending{accepted: true, seen: true, job: jobDone, first: oneshot, last: oneshot},
			v1alpha1.ReasonSucceeded, "x.service has run to its end, after 1.2s",
		},
		"a oneshot whose assertion is not met": {
			ending{accepted: true, seen: true, job: "assert", first: oneshot, last: oneshot},
			v1alpha1.ReasonFailed,
			"x.service is inactive (dead) after its restart: an assertion in its unit file (Assert…=) is not met; see systemctl status x.service",
		},
		"a oneshot that was killed while it stopped": {
			ending{accepted: true, seen: true, overdue: true, wedged: true, killed: "they were killed", job: jobDone, first: oneshot, last: oneshot},
			v1alpha1.ReasonSucceeded, "x.service has run to its end, after 1.2s; it did not stop within 1m0s, and they were killed",
		},
		"a oneshot that failed": {
			ending{accepted: true, seen: true, job: "failed", first: with(failed, func(s *state) { s.kind = "oneshot" }), last: with(failed, func(s *state) { s.kind = "oneshot" })},
			v1alpha1.ReasonFailed,
			"x.service is failed (failed) after its restart: it did not start: result exit-code, main process exited with status 203/EXEC; see systemctl status x.service",
		},
		"adopted, a oneshot that systemd has forgotten": {
			ending{seen: true, first: oneshot, last: oneshot},
			v1alpha1.ReasonInterrupted,
			"the restart of x.service may or may not have been asked for: it is inactive (dead) and has not been started since; see systemctl status x.service",
		},
		"adopted, not restarted": {
			ending{seen: true, first: old, last: old},
			v1alpha1.ReasonInterrupted,
			"the restart of x.service may or may not have been asked for: it is active (running) and has not been started since; see systemctl status x.service",
		},
		"adopted, the job waited for others": {
			ending{seen: true, overdue: true, cancelled: "its job was cancelled", first: old, last: old},
			v1alpha1.ReasonInterrupted,
			"the restart of x.service may or may not have been asked for: it is active (running) and has not been started since; its job was cancelled; see systemctl status x.service",
		},
		"adopted, restarted and failed": {
			ending{seen: true, first: failed, last: failed},
			v1alpha1.ReasonFailed,
			"x.service is failed (failed) after its restart: what became of systemd's job is not known: result exit-code, main process exited with status 203/EXEC; see systemctl status x.service",
		},
		"nobody answers": {
			ending{overdue: true},
			v1alpha1.ReasonInterrupted,
			"the restart of x.service may or may not have been asked for: systemd did not answer within 1m0s; see systemctl status x.service",
		},
		"nobody answers after the restart was accepted": {
			ending{accepted: true, overdue: true, first: old, last: old},
			v1alpha1.ReasonTimedOut,
			"systemd began to restart x.service and did not answer any more within 1m0s; see systemctl list-jobs",
		},
		"nobody answers after the unit was seen active": {
			ending{accepted: true, first: running, last: running},
			v1alpha1.ReasonTimedOut,
			"systemd began to restart x.service and did not answer any more within 1m0s; see systemctl list-jobs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c.ending.unit, c.ending.before, c.ending.mainPID = "x.service", before, 123
			c.ending.timeout, c.ending.took = time.Minute, 1234*time.Millisecond
			reason, message := c.ending.judge()
			g.Expect(reason).To(Equal(c.reason), message)
			g.Expect(message).To(Equal(c.message))
		})
	}
}

func TestAUnitThatWasNeverStartedIsProvedByAnyInvocation(t *testing.T) {
	g := NewWithT(t)
	listening := state{active: "active", sub: "listening", invocation: "bb"}
	reason, message := ending{unit: "x.socket", seen: true, first: listening, last: listening}.judge()
	g.Expect(reason).To(Equal(v1alpha1.ReasonSucceeded))
	g.Expect(message).To(Equal("x.socket is active (listening) again, proved by a changed invocation ID"))
}

func TestEveryResultOfAJobIsExplained(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for _, result := range []string{"", "done", "failed", "canceled", "timeout", "dependency", "skipped", "assert", "once"} {
		text := ending{job: result}.jobResult()
		g.Expect(text).NotTo(BeEmpty())
		seen[text] = true
	}
	g.Expect(seen).To(HaveLen(9))
	g.Expect(ending{job: "once"}.jobResult()).To(ContainSubstring(`"once"`))
}
