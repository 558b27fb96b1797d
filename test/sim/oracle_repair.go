package sim

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/others"
)

// I3: what somebody else has told Karpenter of a node is never changed. We forbid it to repair a node only with our
// cordon, marked, and take back only that.
func (o *oracles) karpenterTold(old, updated *corev1.Node) {
	before, said := old.Annotations[others.DoNotRepairAnnotation]
	after, says := updated.Annotations[others.DoNotRepairAnnotation]
	_, wasOurs := old.Annotations[v1alpha1.RepairHeldAnnotation]
	_, isOurs := updated.Annotations[v1alpha1.RepairHeldAnnotation]
	_, cordoned := updated.Annotations[v1alpha1.CordonedAnnotation]
	switch {
	case said == says && before == after && (wasOurs || !isOurs):
	case !said && after == "true" && !wasOurs && isOurs && cordoned:
		o.world.count("Karpenter is to leave a node alone")
	case before == "true" && !says && wasOurs && !isOurs:
		o.world.count("Karpenter may repair a node again")
	default:
		o.world.broken("I3: what somebody else has told Karpenter is never changed", "node %s: %q, marked %t, now %q, marked %t", old.Name, before, wasOurs, after, isOurs)
	}
}

// Nothing disruptive begins on a node that we have cordoned and Karpenter may repair meanwhile.
func (o *oracles) createdBesideKarpenter(a *v1alpha1.NodeAction) {
	node := find[*corev1.Node](o, a.Spec.NodeName)
	r := o.naming(a)
	if r == nil || node == nil || node.UID != a.Spec.NodeUID || !a.Spec.ExpiresAt.After(time.Now()) || node.Labels[others.NodePoolLabel] == "" || node.Annotations[v1alpha1.CordonedAnnotation] == "" {
		return
	}
	_, said := node.Annotations[others.DoNotRepairAnnotation]
	_, held := node.Annotations[v1alpha1.RepairHeldAnnotation] // and a person has taken it away
	// Who starts over where all was in vain forbids it when the watch tells of that, and so does who no longer has a
	// person's word.
	if step := r.Step(a.Spec.Step); step != nil && step.Disruptive() && !said && !held && r.Annotations[v1alpha1.RetryAnnotation] == "" && o.world.people.retries == 0 && !o.world.people.unsaid[node.Name] {
		o.world.broken("Nothing disruptive begins on a node that Karpenter may repair meanwhile", "node %s, action %s", node.Name, a.Name)
	}
}

// leaseEnds is after how long one of ours is over.
const leaseEnds = 10 * time.Minute

// I3: a Lease of medik8s that somebody else holds is neither taken nor deleted.
func (o *oracles) leaseKept(old *coordinationv1.Lease) {
	holder := ptr.Deref(old.Spec.HolderIdentity, "")
	ends := old.Spec.RenewTime.Add(time.Duration(ptr.Deref(old.Spec.LeaseDurationSeconds, 0)) * time.Second)
	if holder != others.LeaseHolder && ends.After(time.Now()) {
		o.world.broken("I3: a Lease that another healer holds stays", "%s, of %s", old.Name, holder)
	}
}

// tellKarpenter lets a person forbid Karpenter to repair a node, or allow it, for a while.
func (w *world) tellKarpenter() bool {
	obj, ok := w.anObject()
	if !ok {
		return false
	}
	word := of(w.choices, "true", "false")
	if obj.Annotations[others.DoNotRepairAnnotation] == word {
		return false
	}
	w.tell(obj.Name, word)
	return true
}

// tell lets a person tell Karpenter whether to leave a node alone, for a while.
func (w *world) tell(node, word string) {
	w.changeNode(node, func(n *corev1.Node) { annotate(n, others.DoNotRepairAnnotation, word) })
	w.later(func() {
		w.people.unsaid[node] = true
		w.changeNode(node, func(n *corev1.Node) { delete(n.Annotations, others.DoNotRepairAnnotation) })
	})
}

// takeOutOfOthers lets a person take a node out of which another healer holds the Lease, and of which they may have
// told Karpenter something: no gate is asked about that.
func (w *world) takeOutOfOthers() bool {
	n := of(w.choices, w.nodes...)
	if n.object() == nil {
		return false
	}
	if w.healers[n.name] == nil {
		w.healsFor(n.name, leases(), w.while())
	}
	if w.chance(500) {
		w.tell(n.name, of(w.choices, "false", "true"))
	}
	return w.takeOut(n)
}
