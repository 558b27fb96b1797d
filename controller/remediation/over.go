package remediation

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// whateverTheNode are the rules that ask nothing of the node's conditions.
func whateverTheNode() []rule {
	return []rule{
		{"tombstone", tombstoneEnds},
		{"duplicate", duplicate},
		{"may still run", mayStillRun},
		{"node gone", nodeIsGone},
		{"deleted", deletedByAPerson},
		{"request over", requestOver},
		{"no such step", noSuchStep},
	}
}

func tombstoneEnds(d decision, s situation) (decision, bool) {
	if !isTombstone(s.remediation) {
		return d, false
	}
	return d.ended(s.now, metav1.ConditionUnknown, v1alpha1.ReasonDeleted, deletedMessage(s.remediation)), true
}

func duplicate(d decision, s situation) (decision, bool) {
	other := s.duplicated()
	if other == nil || d.status.Action != "" || d.status.Maintenance != "" {
		return d, false
	}
	return d.ended(s.now, metav1.ConditionUnknown, v1alpha1.ReasonDuplicate,
		fmt.Sprintf("remediation %s of the same node and policy was open already", other.Name)), true
}

func mayStillRun(d decision, s situation) (decision, bool) {
	until := s.mayRunUntil(&d.status)
	if d.status.Action != "" || !until.After(s.now) {
		return d, false
	}
	return d.stillRunning(s.now, until), true
}

func nodeIsGone(d decision, s situation) (decision, bool) {
	if s.node != nil {
		return d, false
	}
	reason, message := v1alpha1.ReasonNodeGone, "the node was deleted or replaced"
	if last := attempted(&d.status); last != nil && (last.Outcome == v1alpha1.ReasonReplaced || last.Outcome == v1alpha1.ReasonNotReplaced) {
		reason, message = last.Outcome, last.Message
	}
	return d.over(s, reason, message), true
}

func deletedByAPerson(d decision, s situation) (decision, bool) {
	if s.remediation.DeletionTimestamp == nil {
		return d, false
	}
	return d.over(s, v1alpha1.ReasonDeleted, deletedMessage(s.remediation)), true
}

// noSuchStep: somebody has written a status of their own.
func noSuchStep(d decision, s situation) (decision, bool) {
	if s.step(d.status.Step) != nil {
		return d, false
	}
	return d.exhausted(s.now, allInVain), true
}

// over ends a remediation that ends whatever the state of its node, once nothing
// runs any more: a node that was deleted may live on as a machine.
func (d decision) over(s situation, reason, message string) decision {
	d, waits := d.runsOut(s, message)
	if waits {
		return d
	}
	if reason == v1alpha1.ReasonDeleted && s.maintenance != nil && s.maintenance.DeletionTimestamp == nil && !s.cameBack() && s.sick(&d.status) {
		return d.leftBehind(s, reason, message)
	}
	return d.ended(s.now, metav1.ConditionUnknown, reason, message)
}

// runsOut has what is under way end: what nobody has begun is cancelled, what runs is waited for. It
// reports whether there is anything to wait for.
func (d decision) runsOut(s situation, why string) (decision, bool) {
	switch {
	case d.status.Action == "":
		return d, false
	case s.attempt == nil && d.status.Phase() == v1alpha1.PhaseActionAnnounced && s.step(d.status.Step) != nil:
		d.effect = void
		return d, true
	case s.attempt == nil:
		return d.lost(s), true
	case s.attempt.Begun == nil:
		return d.cancels(v1alpha1.ReasonCancelled, why), true
	}
	if until := s.attempt.Over; until.After(s.now) {
		if due := s.attempt.Due; !due.IsZero() && due.Add(letGoTime).After(s.now) { // a new machine is made
			d.executes(s)
			d.unblocked(s.now)
			d.wait = due.Add(letGoTime).Sub(s.now)
			return d, true
		}
		d = d.stillRunning(s.now, until)
		if s.attempt.Recallable {
			return d.recalls(s, false, why), true
		}
		return d.withoutNode(s), true
	}
	d.recordUnreported(s, outcome{v1alpha1.ReasonInterrupted, d.who(s) + " began it and never reported"})
	return d, false
}

// withoutNode returns the permit of a node that is gone once another program has had its time and does
// not let go of it: it never may, and others wait. The name stays taken, by [formerActs].
func (d decision) withoutNode(s situation) decision {
	step := s.step(d.status.Step)
	if s.node != nil || step == nil || !s.attempt.Endless() {
		return d
	}
	due := s.attempt.Begun.At.Add(step.Timeout.Duration)
	if s.attempt.Stopped.After(due) {
		due = s.attempt.Stopped
	}
	if d.wait = due.Add(letGoTime).Sub(s.now); d.wait <= 0 {
		d.effect, d.wait = release, 0
	}
	return d
}
