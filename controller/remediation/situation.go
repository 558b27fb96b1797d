package remediation

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/internal/deadline"
)

// situation is all that a decision about one remediation is made from. Others, budgets, past and
// predecessors are the cache's own: they must not be changed.
type situation struct {
	// remediation, open.
	remediation *v1alpha1.Remediation
	// node with the remediation's UID; nil when it is gone.
	node *corev1.Node
	// attempt that status.action names; nil when there is none.
	attempt *attempt.Attempt
	// maintenance that status.maintenance names; nil when there is none.
	maintenance *v1alpha1.NodeMaintenance
	// strays are maintenances of the remediation that its status does not name: they
	// are being deleted.
	strays []v1alpha1.NodeMaintenance
	// held are the maintenances that hold the node and are not the remediation's.
	held []v1alpha1.NodeMaintenance
	// others are the other attempts on the node, whatever their remediation.
	others []attempt.Attempt
	// asked is the object of the name that spec.request has, as the API server has it; nil when
	// there is none.
	asked *v1alpha1.NodemendRemediation
	// policy that the remediation came from, as it is now; nil when gone.
	policy *v1alpha1.RemedyPolicy
	// budgets that select the node, in name order.
	budgets []v1alpha1.RemediationBudget
	// past are the other remediations of the node, open and ended.
	past []v1alpha1.Remediation
	// predecessors are those of former nodes of its name: what was begun for them may still
	// run on the same host.
	predecessors []v1alpha1.Remediation
	// ahead is how many remediations come first, by the name of a budget.
	ahead map[string]int
	// sighting is of the node, if it is clear since a time that is still to come; zero: none yet.
	sighting sighting
	// controlPlane is nil unless the node is part of it.
	controlPlane *gates.ControlPlane
	// leaseRenewed is when the kubelet last renewed the node's Lease.
	leaseRenewed time.Time
	// seen is what was seen of the node's conditions, by the index of their entry of match; nil:
	// nobody has.
	seen []evidence.Seen
	now  time.Time
}

// step returns the step of this number, nil if there is none.
func (s *situation) step(number int32) *v1alpha1.Step { return s.remediation.Step(number) }

// untilOver is after how long the attempt is over at the latest; 0: an event tells.
func (s *situation) untilOver() time.Duration {
	if s.attempt.Endless() {
		return 0
	}
	return s.attempt.Over.Sub(s.now)
}

// mayRunUntil returns until when something that was started under the name of
// this remediation may still run although nobody reports on it: an action that
// was lost or interrupted, or one of a former remediation of the same name. Until
// then nothing is started, and the permit, which goes by the name, is kept.
func (s *situation) mayRunUntil(status *v1alpha1.RemediationStatus) time.Time {
	var until time.Time
	if last := lastRecord(status); last != nil && !last.Executed && v1alpha1.MayHaveExecuted(last.Outcome) {
		until = s.endedBy(s.remediation, last)
	}
	for i := range s.others {
		a := &s.others[i]
		if runs := a.RunsUntil(); s.former(a) && runs.After(until) {
			until = runs
		}
	}
	return until
}

// endedBy returns when the action of a record was over at the latest. One of which nobody
// knows how it ended may have run on until its runner killed it.
func (s *situation) endedBy(r *v1alpha1.Remediation, record *v1alpha1.ActionRecord) time.Time {
	ended := deadline.Ended(r, record)
	for i := range s.others {
		if a := &s.others[i]; a.Name == record.Action && a.Begun != nil && a.Over.Before(ended) {
			ended = a.Over
		}
	}
	if ended.Before(record.FinishedAt.Time) {
		return record.FinishedAt.Time
	}
	return ended
}

// believed reports whether something can have been at a time that somebody else tells:
// before now, as far as clocks agree.
func (s *situation) believed(at time.Time) bool { return !at.After(s.now.Add(evidence.MaxSkew)) }

// duplicated returns another open remediation of the same node and policy that goes on in place
// of this one, nil if there is none: one that has begun goes before one that has not, then the
// older one. There are two when a create was on its way for so long that its sender had given it
// up and started another one, or when people delete the one that the next is named after. That
// a remediation has begun is never taken back, so two never end in favour of each other.
func (s *situation) duplicated() *v1alpha1.Remediation {
	for i := range s.past {
		r := &s.past[i]
		if r.Ended() || isTombstone(r) || r.Spec.Policy.UID != s.remediation.Spec.Policy.UID {
			continue
		}
		if has, had := hasBegun(s.remediation), hasBegun(r); had && !has || had == has && budget.Older(r, s.remediation) {
			return r
		}
	}
	return nil
}

