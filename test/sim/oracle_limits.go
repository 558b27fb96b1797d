package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/fleet"
)

// quietFor is how long nothing has to have gone wrong with a controller, and nobody to have
// changed limits, before it is to have noticed something.
const quietFor = 4 * time.Minute

// staleFor is more than a view of a controller is ever behind.
const staleFor = 6 * time.Minute

// quiet reports whether the controller has had time to notice how things are.
func (o *oracles) quiet() bool {
	w := o.world
	now := time.Now()
	return len(w.leaders()) == 1 && now.Sub(w.troubled) > quietFor && now.Sub(w.people.limited) > quietFor
}

// I1: maxUnavailable is never exceeded by our own steps: no more nodes of a group are out
// for policies than it allows.
func (o *oracles) cordonedWithinLimits(old, updated *corev1.Node) {
	m := find[*v1alpha1.NodeMaintenance](o, updated.Annotations[v1alpha1.CordonedAnnotation])
	if old.Spec.Unschedulable || !updated.Spec.Unschedulable || m == nil || m.Spec.Remediation == nil || !o.cordoned[m.UID].IsZero() {
		return // a person's, or a node that a person has uncordoned meanwhile
	}
	o.cordoned[m.UID] = time.Now()
	if o.idle[m.UID] = !available(old); o.idle[m.UID] {
		return
	}
	if n := o.world.node(updated.Name); time.Since(n.turned) < quietFor {
		return // it was decided while the node was not Ready, which takes nothing away
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if b.Spec.MaxUnavailable == nil || !selects(b, updated) {
			continue
		}
		group := groupOf(b, updated)
		nodes, out := 0, 0
		for _, n := range stored[*corev1.Node](o) {
			if !selects(b, n) || groupOf(b, n) != group {
				continue
			}
			nodes++
			if n.Spec.Unschedulable && o.outForPolicy(n) {
				out++
			}
		}
		if limit := unavailableAllowed(*b.Spec.MaxUnavailable, nodes); out > limit {
			o.world.broken("I1: maxUnavailable is never exceeded by our own steps", "budget %s, group %s: %d of %d nodes are out for policies, %d may be",
				b.Name, group, out, nodes, limit)
		}
	}
}

// I1: maxConcurrent is never exceeded: no more nodes of a group have executions that run
// than the spec's number allows.
func (o *oracles) withinConcurrent(e *execution) {
	node := find[*corev1.Node](o, e.node.name)
	const longest = 20 * time.Minute // that something takes which began under other limits
	if node == nil || time.Since(o.world.people.limited) < longest && !o.world.people.limited.IsZero() {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if b.Spec.MaxConcurrent == nil || !selects(b, node) {
			continue
		}
		nodes, running := 0, 0
		for _, n := range o.world.nodes {
			other := find[*corev1.Node](o, n.name)
			if other == nil || !chosen(b.Spec.NodeSelector, other) || other.Labels[b.Spec.GroupBy] != node.Labels[b.Spec.GroupBy] {
				continue
			}
			nodes++
			if slices.ContainsFunc(n.executions, func(e *execution) bool { return e.runs() && !o.world.people.blinded[e.order.Action] }) {
				running++
			}
		}
		if allowed := concurrentlyAllowed(*b.Spec.MaxConcurrent, nodes); running > allowed {
			o.world.broken("I1: maxConcurrent is never exceeded", "budget %s: executions run on %d of %d nodes, %d may", b.Name, running, nodes, allowed)
		}
	}
}

// outForPolicy reports whether the node is out for a policy's step that took something away, was decided by the
// limits as they are, and was all along: one that a person has put back in the middle of it
// is cordoned again, whoever is out by then.
func (o *oracles) outForPolicy(n *corev1.Node) bool {
	m := find[*v1alpha1.NodeMaintenance](o, n.Annotations[v1alpha1.CordonedAnnotation])
	if m == nil || m.Spec.Remediation == nil || o.idle[m.UID] {
		return false
	}
	since, known := o.knownSince(o.world.people.limited)
	return known && m.CreationTimestamp.Sub(since) > o.onItsWay() && o.returned[n.Name].Before(m.CreationTimestamp.Time)
}

