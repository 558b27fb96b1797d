package remediation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// whenClear are the rules for a node that is proved to be clear.
func whenClear() []rule {
	return []rule{
		{"healing", healing},
		{"a person is to give the node back", releaseRequired},
		{"recovered", recovered},
		otherwise("recovered by itself", recoveredByItself),
	}
}

// released is for a node that is not clear, and that a person has given back.
func released(d decision, s situation) (decision, bool) {
	if d.clear || !d.releasedByAPerson(s) {
		return d, false
	}
	return d.ended(s.now, metav1.ConditionFalse, v1alpha1.ReasonReleased,
		fmt.Sprintf("a person has deleted maintenance %s, which gives node %s back", s.remediation.Status.Maintenance, s.node.Name)), true
}

// healing waits until the node was clear for long enough.
func healing(d decision, s situation) (decision, bool) {
	left := d.clearSince.Add(s.remediation.Spec.Recovery.HealthyFor.Duration).Sub(s.now)
	if left <= 0 {
		return d, false
	}
	d.isClear(s)
	d.unblocked(s.now)
	d.wait = left
	return d.calmed(s), true
}

func releaseRequired(d decision, s situation) (decision, bool) {
	if s.remediation.Spec.Recovery.Release != v1alpha1.ReleaseManual || d.status.Maintenance == "" || d.releasedByAPerson(s) {
		return d, false
	}
	d.isClear(s)
	return d.blocked(s.now, releaseVerdict(d.status.Maintenance)).calmed(s), true
}

func recovered(d decision, s situation) (decision, bool) {
	if d.status.LastActed() == nil {
		return d, false
	}
	return d.ended(s.now, metav1.ConditionTrue, v1alpha1.ReasonRecovered, fmt.Sprintf("clear since %s", clockTime(d.clearSince))), true
}

func recoveredByItself(d decision, s situation) decision {
	return d.ended(s.now, metav1.ConditionTrue, v1alpha1.ReasonRecoveredByItself,
		fmt.Sprintf("clear since %s, no action was executed", clockTime(d.clearSince)))
}

// recovers reports whether it is said now that the node has recovered.
func (d *decision) recovers() bool {
	return d.status.EndTime != nil && meta.IsStatusConditionTrue(d.status.Conditions, v1alpha1.RemediationRecovered)
}

// isClear says that the node is, and forgets a maintenance that a person has deleted.
func (d *decision) isClear(s situation) {
	if d.releasedByAPerson(s) {
		d.status.Maintenance = ""
	}
	d.progressing(s.now, v1alpha1.ReasonHealing, "the node is clear since "+clockTime(d.clearSince))
}
