package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// maintained remembers what people did to maintenances, and until when they drained.
func (o *oracles) maintained(by string, old, updated *v1alpha1.NodeMaintenance) {
	if old == nil {
		o.born[updated.UID] = o.world.turn()
		o.named[updated.UID] = slices.ContainsFunc(stored[*v1alpha1.Remediation](o), func(r *v1alpha1.Remediation) bool {
			return r.Status.Maintenance == updated.Name
		})
		return
	}
	o.wordOver(old, updated)
	ends := updated == nil || updated.DeletionTimestamp != nil
	if ends && old.DeletionTimestamp == nil {
		o.returned[old.Spec.NodeName] = time.Now()
		if by == "admin" {
			o.released[old.Name] = true
			o.personGivesBack(old)
		}
	}
	if drains(old) && (ends || !drains(updated)) {
		o.drained[old.Spec.NodeName], o.drainedAt[old.Spec.NodeName] = time.Now(), o.world.turn()
	}
}

// personGivesBack remembers that a person has given back the node of a remediation.
func (o *oracles) personGivesBack(m *v1alpha1.NodeMaintenance) {
	drained := m.Condition(v1alpha1.MaintenanceDrained)
	if m.Spec.Remediation == nil || o.cordoned[m.UID].IsZero() || drained != nil && drained.Reason == v1alpha1.ReasonDrainAborted {
		return // it is given back anyway, to be taken out again
	}
	r := o.remediations[m.Spec.Remediation.UID]
	if r != nil && r.Status.Maintenance == m.Name && r.State() != v1alpha1.ReasonStarting {
		o.givenBack[r.UID] = time.Now()
	}
}

// A node that a person has given back while it is sick is not taken out again for the same
// remediation.
func (o *oracles) staysGivenBack(r *v1alpha1.Remediation, node *corev1.Node) {
	at, was := o.givenBack[r.UID]
	for _, m := range r.Spec.Match {
		c := v1alpha1.FindNodeCondition(node, m.Type)
		if was && c != nil && m.Type != string(corev1.NodeReady) && m.Type != wornOut && !m.Debounces() && m.Matches(c) && c.LastTransitionTime.Add(clockSlack).Before(at) {
			o.world.broken("A sick node that a person has given back is not taken out again", "%s for node %s, %s after that", r.Name, node.Name, time.Since(at))
		}
	}
}

// A node is cordoned only for a maintenance that its remediation has named since it is
// there: one that was created late is nothing that anybody wants.
func (o *oracles) cordonedAsNamed(old, updated *corev1.Node) {
	m := find[*v1alpha1.NodeMaintenance](o, updated.Annotations[v1alpha1.CordonedAnnotation])
	if old.Spec.Unschedulable || !updated.Spec.Unschedulable || m == nil || m.Spec.Remediation == nil || o.named[m.UID] {
		return
	}
	if o.world.serving != nil && o.born[m.UID] > o.world.serving.began {
		return // it was for another one of the name, which is gone
	}
	o.world.broken("A node is cordoned only for a maintenance that its remediation names", "node %s for %s", updated.Name, m.Name)
}

func drains(m *v1alpha1.NodeMaintenance) bool {
	return m.DeletionTimestamp == nil && m.Spec.Drain != nil
}

// Pods are evicted only for a maintenance that is there and drains, and never while a pod
// vetoes it.
func (o *oracles) evicted(pod *corev1.Pod) {
	var draining, vetoed bool
	for _, m := range stored[*v1alpha1.NodeMaintenance](o) {
		if m.Spec.NodeName != pod.Spec.NodeName || !drains(m) {
			continue
		}
		o.notInPause(m, pod)
		draining = true
		if m.Spec.Drain.VetoedBy == nil || !o.vetoes(pod.Spec.NodeName) {
			return
		}
		vetoed = true
	}
	known := time.Since(o.drained[pod.Spec.NodeName]) >= o.slack()
	serving := o.world.serving
	asked := serving != nil && o.drainedAt[pod.Spec.NodeName] < serving.began // the server, right before
	switch {
	case !draining && (known || asked):
		o.world.broken("Nothing is evicted but for a maintenance", "pod %s on node %s", pod.Name, pod.Spec.NodeName)
	case vetoed && known:
		o.world.broken("Nothing is evicted from a node while a pod vetoes it", "pod %s on node %s", pod.Name, pod.Spec.NodeName)
	}
}

