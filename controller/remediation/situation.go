package remediation

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
)

// situation is all that a decision about one remediation is made from.
type situation struct {
	// remediation, open.
	remediation *v1alpha1.Remediation
	// node with the remediation's UID; nil when it is gone.
	node *corev1.Node
	// action that status.action names; nil when there is none.
	action *v1alpha1.NodeAction
	// others are the other actions on the node, whatever their remediation.
	others []v1alpha1.NodeAction
	// policy that the remediation came from, as it is now; nil when gone.
	policy *v1alpha1.RemedyPolicy
	// budgets that select the node, in name order.
	budgets []v1alpha1.RemediationBudget
	// leaseRenewed is when the kubelet last renewed the node's Lease.
	leaseRenewed time.Time
	now          time.Time
}

func (s *situation) step(status *v1alpha1.RemediationStatus) *v1alpha1.Step {
	return &s.remediation.Spec.Steps[status.Step-1]
}

// mayRunUntil returns until when something that was started under the name of
// this remediation may still run although nobody reports on it: an action that
// was lost or interrupted, or one of a former remediation of the same name. Until
// then nothing is started, and the permit, which goes by the name, is kept.
func (s *situation) mayRunUntil(status *v1alpha1.RemediationStatus) time.Time {
	var until time.Time
	if last := lastRecord(status); last != nil && !last.Executed && mayHaveRun(last.Outcome) {
		until = last.FinishedAt.Add(s.step(status).Timeout.Duration + killGrace)
	}
	for i := range s.others {
		a := &s.others[i]
		if s.former(a) && a.MayRun() && overBy(a).After(until) {
			until = overBy(a)
		}
	}
	return until
}

// former reports whether the action is of a former remediation of this name.
func (s *situation) former(a *v1alpha1.NodeAction) bool {
	return a.Spec.Remediation == s.remediation.Name && a.Spec.RemediationUID != s.remediation.UID
}

// findings judges the remediation's match on evidence from after the last
// action on the node, whatever its remediation.
func (s *situation) findings(status *v1alpha1.RemediationStatus) []evidence.Finding {
	var after time.Time
	if last := lastRecord(status); last != nil && mayHaveRun(last.Outcome) {
		after = last.FinishedAt.Time
	}
	for i := range s.others {
		f := s.others[i].Finished()
		if f != nil && mayHaveRun(f.Reason) && f.LastTransitionTime.After(after) && !f.LastTransitionTime.After(s.now) {
			after = f.LastTransitionTime.Time
		}
	}
	return evidence.Judge(s.remediation.Spec.Match, evidence.Input{
		Node: s.node, LeaseRenewed: s.leaseRenewed, After: after, Now: s.now,
	})
}
