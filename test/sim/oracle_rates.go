package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// No node is rebooted more often than its budgets allow, by all policies together.
func (o *oracles) rebootsWithinRate(e *execution) {
	w := o.world
	node := find[*corev1.Node](o, e.node.name)
	if !v1alpha1.RemedyNamed(e.remedy).CountsAsReboot || node == nil {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		rate := b.Spec.MaxReboots
		if rate == nil || !selects(b, node) {
			continue
		}
		from := time.Now().Add(-rate.Per.Duration)
		if w.people.limited.After(from) || w.people.meddled.After(from) || node.CreationTimestamp.After(from) && w.people.replaced[node.Name] {
			continue // what was done before counts no more, or others did away with the record
		}
		count := 0
		for _, other := range e.node.executions {
			if v1alpha1.RemedyNamed(other.remedy).CountsAsReboot && other.began.After(from) {
				count++
			}
		}
		if count > int(rate.Count) {
			w.broken("A node is not rebooted more often than maxReboots allows", "node %s: %d times in %s, budget %s allows %d",
				node.Name, count, rate.Per.Duration, b.Name, rate.Count)
		}
	}
}
