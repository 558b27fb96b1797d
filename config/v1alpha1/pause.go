package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Pauses reports whether the budget keeps every new action away from the node: it is paused
// and selects it. One whose selector can't be read pauses every node.
func (b *RemediationBudget) Pauses(node *corev1.Node) bool {
	if !b.Spec.Paused {
		return false
	}
	selector, err := SelectorOf(b.Spec.NodeSelector)
	return err != nil || selector.Matches(labels.Set(node.Labels))
}

// PausesCluster reports whether the budget is the pause of the whole cluster, which has no other
// use. One that was given a nodeSelector, before that was refused, pauses these nodes only.
func (b *RemediationBudget) PausesCluster() bool {
	return b.Name == ClusterPauseBudget && b.Spec.Paused && b.Spec.NodeSelector == nil
}
