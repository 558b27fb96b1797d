package index

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// informer is one kind of a cache.
type informer struct {
	cache.Informer
	indexer toolscache.Indexer
}

func (i informer) AddIndexers(indexers toolscache.Indexers) error {
	return i.indexer.AddIndexers(indexers)
}

func (i informer) GetIndexer() toolscache.Indexer { return i.indexer }

// informers are a cache that has nodes and remediations.
type informers struct {
	cache.Cache
	nodes, remediations informer
}

func (c informers) GetInformer(_ context.Context, kind client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	if _, isNode := kind.(*corev1.Node); isNode {
		return c.nodes, nil
	}
	return c.remediations, nil
}

// indexing lets a fake client have indexes.
type indexing struct{ *fake.ClientBuilder }

func (i indexing) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(obj, field, values)
	return nil
}

func TestACacheAndAReaderFindTheSame(t *testing.T) {
	newInformer := func() informer {
		return informer{indexer: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})}
	}
	c := informers{nodes: newInformer(), remediations: newInformer()}
	cached, err := Cached(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	reader := fake.NewClientBuilder().WithScheme(scheme)
	add := func(i informer, obj client.Object) {
		if err := i.indexer.Add(obj); err != nil {
			t.Fatal(err)
		}
		reader.WithObjects(obj)
	}
	add(c.nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	remediation := func(name, blockedBy string, ended bool) {
		r := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if blockedBy != "" {
			r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationBlocked, Status: metav1.ConditionTrue, Reason: blockedBy}}
		}
		if ended {
			r.Status.EndTime = ptr.To(metav1.Now())
		}
		add(c.remediations, r)
	}
	remediation("free", "", false)
	remediation("waits", "BudgetExhausted", false)
	remediation("windowed", "Window", false)
	remediation("over", "BudgetExhausted", true)

	if err := Register(t.Context(), indexing{reader}); err != nil {
		t.Fatal(err)
	}
	built := reader.Build()
	for name, s := range map[string]Store{"a cache": cached, "a reader": Read(built), "a snapshot": NewSnapshot(built)} {
		for what, tt := range map[string]struct {
			got  []*v1alpha1.Remediation
			want []string
		}{
			"open":     {s.Open(t.Context()), []string{"free", "waits", "windowed"}},
			"waiting":  {s.BlockedBy(t.Context(), "BudgetExhausted"), []string{"waits"}},
			"by storm": {s.BlockedBy(t.Context(), "Storm"), nil},
		} {
			var names []string
			for _, r := range tt.got {
				names = append(names, r.Name)
			}
			slices.Sort(names)
			if !slices.Equal(names, tt.want) {
				t.Errorf("%s has %v %s, want %v", name, names, what, tt.want)
			}
		}
		if node := s.Node(t.Context(), "a"); node == nil || node.Name != "a" {
			t.Errorf("%s has %v for node a", name, node)
		}
		if node := s.Node(t.Context(), "b"); node != nil {
			t.Errorf("%s has %v for a node that is gone", name, node)
		}
	}
}