// Nothing is evicted for a remediation in a pause, but from a node that was uncordoned in it:
// what was out of service before stays as it was.
func (o *oracles) notInPause(m *v1alpha1.NodeMaintenance, pod *corev1.Pod) {
	node := find[*corev1.Node](o, pod.Spec.NodeName)
	if m.Spec.Remediation == nil || node == nil || !o.settled() || !o.everybodyKnows(later(o.returned[node.Name], o.recordoned[node.Name])) {
		return
	}
	r := o.remediations[m.Spec.Remediation.UID]
	if r == nil {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		stopped := b.Name == v1alpha1.ClusterPauseBudget || selects(b, node)
		if at, paused := o.paused[b.Name]; paused && stopped && o.everybodyKnows(later(at, o.world.people.limited)) {
			o.world.broken("Nothing is evicted for a remediation in a pause", "pod %s on node %s for %s, budget %s is paused since %s", pod.Name, node.Name, r.Name, b.Name, time.Since(at))
		}
	}
	p := find[*v1alpha1.RemedyPolicy](o, r.Spec.Policy.Name)
	if p != nil && p.Spec.Paused && o.everybodyKnows(o.edited[p.Name]) {
		o.world.broken("Nothing is evicted for a remediation in a pause", "pod %s on node %s for %s, policy %s is paused since %s", pod.Name, node.Name, r.Name, p.Name, time.Since(o.edited[p.Name]))
	}
}

// A node that is said to be drained has no pod that its drain would evict, also when some
// have come while a person had uncordoned it. What another healer has uncordoned that is about to let
// go of it is cordoned and drained again after that.
func (o *oracles) staysDrained() {
	if time.Since(o.world.troubled) < quietFor || len(o.world.leaders()) != 1 {
		clear(o.undrained)
		return
	}
	left := map[string]bool{}
	for _, m := range stored[*v1alpha1.NodeMaintenance](o) {
		node := find[*corev1.Node](o, m.Spec.NodeName)
		if drained := m.Condition(v1alpha1.MaintenanceDrained); node == nil || !drains(m) || !m.Holds(node) ||
			o.world.people.cordoned[node.Name] || o.leftToAnother(node.Name) || drained == nil || drained.Reason != v1alpha1.ReasonDrained {
			continue
		}
		for _, pod := range stored[*corev1.Pod](o) {
			replaced := len(pod.OwnerReferences) > 0 && pod.OwnerReferences[0].Kind == "ReplicaSet" // elsewhere, once evicted
			if pod.Spec.NodeName == node.Name && pod.DeletionTimestamp == nil && replaced {
				left[m.Name+" and pod "+pod.Name] = true
			}
		}
	}
	if name := o.undrained.longer(left); name != "" {
		o.world.broken("A node that is said to be drained has no pods", "maintenance %s", name)
	}
}

// leftToAnother reports whether another healer was told to stop with the node, and has not let go of it.
func (o *oracles) leftToAnother(node string) bool {
	return slices.ContainsFunc(stored[*v1alpha1.NodeAction](o), func(a *v1alpha1.NodeAction) bool {
		return a.Spec.NodeName == node && a.Status.External != nil && a.Status.External.Stop != nil && a.Finished() == nil
	})
}

// vetoes reports whether a pod on the node keeps all pods.
func (o *oracles) vetoes(node string) bool {
	for _, pod := range stored[*corev1.Pod](o) {
		if pod.Spec.NodeName == node && pod.Labels[vetoLabel] != "" {
			return true
		}
	}
	return false
}

