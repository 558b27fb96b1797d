package index

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Store finds what is looked at by the thousand. A list of a cache copies every object that it
// finds, a store of a cache none. What it returns must not be changed.
type Store interface {
	// Open returns all open remediations.
	Open(ctx context.Context) []*v1alpha1.Remediation
	// BlockedBy returns the open remediations that a reason blocks.
	BlockedBy(ctx context.Context, reason string) []*v1alpha1.Remediation
	// Node returns the node of this name, nil if there is none.
	Node(ctx context.Context, name string) *corev1.Node
}

// Cached returns the store of a cache. It is complete once sources of both kinds have started.
func Cached(ctx context.Context, c cache.Cache) (Store, error) {
	nodes, err := indexerOf(ctx, c, &corev1.Node{}, nil)
	if err != nil {
		return nil, err
	}
	open := func(value func(*v1alpha1.Remediation) string) toolscache.IndexFunc {
		return func(obj any) ([]string, error) {
			if r, ok := obj.(*v1alpha1.Remediation); ok && !r.Ended() {
				return []string{value(r)}, nil
			}
			return nil, nil
		}
	}
	remediations, err := indexerOf(ctx, c, &v1alpha1.Remediation{}, toolscache.Indexers{
		Open:      open(func(*v1alpha1.Remediation) string { return IsOpen }),
		BlockedBy: open(func(r *v1alpha1.Remediation) string { return r.BlockedBy() }),
	})
	if err != nil {
		return nil, err
	}
	return store{nodes: nodes, remediations: remediations}, nil
}

func indexerOf(ctx context.Context, c cache.Cache, kind client.Object, indexers toolscache.Indexers) (toolscache.Indexer, error) {
	informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err == nil {
		err = informer.AddIndexers(indexers)
	}
	if err != nil {
		return nil, fmt.Errorf("watching %T: %w", kind, err)
	}
	indexed, ok := informer.(interface{ GetIndexer() toolscache.Indexer })
	if !ok {
		return nil, fmt.Errorf("watching %T: a %T has no index", kind, informer)
	}
	return indexed.GetIndexer(), nil
}

// store is that of a cache.
type store struct{ nodes, remediations toolscache.Indexer }

func (s store) Open(ctx context.Context) []*v1alpha1.Remediation { return s.find(ctx, Open, IsOpen) }

func (s store) BlockedBy(ctx context.Context, reason string) []*v1alpha1.Remediation {
	return s.find(ctx, BlockedBy, reason)
}

func (s store) find(ctx context.Context, index, value string) []*v1alpha1.Remediation {
	objects, err := s.remediations.ByIndex(index, value)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "finding open remediations")
	}
	found := make([]*v1alpha1.Remediation, 0, len(objects))
	for _, object := range objects {
		if r, ok := object.(*v1alpha1.Remediation); ok {
			found = append(found, r)
		}
	}
	return found
}

func (s store) Node(_ context.Context, name string) *corev1.Node {
	object, _, _ := s.nodes.GetByKey(name)
	node, _ := object.(*corev1.Node)
	return node
}

// Read returns a store of what a reader finds, which need not have a cache.
func Read(reader client.Reader) Store { return read{reader} }

type read struct{ client.Reader }

func (r read) Open(ctx context.Context) []*v1alpha1.Remediation { return r.find(ctx, Open, IsOpen) }

func (r read) BlockedBy(ctx context.Context, reason string) []*v1alpha1.Remediation {
	return r.find(ctx, BlockedBy, reason)
}

func (r read) find(ctx context.Context, index, value string) []*v1alpha1.Remediation {
	var list v1alpha1.RemediationList
	if err := r.List(ctx, &list, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "finding open remediations")
	}
	found := make([]*v1alpha1.Remediation, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	return found
}

func (r read) Node(ctx context.Context, name string) *corev1.Node {
	var node corev1.Node
	if r.Get(ctx, types.NamespacedName{Name: name}, &node, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	return &node
}

// Snapshot is the store of a reader that lists each kind at most once, when it is first asked
// for: for one look, not for a loop, and one goroutine.
type Snapshot struct {
	reader       client.Reader
	remediations []*v1alpha1.Remediation // the open ones
	nodes        map[string]*corev1.Node
	err          error
}

// NewSnapshot returns one that has listed nothing.
func NewSnapshot(reader client.Reader) *Snapshot { return &Snapshot{reader: reader} }

// Err is what went wrong first: where it is not nil, what was returned may lack something.
func (s *Snapshot) Err() error { return s.err }

// Open returns all open remediations.
func (s *Snapshot) Open(ctx context.Context) []*v1alpha1.Remediation {
	if s.remediations != nil || s.err != nil {
		return s.remediations
	}
	var list v1alpha1.RemediationList
	if err := s.reader.List(ctx, &list); err != nil {
		s.err = fmt.Errorf("listing remediations: %w", err)
		return nil
	}
	s.remediations = []*v1alpha1.Remediation{}
	for i := range list.Items {
		if r := &list.Items[i]; !r.Ended() {
			s.remediations = append(s.remediations, r)
		}
	}
	return s.remediations
}

// BlockedBy returns the open remediations that a reason blocks.
func (s *Snapshot) BlockedBy(ctx context.Context, reason string) (found []*v1alpha1.Remediation) {
	for _, r := range s.Open(ctx) {
		if r.BlockedBy() == reason {
			found = append(found, r)
		}
	}
	return found
}

// Node returns the node of this name, nil if there is none.
func (s *Snapshot) Node(ctx context.Context, name string) *corev1.Node {
	if s.nodes != nil || s.err != nil {
		return s.nodes[name]
	}
	var list corev1.NodeList
	if err := s.reader.List(ctx, &list); err != nil {
		s.err = fmt.Errorf("listing nodes: %w", err)
		return nil
	}
	s.nodes = map[string]*corev1.Node{}
	for i := range list.Items {
		s.nodes[list.Items[i].Name] = &list.Items[i]
	}
	return s.nodes[name]
}
