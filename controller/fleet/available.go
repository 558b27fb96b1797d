package fleet

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Available reports whether the node takes and keeps pods: it is Ready, neither cordoned
// nor out of service, and neither being deleted nor about to be.
func Available(node *corev1.Node) bool {
	ready := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
	if ready == nil || ready.Status != corev1.ConditionTrue || node.Spec.Unschedulable || node.DeletionTimestamp != nil || v1alpha1.IsOutOfService(node) {
		return false
	}
	for i := range node.Spec.Taints {
		if RemovedBy(&node.Spec.Taints[i]) != "" {
			return false
		}
	}
	return true
}

// RemovedBy returns the autoscaler that marks a node with this taint once it has
// decided to remove it, "" if none does. A mere candidate for removal stays.
func RemovedBy(taint *corev1.Taint) string {
	switch taint.Key {
	case "ToBeDeletedByClusterAutoscaler":
		return "cluster-autoscaler"
	case "karpenter.sh/disrupted", "karpenter.sh/disruption": // since v1, before v1
		return "Karpenter"
	default:
		return ""
	}
}

// ControlPlaneLabel is on the nodes of the control plane, with any value.
const ControlPlaneLabel = "node-role.kubernetes.io/control-plane"

// ControlPlane reports whether the node is one of the control plane.
func ControlPlane(node *corev1.Node) bool {
	_, ok := node.Labels[ControlPlaneLabel]
	return ok
}