// I1: one control-plane node at a time.
func (o *oracles) aloneInControlPlane(e *execution) {
	node := find[*corev1.Node](o, e.node.name)
	if node == nil || !fleet.ControlPlane(node) {
		return
	}
	for _, n := range o.world.nodes {
		other := o.former[n.name] // which may be gone
		if n == e.node || other == nil || !fleet.ControlPlane(other) {
			continue
		}
		for _, running := range n.executions {
			if running.runs() && !o.world.people.blinded[running.order.Action] {
				o.world.broken("I1: one control-plane node is acted on at a time", "%s on node %s while %s runs on node %s",
					e.order.Action, e.node.name, running.order.Action, n.name)
			}
		}
	}
}

// settledFor is how long nothing has to have gone wrong with a controller before it does in
// time what it is woken for, and not only when it looks again by itself.
const settledFor = 90 * time.Second

// settled reports whether a controller does in time what it is woken for.
func (o *oracles) settled() bool {
	return len(o.world.leaders()) == 1 && time.Since(o.world.troubled) > settledFor
}

// I1: the limits of a budget are those for the nodes that there are.
func (o *oracles) nodesCounted() {
	const soon = 5 * time.Second
	if since, known := o.knownSince(o.regrouped); !known || time.Since(since) < soon || !o.settled() {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		o.countedAll(b)
	}
}

func (o *oracles) countedAll(b *v1alpha1.RemediationBudget) {
	nodes := 0
	for _, n := range stored[*corev1.Node](o) {
		if chosen(b.Spec.NodeSelector, n) {
			nodes++
		}
	}
	if counted := b.Status.Nodes; counted != nil && b.Status.ObservedGeneration == b.Generation && int(*counted) != nodes {
		o.world.broken("I1: the limits of a budget are those for the nodes that there are", "budget %s has counted %d of %d nodes", b.Name, *counted, nodes)
	}
}

// No surprise: a node that is available counts as healthy if only policies on trial call it sick.
// That too many count as healthy is for the rules of storms.
func (o *oracles) wellCounted() {
	const soon = 5 * time.Second
	if since, known := o.knownSince(o.touched); !known || time.Since(since) < soon || !o.settled() {
		return
	}
	sick := map[types.UID]bool{}
	for _, r := range stored[*v1alpha1.Remediation](o) {
		sick[r.Spec.NodeUID] = sick[r.Spec.NodeUID] || !r.Ended() && !o.onTrial(r)
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		for _, group := range sortedKeys(b.Status.Groups) {
			g, well := b.Status.Groups[group], 0
			for _, n := range o.members(b, group) {
				if available(n) && !sick[n.UID] && !g.Permits[n.Name].Disruptive {
					well++
				}
			}
			if b.Status.ObservedGeneration == b.Generation && int(g.Healthy) < well {
				o.world.broken("No surprise: a node is healthy that only policies on trial call sick", "budget %s, group %s: %d nodes are healthy, %d count as such", b.Name, group, well, g.Healthy)
			}
		}
	}
}

// The status of a policy says what there is for it.
func (o *oracles) policiesTold() {
	const soon = 15 * time.Second
	if since, known := o.knownSince(later(o.tallied, o.regrouped)); !known || time.Since(since) < soon || !o.settled() {
		return
	}
	for _, p := range stored[*v1alpha1.RemedyPolicy](o) {
		nodes, opened := 0, 0
		for _, n := range stored[*corev1.Node](o) {
			if chosen(p.Spec.NodeSelector, n) {
				nodes++
			}
		}
		for _, r := range stored[*v1alpha1.Remediation](o) {
			if r.Spec.Policy.UID == p.UID && !r.Ended() {
				opened++
			}
		}
		s := &p.Status
		if s.ObservedGeneration != p.Generation || int(ptr.Deref(s.Nodes, -1)) != nodes || int(ptr.Deref(s.OpenRemediations, -1)) != opened {
			o.world.broken("The status of a policy says what there is for it", "policy %s of generation %d selects %d nodes and has %d open remediations, it says %d, %d and %d",
				p.Name, p.Generation, nodes, opened, s.ObservedGeneration, ptr.Deref(s.Nodes, -1), ptr.Deref(s.OpenRemediations, -1))
		}
	}
}

