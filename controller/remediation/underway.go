package remediation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/internal/deadline"
)

// underWay are the rules for an action that the status names.
func underWay() []rule {
	return []rule{
		{"action lost", lostAction},
		{"action not wanted any more", unwantedAction},
		{"action announced", announcedAction},
		{"clear while another program is at work", recallClear},
		{"runner executes", executing},
		{"rebooted without a report", rebooted},
		{"clear without a report", clearUnreported},
		{"no report", noReport},
		{"action only takes a name", voidAction},
		{"clear before the claim", clearUnclaimed},
		{"in service before the claim", inServiceUnclaimed},
		{"paused before the claim", pausedUnclaimed},
		{"another program has the node before the claim", takenUnclaimed},
		{"not claimed in time", notClaimed},
		otherwise("action waits for its runner", awaitClaim),
	}
}

// letGoTime is how long another program may take to let go of a node before people are told.
const letGoTime = 5 * time.Minute

func lostAction(d decision, s situation) (decision, bool) {
	if s.attempt != nil || d.status.Phase() == v1alpha1.PhaseActionAnnounced {
		return d, false
	}
	return d.lost(s), true
}

func unwantedAction(d decision, s situation) (decision, bool) {
	if s.attempt != nil || !d.clear && !d.backInService(s) && !gates.First(d.input(s, d.proof.all()), gates.Chain()).Held() {
		return d, false
	}
	d.effect = void
	return d, true
}

func announcedAction(d decision, s situation) (decision, bool) {
	if s.attempt != nil {
		return d, false
	}
	d.effect = create
	return d, true
}

func executing(d decision, s situation) (decision, bool) {
	if s.attempt.Begun == nil || !s.attempt.Over.After(s.now) {
		return d, false
	}
	d.executes(s)
	d.wait = s.untilOver()
	if stopped := s.attempt.Stopped; !stopped.IsZero() {
		if d.wait = stopped.Add(letGoTime).Sub(s.now); d.wait <= 0 {
			d.set(s.now, v1alpha1.RemediationBlocked, metav1.ConditionTrue, v1alpha1.ReasonStillRunning,
				head(fmt.Sprintf("%s is to stop since %s, and its object is not gone: %s", d.who(s), clockTime(stopped), s.attempt.Progress)))
			d.wait = 0
			return d, true // with the permit
		}
	}
	if due := s.attempt.Due; !due.IsZero() {
		if d.wait = due.Add(letGoTime).Sub(s.now); d.wait <= 0 {
			d.set(s.now, v1alpha1.RemediationBlocked, metav1.ConditionTrue, v1alpha1.ReasonStillRunning,
				head(fmt.Sprintf("%s was to be done by %s, and is not: %s", d.status.Action, clockTime(due), s.attempt.Progress)))
			d.wait = 0
			return d, true // with the permit
		}
	}
	d.unblocked(s.now)
	return d, true
}

// sureTime is how long a node is clear at least before another program that may be at work is told
// to stop. Of one that was switched off a moment ago the Lease is fresh, and nothing else is known.
const sureTime = 2 * evidence.MaxLeaseAge

// recallClear has another program stop once the node is clear, or a person wants to start over. The
// permit is kept until its object is gone.
func recallClear(d decision, s situation) (decision, bool) {
	if !s.attempt.Recallable || !d.clear && !d.retryAsked(s) {
		return d, false
	}
	if left := s.untilSure(d.clearSince); left > 0 && !d.retryAsked(s) {
		d.executes(s)
		d.unblocked(s.now)
		d.wait = left
		return d, true
	}
	why := "the node is clear since " + clockTime(d.clearSince)
	if !d.clear {
		why = "a person wants to start over"
	}
	d.executes(s)
	d.unblocked(s.now)
	return d.recalls(s, d.clear, why), true
}

// untilSure is how long another program is still left to work on a node that is clear. One that is
// stopped right after it has switched the machine off may leave it so.
func (s *situation) untilSure(clearSince time.Time) time.Duration {
	claimed, bootID := s.attempt.Begun.BootID, s.node.Status.NodeInfo.BootID
	if s.attempt.Succeeded || claimed != "" && bootID != "" && bootID != claimed {
		return 0
	}
	return clearSince.Add(max(sureTime, s.remediation.Spec.Recovery.HealthyFor.Duration)).Sub(s.now)
}

// rebooted is for a reboot that nobody has reported on: the node itself tells what became of it.
func rebooted(d decision, s situation) (decision, bool) {
	if s.attempt.Begun == nil {
		return d, false
	}
	how, known := d.reboot(s)
	if !known {
		return d, false
	}
	d.executes(s)
	d.recordUnreported(s, how)
	d.wait = time.Second
	return d, true
}

