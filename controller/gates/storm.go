package gates

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
)

// ReasonStorm says that so many nodes are unhealthy that it is hardly the nodes'
// fault.
const ReasonStorm = "Storm"

// Storm holds a step that would take the node out of service, or evict its pods, while fewer
// nodes of its group are healthy than minHealthy, and for stormCooldown after that. Gentle
// steps go on, and so does a reboot without a drain of a node that is out already.
func Storm(in Input) Verdict {
	if !HeldInStorm(in.Step(), in.Node, in.Maintenance) {
		return Verdict{}
	}
	for i := range in.Budgets {
		b := &in.Budgets[i]
		group := budget.GroupOf(b, in.Node)
		g := b.Status.Groups[group]
		if g.Storm == nil || b.Spec.MinHealthy == nil {
			continue
		}
		since := stamp(g.Storm.Since.Time)
		if calm := g.Storm.CalmSince; calm != nil {
			until := calm.Add(budget.StormCooldown(&b.Spec))
			if !in.Now.Before(until) {
				continue
			}
			return Verdict{
				Reason: ReasonStorm,
				Message: fmt.Sprintf("budget %s: too few nodes%s were healthy from %s to %s; nothing is disrupted before %s (spec.stormCooldown)",
					b.Name, of(group), since, stamp(calm.Time), stamp(until)),
				Recheck: until.Sub(in.Now),
			}
		}
		return Verdict{
			Reason: ReasonStorm,
			Message: fmt.Sprintf("budget %s: %d of %s%s are healthy, spec.minHealthy requires %s; since %s",
				b.Name, g.Healthy, plural(int(g.Nodes), "node", "nodes"), of(group), b.Spec.MinHealthy, since),
			Recheck: BudgetRecheck,
		}
	}
	return Verdict{}
}

// HeldInStorm reports whether a storm holds the step. That the node is not Ready makes a
// maintenance or a drain no better: where the network is what is broken, the pods run on, and
// each kubelet that is back kills those that were evicted meanwhile. What the remediation's own
// maintenance, nil if there is none, has done already is done. A machine is deleted in no storm.
func HeldInStorm(step *v1alpha1.Step, node *corev1.Node, own *v1alpha1.NodeMaintenance) bool {
	if step.Replaces() {
		return true
	}
	if own != nil && own.Drained() && (own.Spec.Drain != nil || step.Drain() == nil) {
		return false
	}
	return budget.Disrupts(step, node) || step.Final() || step.Drain() != nil
}