// I8: a permit that is free is taken by who waits for one.
func (o *oracles) permitsUsed() {
	waits := map[string]bool{}
	for _, r := range stored[*v1alpha1.Remediation](o) {
		node := find[*corev1.Node](o, r.Spec.NodeName)
		if r.Ended() || r.BlockedBy() != "BudgetExhausted" || node == nil || node.UID != r.Spec.NodeUID || fleet.ControlPlane(node) || !o.couldTake(r, node) {
			continue
		}
		waits[r.Name] = true
	}
	if name := o.waiting.longer(waits); name != "" && o.settled() && time.Since(o.world.people.limited) > settledFor {
		o.world.broken("I8: a free permit is taken by who waits for one", "remediation %s waits although every budget of its node has one", name)
	}
}

// lasting is since when something is so, by its name.
type lasting map[string]time.Time

// longer is told what is so now, and returns one of those that are so for longer than a
// controller takes for anything; "" if there is none.
func (l lasting) longer(now map[string]bool) (name string) {
	for old := range l {
		if !now[old] {
			delete(l, old)
		}
	}
	for _, next := range sortedKeys(now) {
		if since, known := l[next]; !known {
			l[next] = time.Now()
		} else if time.Since(since) > 20*time.Second {
			name = next
		}
	}
	return name
}

// I8: who waits holds no permit, which others may wait for. It does while something may
// still run, and while its node is about to be cordoned.
func (o *oracles) waitWithoutPermits() {
	held := map[string]bool{}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		for _, group := range b.Status.Groups {
			for _, permit := range group.Permits {
				held[permit.Remediation] = true
			}
		}
	}
	keeps := map[string]bool{}
	for _, r := range stored[*v1alpha1.Remediation](o) {
		if held[r.Name] && o.onlyWaits(r) {
			keeps[r.Name] = true
		}
	}
	if name := o.keeping.longer(keeps); name != "" && o.settled() {
		o.world.broken("I8: who waits holds no permit", "remediation %s", name)
	}
}

// onlyWaits reports whether a remediation has nothing under way, and is to have nothing. A
// maintenance that it, or an earlier one of its name, has left may yet cordon the node.
func (o *oracles) onlyWaits(r *v1alpha1.Remediation) bool {
	by := r.BlockedBy()
	if r.Ended() || r.State() != v1alpha1.ReasonWaiting || by == "" || by == v1alpha1.ReasonStillRunning || r.Status.Action != "" {
		return false
	}
	if node := find[*corev1.Node](o, r.Spec.NodeName); node != nil && node.Spec.Unschedulable {
		return true
	}
	return !slices.ContainsFunc(stored[*v1alpha1.NodeMaintenance](o), func(m *v1alpha1.NodeMaintenance) bool {
		return m.Spec.Remediation != nil && m.Spec.Remediation.Name == r.Name
	})
}

// couldTake reports whether every budget of the node has a free permit for the
// remediation's next step.
func (o *oracles) couldTake(r *v1alpha1.Remediation, node *corev1.Node) bool {
	step := r.Step(r.Status.Step)
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if !chosen(b.Spec.NodeSelector, node) {
			continue
		}
		group := groupOf(b, node)
		if permit, held := permitOf(b, node.Name); held && permit.Remediation != r.Name {
			return false
		}
		if b.Spec.Paused || !budget.Counted(b, group) || budget.Free(b, group) <= 0 ||
			step != nil && budget.Disrupts(step, node) && budget.FreeDisruptions(b, group) <= 0 {
			return false
		}
	}
	return true
}