// clearUnreported gives up the report of a runner, unless the node was away until just now: its
// detector may have been faster.
func clearUnreported(d decision, s situation) (decision, bool) {
	if s.attempt.Begun == nil || !d.clear && !d.retryAsked(s) {
		return d, false
	}
	d.executes(s)
	left := s.lateReport()
	if d.blockedBy() == reasonNoReport {
		left = deadline.ReportGrace
	} else if c := meta.FindStatusCondition(d.status.Conditions, v1alpha1.RemediationBlocked); c != nil {
		left = max(left, c.LastTransitionTime.Add(deadline.ReportGrace).Sub(s.now))
	}
	if left > 0 && !d.retryAsked(s) {
		d.progressing(s.now, v1alpha1.ReasonActing, fmt.Sprintf("the node is clear; %s may still report on %s", d.who(s), d.status.Action))
		d.unblocked(s.now)
		d.effect, d.wait = release, left
		return d, true
	}
	d.recordUnreported(s, outcome{v1alpha1.ReasonInterrupted, d.who(s) + " began it and never reported"})
	d.wait = time.Second
	return d, true
}

func noReport(d decision, s situation) (decision, bool) {
	if s.attempt.Begun == nil {
		return d, false
	}
	d.executes(s)
	return d.blocked(s.now, gates.Verdict{
		Reason:  reasonNoReport,
		Message: fmt.Sprintf("%s began %s at %s and has not reported since", d.who(s), d.status.Action, clockTime(s.attempt.Begun.At)),
	}), true
}

func voidAction(d decision, s situation) (decision, bool) {
	return d.cancels(v1alpha1.ReasonCancelled, voided), s.attempt.Void
}

func clearUnclaimed(d decision, _ situation) (decision, bool) {
	return d.cancels(v1alpha1.ReasonCancelled, "the condition cleared before the action began"), d.clear
}

func inServiceUnclaimed(d decision, s situation) (decision, bool) {
	return d.cancels(v1alpha1.ReasonCancelled, "the node was given back, or pods came to it, before the action began"), d.backInService(s)
}

func pausedUnclaimed(d decision, s situation) (decision, bool) {
	verdict := gates.Paused(d.input(s, d.proof.all()))
	return d.cancels(v1alpha1.ReasonCancelled, verdict.Message), verdict.Held()
}

func takenUnclaimed(d decision, s situation) (decision, bool) {
	verdict := gates.OtherHealer(d.input(s, d.proof.all()))
	return d.cancels(v1alpha1.ReasonCancelled, verdict.Message), verdict.Held()
}

func notClaimed(d decision, s situation) (decision, bool) {
	if s.attempt.BeginBy.After(s.now) {
		return d, false
	}
	d = awaitClaim(d, s)
	d.wait = 0
	return d.cancels(v1alpha1.ReasonExpired, fmt.Sprintf("%s did not begin the action within %s", d.who(s), deadline.ClaimTime)), true
}

// othersAgain is how long an action waits for its runner until other programs are asked once more, and
// again. Most are claimed long before.
const othersAgain = 15 * time.Second

func awaitClaim(d decision, s situation) decision {
	d.executes(s)
	d.unblocked(s.now)
	d.wait = s.attempt.BeginBy.Sub(s.now)
	if !s.step(d.status.Step).Disruptive() {
		return d
	}
	if deadline.ClaimTime-d.wait >= othersAgain {
		d.effect = await
	}
	d.wait = min(d.wait, othersAgain)
	return d
}

// executes says that it is for the runner now, whether or not it has claimed the action: that
// stands in the action, and is not worth a write here.
func (d *decision) executes(s situation) {
	if s.attempt.Progress != "" {
		d.progressing(s.now, v1alpha1.ReasonActing, head(fmt.Sprintf("%s executes %s: %s", d.who(s), d.status.Action, s.attempt.Progress)))
		return
	}
	d.progressing(s.now, v1alpha1.ReasonActing, fmt.Sprintf("%s is to execute %s", d.who(s), d.status.Action))
}

// who carries out the attempt, for people.
func (d *decision) who(s situation) string { return attempt.By(s.step(d.status.Step)).Who() }

// recalls is the decision to tell who has begun the action to stop.
func (d decision) recalls(s situation, isClear bool, why string) decision {
	d.effect, d.wait = recall, 0
	d.recalled = attempt.Recall{Clear: isClear, Message: why, At: s.now}
	return d
}

// cancels is the decision to cancel the action, unless a runner has claimed it.
func (d decision) cancels(reason, message string) decision {
	d.effect, d.cancelled = cancel, outcome{reason, message}
	return d
}

// lost remembers that somebody has deleted the action that is under way.
func (d decision) lost(s situation) decision {
	d.recordUnreported(s, outcome{v1alpha1.ReasonLost, fmt.Sprintf("the %s was deleted while it was under way", attempt.By(s.step(d.status.Step)).Kind().Kind)})
	d.wait = time.Second
	return d
}

// reboot tells what became of a reboot on which nobody has reported, if the node itself does: it
// has another boot ID, or does not answer.
func (d *decision) reboot(s situation) (outcome, bool) {
	if !s.step(d.status.Step).Reboots() {
		return outcome{}, false
	}
	claimed := s.attempt.Begun.BootID
	switch bootID := s.node.Status.NodeInfo.BootID; {
	case claimed != "" && bootID != "" && bootID != claimed:
		return outcome{v1alpha1.ReasonSucceeded, "the node has booted again, and nobody has reported on it"}, true
	case s.step(d.status.Step).NeedsRunner() && s.notReady(): // which is why it was silent
		return outcome{v1alpha1.ReasonNotBack, fmt.Sprintf("node %s was told to reboot and has not come back", s.node.Name)}, true
	default:
		return outcome{}, false
	}
}