// hasBegun reports whether anything was begun for the remediation, ever.
func hasBegun(r *v1alpha1.Remediation) bool {
	return r.Status.Action != "" || r.Status.Maintenance != "" || len(r.Status.History) > 0
}

// former reports whether the attempt is of a former remediation of this name.
func (s *situation) former(a *attempt.Attempt) bool {
	return a.Remediation == s.remediation.Name && a.RemediationUID != s.remediation.UID
}

// judged is what must be clear for the node to be recovered: the match, and once the
// node was taken out or given up as silent, that it is Ready. Then a node that is not,
// or does not answer, is a fault as well, whatever its checks said last.
func (s *situation) judged(status *v1alpha1.RemediationStatus) []v1alpha1.ConditionMatch {
	match := s.remediation.Spec.Match
	if status.Maintenance == "" && !silent(status) {
		return match
	}
	match = slices.Clone(match)
	for _, notReady := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		match = append(match, v1alpha1.ConditionMatch{Type: string(corev1.NodeReady), Status: notReady})
	}
	return match
}

// silent reports whether steps were left out since the node did not answer.
func silent(status *v1alpha1.RemediationStatus) bool {
	last := lastRecord(status)
	return last != nil && !last.Former && last.Outcome == v1alpha1.ReasonExpired && last.Step < status.Step
}

// notReady reports whether the node is known not to be Ready.
func (s *situation) notReady() bool {
	c := v1alpha1.FindNodeCondition(s.node, string(corev1.NodeReady))
	return c != nil && c.Status != corev1.ConditionTrue
}

// lateReport returns how long the runner of a node that was away may still take to report:
// its detector may have been faster.
func (s *situation) lateReport() time.Duration {
	c := v1alpha1.FindNodeCondition(s.node, string(corev1.NodeReady))
	if c == nil || c.Status != corev1.ConditionTrue || c.LastTransitionTime.After(s.now) {
		return 0
	}
	return max(0, c.LastTransitionTime.Add(deadline.ReportGrace).Sub(s.now))
}

// proof is what the conditions of the node prove.
type proof struct {
	// matched is about the match of the policy, in its order.
	matched []evidence.Finding
	// ready is about whether the node is Ready, where that counts as well.
	ready []evidence.Finding
}

// all returns both.
func (p proof) all() []evidence.Finding { return slices.Concat(p.matched, p.ready) }

// proof judges the remediation's match on evidence from after the last
// action on the node, whatever its remediation, and its last boot. An action on which
// nobody has reported has ended once its runner must have killed it.
func (s *situation) proof(status *v1alpha1.RemediationStatus) proof {
	var after time.Time
	if last := status.LastActed(); last != nil {
		after = s.endedBy(s.remediation, last)
	}
	if until := s.mayRunUntil(status); until.After(after) && !until.After(s.now) {
		after = until
	}
	if status.BootedAt != nil && status.BootedAt.After(after) {
		after = status.BootedAt.Time
	}
	for _, r := range slices.Concat(s.past, s.predecessors) {
		if last := r.Status.LastActed(); last != nil && s.believed(last.FinishedAt.Time) {
			if ended := s.endedBy(&r, last); ended.After(after) {
				after = ended
			}
		}
	}
	for i := range s.others {
		a := &s.others[i]
		if a.End == nil || !v1alpha1.MayHaveExecuted(a.End.Reason) || !s.believed(a.End.At) {
			continue
		}
		ended := a.End.At
		if runs := a.RunsUntil(); runs.After(ended) {
			ended = runs
		}
		if ended.After(after) {
			after = ended
		}
	}
	if request := s.remediation.Spec.Request; request != nil {
		return proof{
			matched: []evidence.Finding{s.requested(request, after)},
			ready:   evidence.Judge(s.judged(status), evidence.Input{Node: s.node, LeaseRenewed: s.leaseRenewed, After: after, Now: s.now}),
		}
	}
	all, matched := evidence.Judge(s.judged(status), evidence.Input{
		Node: s.node, LeaseRenewed: s.leaseRenewed, After: after, Began: s.remediation.CreationTimestamp.Time, Seen: s.seen, Now: s.now,
	}), len(s.remediation.Spec.Match)
	return proof{matched: all[:matched:matched], ready: all[matched:]}
}
