package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// countsNoMore reports whether a condition is older than its entry counts, and was so before
// anything that may be on its way was decided.
func (o *oracles) countsNoMore(m *v1alpha1.ConditionMatch, since time.Time) bool {
	return m.IgnoreAfter.Duration > 0 && time.Since(since) > m.IgnoreAfter.Duration+o.onItsWay()+clockSlack
}

// A condition that is older than its entry says starts nothing.
func (o *oracles) startedWhileItCounts(created *v1alpha1.Remediation) {
	t := &created.Spec.Trigger
	if created.Annotations[v1alpha1.TombstoneAnnotation] != "" || created.Spec.Request != nil {
		return
	}
	for i := range created.Spec.Match {
		m := &created.Spec.Match[i]
		if m.Type == t.Type && m.Status == t.Status && !o.countsNoMore(m, t.LastTransitionTime.Time) {
			return
		}
	}
	o.world.broken("A condition that is older than its entry says starts nothing", "%s: %s is %s for %s",
		created.Name, t.Type, t.Status, time.Since(t.LastTransitionTime.Time))
}

// No step is taken for a condition that is older than its entry says.
func (o *oracles) startsWhileItCounts(r *v1alpha1.Remediation, node *corev1.Node) {
	if notReady(node) {
		return // which may be why
	}
	var old string
	for i := range r.Spec.Match {
		m := &r.Spec.Match[i]
		c := v1alpha1.FindNodeCondition(node, m.Type)
		switch {
		case !o.everybodyKnows(o.turned[node.Name+"/"+m.Type]):
			return
		case m.Matches(c) && o.countsNoMore(m, c.LastTransitionTime.Time):
			old = m.Type
		case m.Matches(c):
			return
		}
	}
	if old != "" {
		o.world.broken("No step is taken for a condition that is older than its entry says", "%s: %s on node %s", r.Name, old, node.Name)
	}
}

// heldByAge counts that nothing is done for a condition since it counts no more.
func (o *oracles) heldByAge(old, updated *v1alpha1.Remediation) {
	if old.BlockedBy() == gates.ReasonNoEvidence || updated.BlockedBy() != gates.ReasonNoEvidence {
		return
	}
	for _, c := range updated.Status.Conditions {
		if c.Type == v1alpha1.RemediationBlocked && strings.Contains(c.Message, "counts no more") {
			o.world.count("a condition counts no more")
		}
	}
}
