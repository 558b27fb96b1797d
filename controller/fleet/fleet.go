// Package fleet is the controller's view of the nodes: only what is used is
// kept, and only what matters wakes anybody.
package fleet

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

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

// selector is that of nodeSelector.
func selector(nodeSelector *metav1.LabelSelector) (labels.Selector, error) {
	s, err := v1alpha1.SelectorOf(nodeSelector)
	if err != nil {
		return nil, fmt.Errorf("nodeSelector: %w", err)
	}
	return s, nil
}
