package v1alpha1

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// FindNodeCondition returns the node's condition of this type, or nil. It is the
// node's own.
func FindNodeCondition(node *corev1.Node, conditionType string) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if string(node.Status.Conditions[i].Type) == conditionType {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// LastWritten returns when something that runs on the node wrote its status last, as the API server notes
// it; zero: nobody knows. A program from outside writes under another name.
func LastWritten(node *corev1.Node) (last time.Time) {
	for i := range node.ManagedFields {
		switch by := &node.ManagedFields[i]; by.Manager {
		case "kubelet", "nodemend-detector", "node-problem-detector":
			if by.Time != nil && by.Time.After(last) {
				last = by.Time.Time
			}
		}
	}
	return last
}

// LeaseRenewed returns when a Lease was last written, by the clock of the API server, which notes it
// with the manager of the fields. The renewTime is of its holder's own clock: it is taken only
// where nothing else is known. It is the zero time if there is none either.
func LeaseRenewed(lease *coordinationv1.Lease) (last time.Time) {
	for i := range lease.ManagedFields {
		if at := lease.ManagedFields[i].Time; at != nil && at.After(last) {
			last = at.Time
		}
	}
	if last.IsZero() && lease.Spec.RenewTime != nil {
		return lease.Spec.RenewTime.Time
	}
	return last
}

// Silence is how long nothing may have been heard of a node that does not answer: the node
// controller's grace period, in which a kubelet renews its Lease five times.
const Silence = 50 * time.Second

// KubeletOwned reports whether the kubelet writes conditions of this type, and the
// node controller makes them Unknown when it has not heard of it for long.
func KubeletOwned(conditionType string) bool {
	switch corev1.NodeConditionType(conditionType) {
	case corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure:
		return true
	default:
		return false
	}
}

// SelectorOf returns what a nodeSelector of a policy or budget selects; one that was
// left out selects every node.
func SelectorOf(nodeSelector *metav1.LabelSelector) (labels.Selector, error) {
	if nodeSelector == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(nodeSelector)
}

// Excluded reports whether a person has excluded the node from new actions.
func Excluded(node *corev1.Node) bool { return node.Labels[ExcludeLabel] == "true" }
