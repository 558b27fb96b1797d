package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// maintained remembers what people did to maintenances, and until when they drained.
func (o *oracles) maintained(by string, old, updated *v1alpha1.NodeMaintenance) {
	if old == nil {
		return
	}
	ends := updated == nil || updated.DeletionTimestamp != nil
	if ends && old.DeletionTimestamp == nil {
		o.returned[old.Spec.NodeName] = time.Now()
		if by == "admin" {
			o.released[old.Name] = true
		}
	}
	if drains(old) && (ends || !drains(updated)) {
		o.drained[old.Spec.NodeName] = time.Now()
	}
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
		draining = true
		if m.Spec.Drain.VetoedBy == nil || !o.vetoes(pod.Spec.NodeName) {
			return
		}
		vetoed = true
	}
	switch {
	case time.Since(o.drained[pod.Spec.NodeName]) < o.slack():
	case vetoed:
		o.world.broken("Nothing is evicted from a node while a pod vetoes it", "pod %s on node %s", pod.Name, pod.Spec.NodeName)
	case !draining:
		o.world.broken("Nothing is evicted but for a maintenance", "pod %s on node %s", pod.Name, pod.Spec.NodeName)
	}
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
		if m.DeletionTimestamp == nil && time.Since(m.CreationTimestamp.Time) > o.slack() {
			o.world.broken("A node is not uncordoned while a maintenance holds it", "node %s, maintenance %s", old.Name, m.Name)
		}
		if m.Name == old.Annotations[v1alpha1.CordonedAnnotation] && m.Spec.Remediation != nil && !o.released[m.Name] {
			o.stillSick(old, m)
		}
	}
}

func (o *oracles) stillSick(node *corev1.Node, m *v1alpha1.NodeMaintenance) {
	r := find[*v1alpha1.Remediation](o, m.Spec.Remediation.Name)
	if r == nil || r.UID != m.Spec.Remediation.UID || r.State() != v1alpha1.ReasonDeleted {
		return
	}
	for _, match := range r.Spec.Match {
		c := v1alpha1.FindNodeCondition(node, match.Type)
		if match.Type != string(corev1.NodeReady) && c != nil && c.Status == match.Status && r.Status.EndTime.Sub(c.LastTransitionTime.Time) > o.slack() {
			o.world.broken("A sick node stays out of service when its remediation is deleted", "node %s is %s, %s", node.Name, match.Type, r.Name)
		}
	}
}
