// Package fleet is the controller's view of the nodes: only what is used is
// kept, and only what matters wakes anybody.
package fleet

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Selects reports whether a node selector selects the node.
func Selects(nodeSelector *metav1.LabelSelector, node *corev1.Node) (bool, error) {
	s, err := Selector(nodeSelector)
	if err != nil {
		return false, err
	}
	return s.Matches(labels.Set(node.Labels)), nil
}

// Nodes returns all nodes that there are, and the version up to which all that has
// happened to nodes is known, deletions included. They are the cache's own: they must not
// be changed. Versions of one resource can be compared (KEP-5504).
type Nodes func() (nodes []*corev1.Node, version string)

// Cached returns the nodes of a cache. Unlike its List it copies none of them, which
// at thousands of nodes would be most of the garbage of a decision. They are complete
// once a source of nodes has started.
func Cached(ctx context.Context, c cache.Cache) (Nodes, error) {
	informer, err := c.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching nodes: %w", err)
	}
	indexed, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !ok {
		return nil, fmt.Errorf("watching nodes: a %T has no index", informer)
	}
	return func() ([]*corev1.Node, string) {
		indexer := indexed.GetIndexer()
		version := indexer.LastStoreSyncResourceVersion() // first: the nodes may be newer
		objects := indexer.List()
		nodes := make([]*corev1.Node, 0, len(objects))
		for _, object := range objects {
			if node, ok := object.(*corev1.Node); ok {
				nodes = append(nodes, node)
				version = Later(version, node.ResourceVersion)
			}
		}
		return nodes, version
	}, nil
}

// Later returns the later of two versions of nodes; "" is before all others.
func Later(a, b string) string {
	if c, err := resourceversion.CompareResourceVersion(a, b); a == "" || err == nil && c < 0 {
		return b
	}
	return a
}

// Selected leaves those of the nodes that a node selector selects.
func Selected(nodes []*corev1.Node, nodeSelector *metav1.LabelSelector) ([]*corev1.Node, error) {
	s, err := Selector(nodeSelector)
	if err != nil {
		return nil, reconcile.TerminalError(err)
	}
	return slices.DeleteFunc(nodes, func(node *corev1.Node) bool { return !s.Matches(labels.Set(node.Labels)) }), nil
}

// Selector returns what a nodeSelector of a policy or budget selects.
func Selector(nodeSelector *metav1.LabelSelector) (labels.Selector, error) {
	s, err := v1alpha1.SelectorOf(nodeSelector)
	if err != nil {
		return nil, fmt.Errorf("nodeSelector: %w", err)
	}
	return s, nil
}
