package sim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// othersTaints are the taints of a node that we have not set: all but our own out-of-service.
func othersTaints(node *corev1.Node) (values []string) {
	for _, t := range node.Spec.Taints {
		if t.Key != corev1.TaintNodeOutOfService || t.Value == personsTaint {
			values = append(values, t.Key+"="+t.Value)
		}
	}
	return values
}

// I3: a cordon, taint or label that we did not set is never removed. Only a patch that was
// on its way when a person uncordoned the node and cordoned it again can't know of that.
func (o *oracles) cordonKept(by string, old, updated *corev1.Node) {
	if by != "controller" {
		if by == "admin" && !updated.Spec.Unschedulable {
			delete(o.world.people.cordoned, updated.Name)
		}
		return
	}
	if old.Spec.Unschedulable && !updated.Spec.Unschedulable && o.world.people.cordoned[old.Name] {
		if !o.world.mayBeOnItsWay() {
			o.world.broken("I3: a person's cordon is never removed", "node %s", old.Name)
		}
		delete(o.world.people.cordoned, old.Name)
	}
	if !maps.Equal(old.Labels, updated.Labels) || !slices.Equal(othersTaints(old), othersTaints(updated)) {
		o.world.broken("I3: a label or taint that we did not set is never removed", "node %s", old.Name)
	}
}

// I4: a condition changes only when a check has seen it, and its transition time only with
// it.
func (o *oracles) conditionsSeen(by string, old, updated *corev1.Node) {
	if by != "detector" {
		return
	}
	n := o.world.node(updated.Name)
	for _, condition := range n.checks {
		before, after := v1alpha1.FindNodeCondition(old, condition), v1alpha1.FindNodeCondition(updated, condition)
		switch {
		case before == nil || after == nil:
		case before.Status != after.Status:
			if !o.sawSince(n, condition, after.Status) {
				o.world.broken("I4: a condition changes only when a check has seen it", "node %s: %s from %s to %s", n.name, condition, before.Status, after.Status)
			}
		case !before.LastTransitionTime.Equal(&after.LastTransitionTime) && !o.flapped(n, condition, after.Status):
			o.world.broken("I4: a transition time changes only with the status", "node %s: %s is %s since %s, was since %s",
				n.name, condition, after.Status, after.LastTransitionTime, before.LastTransitionTime)
		}
		key := n.name + "/" + condition
		if before == nil || after == nil || before.Status != after.Status || !before.LastTransitionTime.Equal(&after.LastTransitionTime) {
			o.turned[key] = time.Now()
		}
		all := o.checks[key]
		o.written[key] = len(all)
		for o.written[key] > 0 && all[o.written[key]-1].began.After(o.world.serving.sent) {
			o.written[key]-- // the write was on its way by then
		}
	}
}

// sawSince reports whether a run of the check has seen the status since the detector last
// wrote the condition, or in the runs shortly before, which may have been on their way.
func (o *oracles) sawSince(n *node, condition string, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(o.unwritten(n, condition), func(s seen) bool { return s.status == status })
}

// flapped reports whether the check has seen another status since the detector last wrote
// the condition: it may have changed twice between two writes.
func (o *oracles) flapped(n *node, condition string, status corev1.ConditionStatus) bool {
	return slices.ContainsFunc(o.unwritten(n, condition), func(s seen) bool { return s.status != status })
}

// unwritten are the runs of a check since the detector last wrote the condition, and a few
// before.
func (o *oracles) unwritten(n *node, condition string) []seen {
	const onTheirWay = 4
	key := n.name + "/" + condition
	return o.checks[key][max(0, o.written[key]-onTheirWay):]
}
