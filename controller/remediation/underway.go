package remediation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/internal/deadline"
)

// underWay are the rules for an action that the status names.
func underWay() []rule {
	return []rule{
		{"action lost", lostAction},
		{"action not wanted any more", unwantedAction},
		{"action announced", announcedAction},
		{"runner executes", executing},
		{"rebooted without a report", rebooted},
		{"clear without a report", clearUnreported},
		{"no report", noReport},
		{"action only takes a name", voidAction},
		{"clear before the claim", clearUnclaimed},
		{"in service before the claim", inServiceUnclaimed},
		{"paused before the claim", pausedUnclaimed},
		{"not claimed in time", notClaimed},
		otherwise("action waits for its runner", awaitClaim),
	}
}

func lostAction(d decision, s situation) (decision, bool) {
	if s.action != nil || d.status.Phase() == v1alpha1.PhaseActionAnnounced {
		return d, false
	}
	return d.lost(s), true
}

func unwantedAction(d decision, s situation) (decision, bool) {
	if s.action != nil || !d.clear && !d.backInService(s) && !gates.First(d.input(s, d.proof.all()), gates.Chain()).Held() {
		return d, false
	}
	d.effect = void
	return d, true
}

func announcedAction(d decision, s situation) (decision, bool) {
	if s.action != nil {
		return d, false
	}
	d.effect = create
	return d, true
}

func executing(d decision, s situation) (decision, bool) {
	if s.action.Status.Claim == nil || !deadline.Over(s.action).After(s.now) {
		return d, false
	}
	d.executes(s)
	d.unblocked(s.now)
	d.wait = deadline.Over(s.action).Sub(s.now)
	return d, true
}

// rebooted is for a reboot that nobody has reported on: the node itself tells what became of it.
func rebooted(d decision, s situation) (decision, bool) {
	if s.action.Status.Claim == nil {
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
	if s.action.Status.Claim == nil || !d.clear && !d.retryAsked(s) {
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
		d.progressing(s.now, v1alpha1.ReasonActing, fmt.Sprintf("the node is clear; the runner may still report on %s", d.status.Action))
		d.unblocked(s.now)
		d.effect, d.wait = release, left
		return d, true
	}
	d.recordUnreported(s, outcome{v1alpha1.ReasonInterrupted, "the runner that claimed it never reported"})
	d.wait = time.Second
	return d, true
}

func noReport(d decision, s situation) (decision, bool) {
	if s.action.Status.Claim == nil {
		return d, false
	}
	d.executes(s)
	return d.blocked(s.now, gates.Verdict{
		Reason:  reasonNoReport,
		Message: fmt.Sprintf("the runner claimed %s at %s and has not reported since", d.status.Action, clockTime(s.action.Status.Claim.Time.Time)),
	}), true
}

func voidAction(d decision, s situation) (decision, bool) {
	return d.cancels(v1alpha1.ReasonCancelled, voided), isVoid(s.action)
}

func clearUnclaimed(d decision, _ situation) (decision, bool) {
	return d.cancels(v1alpha1.ReasonCancelled, "the condition cleared before a runner claimed the action"), d.clear
}

func inServiceUnclaimed(d decision, s situation) (decision, bool) {
	return d.cancels(v1alpha1.ReasonCancelled, "the node was given back, or pods came to it, before a runner claimed the action"), d.backInService(s)
}

func pausedUnclaimed(d decision, s situation) (decision, bool) {
	verdict := gates.Paused(d.input(s, d.proof.all()))
	return d.cancels(v1alpha1.ReasonCancelled, verdict.Message), verdict.Held()
}

func notClaimed(d decision, s situation) (decision, bool) {
	if deadline.Claimable(s.action).After(s.now) {
		return d, false
	}
	d = awaitClaim(d, s)
	d.wait = 0
	return d.cancels(v1alpha1.ReasonExpired, fmt.Sprintf("no runner on the node claimed the action within %s", deadline.ClaimTime)), true
}

func awaitClaim(d decision, s situation) decision {
	d.executes(s)
	d.unblocked(s.now)
	d.wait = deadline.Claimable(s.action).Sub(s.now)
	return d
}

// executes says that it is for the runner now, whether or not it has claimed the action: that
// stands in the action, and is not worth a write here.
func (d *decision) executes(s situation) {
	d.progressing(s.now, v1alpha1.ReasonActing, fmt.Sprintf("the node's runner is to execute %s", d.status.Action))
}

// cancels is the decision to cancel the action, unless a runner has claimed it.
func (d decision) cancels(reason, message string) decision {
	d.effect, d.cancelled = cancel, outcome{reason, message}
	return d
}

// lost remembers that somebody has deleted the action that is under way.
func (d decision) lost(s situation) decision {
	d.recordUnreported(s, outcome{v1alpha1.ReasonLost, "the NodeAction was deleted while it was under way"})
	d.wait = time.Second
	return d
}

// reboot tells what became of a reboot on which nobody has reported, if the node itself does: it
// has another boot ID, or does not answer.
func (d *decision) reboot(s situation) (outcome, bool) {
	if !s.step(d.status.Step).Reboots() {
		return outcome{}, false
	}
	claimed := s.action.Status.Claim.BootID
	switch bootID := s.node.Status.NodeInfo.BootID; {
	case claimed != "" && bootID != "" && bootID != claimed:
		return outcome{v1alpha1.ReasonSucceeded, "the node has booted again, and its runner has not reported"}, true
	case s.notReady():
		return outcome{v1alpha1.ReasonNotBack, fmt.Sprintf("node %s was told to reboot and has not come back", s.node.Name)}, true
	default:
		return outcome{}, false
	}
}
