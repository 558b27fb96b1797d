package fleet

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Changed reports whether an update of a node is more than a heartbeat: its
// identity, its labels, whether pods may be scheduled to it or it is leaving, or
// the status, reason or transition of a condition. It allocates nothing.
func Changed(old, updated *corev1.Node) bool {
	return old.UID != updated.UID ||
		old.Spec.Unschedulable != updated.Spec.Unschedulable ||
		!old.DeletionTimestamp.Equal(updated.DeletionTimestamp) ||
		!maps.Equal(old.Labels, updated.Labels) ||
		!slices.EqualFunc(old.Spec.Taints, updated.Spec.Taints, sameTaint) ||
		!slices.EqualFunc(old.Status.Conditions, updated.Status.Conditions, sameCondition)
}

func sameTaint(a, b corev1.Taint) bool { return a.Key == b.Key && a.Effect == b.Effect }

func sameCondition(a, b corev1.NodeCondition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}
