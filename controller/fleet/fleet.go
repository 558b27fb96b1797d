// Package fleet is the controller's view of the nodes: only what is used is
// kept, and only what matters wakes anybody.
package fleet

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Strip is a cache transform that keeps of a Node only what the controller
// reads, so that 5,000 nodes cost little memory. It fits cache.ByObject.
func Strip(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	return &corev1.Node{
		TypeMeta: node.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Name:              node.Name,
			UID:               node.UID,
			ResourceVersion:   node.ResourceVersion,
			CreationTimestamp: node.CreationTimestamp,
			DeletionTimestamp: node.DeletionTimestamp,
			Labels:            node.Labels,
		},
		Status: corev1.NodeStatus{Conditions: node.Status.Conditions},
	}, nil
}

// Condition returns the node's condition of this type, or nil.
func Condition(node *corev1.Node, conditionType string) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if string(node.Status.Conditions[i].Type) == conditionType {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// Selects reports whether a node selector selects the node.
func Selects(nodeSelector *metav1.LabelSelector, node *corev1.Node) (bool, error) {
	s, err := selector(nodeSelector)
	if err != nil {
		return false, err
	}
	return s.Matches(labels.Set(node.Labels)), nil
}

// Selected returns the nodes that a node selector selects. They are the cache's
// own: they must not be changed.
func Selected(ctx context.Context, reader client.Reader, nodeSelector *metav1.LabelSelector) ([]corev1.Node, error) {
	s, err := selector(nodeSelector)
	if err != nil {
		return nil, reconcile.TerminalError(err)
	}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes, client.MatchingLabelsSelector{Selector: s}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return nodes.Items, nil
}

// selector is that of nodeSelector; one that was left out selects every node.
func selector(nodeSelector *metav1.LabelSelector) (labels.Selector, error) {
	if nodeSelector == nil {
		return labels.Everything(), nil
	}
	s, err := metav1.LabelSelectorAsSelector(nodeSelector)
	if err != nil {
		return nil, fmt.Errorf("nodeSelector: %w", err)
	}
	return s, nil
}

// Excluded reports whether a person has excluded the node from new actions.
func Excluded(node *corev1.Node) bool { return node.Labels[v1alpha1.ExcludeLabel] == "true" }

// Changed reports whether an update of a node is more than a heartbeat: its
// identity, its labels, or the status or transition of a condition.
func Changed(old, updated *corev1.Node) bool {
	return old.UID != updated.UID ||
		!maps.Equal(old.Labels, updated.Labels) ||
		!slices.EqualFunc(old.Status.Conditions, updated.Status.Conditions, func(a, b corev1.NodeCondition) bool {
			return a.Type == b.Type && a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
		})
}