// A node is uncordoned only when nothing holds it any more, and not because a person has
// deleted its remediation while it is sick.
func (o *oracles) uncordoned(old, updated *corev1.Node) {
	if !old.Spec.Unschedulable || updated.Spec.Unschedulable {
		return
	}
	for _, m := range stored[*v1alpha1.NodeMaintenance](o) {
		if m.Spec.NodeName != old.Name || m.Spec.NodeUID != "" && m.Spec.NodeUID != old.UID {
			continue
		}
		// The server is asked for maintenances right before.
		asked := o.world.serving != nil && o.born[m.UID] < o.world.serving.began
		if m.DeletionTimestamp == nil && (asked || time.Since(m.CreationTimestamp.Time) > o.slack()) {
			o.world.broken("A node is not uncordoned while a maintenance holds it", "node %s, maintenance %s", old.Name, m.Name)
		}
		if m.Name == old.Annotations[v1alpha1.CordonedAnnotation] && m.Spec.Remediation != nil && !o.released[m.Name] {
			o.stillSick(old, m)
		}
	}
}

// Only what we have cordoned is marked as ours (I3), and only for a maintenance of this
// very node.
func (o *oracles) marked(old, updated *corev1.Node) {
	mark := updated.Annotations[v1alpha1.CordonedAnnotation]
	if mark == "" || mark == old.Annotations[v1alpha1.CordonedAnnotation] {
		return
	}
	if old.Spec.Unschedulable {
		o.world.broken("I3: a cordon of others is not marked as ours", "node %s, for %s", old.Name, mark)
	}
	if m := find[*v1alpha1.NodeMaintenance](o, mark); m != nil && m.Spec.NodeUID != "" && m.Spec.NodeUID != updated.UID {
		o.world.broken("A node is not cordoned for a maintenance of an earlier one", "node %s, maintenance %s", old.Name, mark)
	}
}

// A maintenance is let go only after its node was given back, nobody would know of it else;
// or while another one holds the node, which may be gone a moment later.
func (o *oracles) letGo(m *v1alpha1.NodeMaintenance) {
	node := find[*corev1.Node](o, m.Spec.NodeName)
	if node == nil || node.Annotations[v1alpha1.CordonedAnnotation] != m.Name || time.Since(o.world.troubled) < quietFor || len(o.world.leaders()) != 1 || time.Since(o.freed[node.Name]) < o.slack() {
		return
	}
	for _, other := range stored[*v1alpha1.NodeMaintenance](o) {
		if other.UID != m.UID && other.Spec.NodeName == node.Name { // the last one gives it back
			return
		}
	}
	o.world.broken("A maintenance is let go only after its node was given back", "maintenance %s of node %s", m.Name, node.Name)
}

func (o *oracles) stillSick(node *corev1.Node, m *v1alpha1.NodeMaintenance) {
	r := o.remediations[m.Spec.Remediation.UID] // which may be gone, and has left a tombstone
	if r == nil || r.State() != v1alpha1.ReasonDeleted || !hasTombstone(stored[*v1alpha1.Remediation](o), r.Name) {
		return
	}
	if find[*v1alpha1.Remediation](o, r.Name+"-deleted").Annotations[v1alpha1.TombstoneUIDAnnotation] != string(r.UID) {
		return // its tombstone was deleted, which gives the node back; this is that of the next one
	}
	if !r.DeletionTimestamp.Before(m.DeletionTimestamp) || !o.cordoned[m.UID].Before(r.DeletionTimestamp.Time) {
		return // it was being given back before, or in the same second; or it was not out
	}
	if o.outWhenDeleted[r.UID] != m.Name {
		return // it was being taken back: somebody had paused
	}
	if o.world.people.forced[r.UID] && find[*v1alpha1.Remediation](o, r.Name+"-deleted").Status.Maintenance == "" {
		return // it was removed before its tombstone had its memory
	}
	for _, match := range r.Spec.Match {
		c := v1alpha1.FindNodeCondition(node, match.Type)
		if match.Type != string(corev1.NodeReady) && match.Type != wornOut && !match.Debounces() && c != nil && c.Status == match.Status && r.Status.EndTime.Sub(c.LastTransitionTime.Time) > o.slack() {
			o.world.broken("A sick node stays out of service when its remediation is deleted", "node %s is %s, %s", node.Name, match.Type, r.Name)
		}
	}
}
