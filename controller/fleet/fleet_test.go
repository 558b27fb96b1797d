package fleet

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/others"
)

func readyNode() *corev1.Node {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "u1", ResourceVersion: "7", CreationTimestamp: at,
			Labels:        map[string]string{"pool": "a", corev1.LabelHostname: "n1"},
			Annotations:   map[string]string{"big": "one"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		},
		Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24", Taints: []corev1.Taint{{Key: "pool", Value: "b", Effect: "NoSchedule"}}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{
				Type: "Ready", Status: "True", Reason: "KubeletReady", Message: "it is", LastHeartbeatTime: at, LastTransitionTime: at,
			}},
			Images: []corev1.ContainerImage{{Names: []string{"an image"}}},
		},
	}
}

func TestOnlyWhatMattersIsAChange(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"nothing", func(*corev1.Node) {}, false},
		{"a heartbeat", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }, false},
		{"a message", func(n *corev1.Node) { n.Status.Conditions[0].Message = "another" }, false},
		{"an image", func(n *corev1.Node) { n.Status.Images = nil }, false},
		{"a status", func(n *corev1.Node) { n.Status.Conditions[0].Status = "False" }, true},
		{"a transition", func(n *corev1.Node) { n.Status.Conditions[0].LastTransitionTime = metav1.Now() }, true},
		{"a new condition", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "Sick"})
		}, true},
		{"a reason", func(n *corev1.Node) { n.Status.Conditions[0].Reason = "Another" }, true},
		{"a cordon", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		{"a taint", func(n *corev1.Node) { n.Spec.Taints[0].Key = "leaving" }, true},
		{"the effect of a taint", func(n *corev1.Node) { n.Spec.Taints[0].Effect = "NoExecute" }, true},
		{"the value of a taint", func(n *corev1.Node) { n.Spec.Taints[0].Value = "c" }, false},
		{"a deletion", func(n *corev1.Node) { n.DeletionTimestamp = &n.CreationTimestamp }, true},
		{"an annotation", func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, false},
		{"why it is excluded", func(n *corev1.Node) { n.Annotations[v1alpha1.ExcludeReasonAnnotation] = "move" }, false},
		{"a label", func(n *corev1.Node) { n.Labels = map[string]string{"pool": "b"} }, true},
		{"another node of the same name", func(n *corev1.Node) { n.UID = "u2" }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			updated := readyNode()
			tt.change(updated)
			if got := Changed(readyNode(), updated); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestStripKeepsWhatIsReadAndNothingElse(t *testing.T) {
	node := readyNode()
	node.Spec.Unschedulable, node.DeletionTimestamp = true, &node.CreationTimestamp
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1", UID: "u1", ResourceVersion: "7", CreationTimestamp: node.CreationTimestamp,
			DeletionTimestamp: node.DeletionTimestamp, Labels: node.Labels,
		},
		Spec:   corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "pool", Effect: "NoSchedule"}}},
		Status: corev1.NodeStatus{Conditions: node.Status.Conditions},
	}
	stripped, err := Strip(node)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(stripped, want) {
		t.Errorf("got %+v\nwant %+v", stripped, want)
	}
	if again, err := Strip(stripped); again != stripped || err != nil {
		t.Errorf("stripping again made another node: %v, %v", again, err)
	}
}

func TestANodeThatIsOutOfServiceIsNotAvailable(t *testing.T) {
	node := readyNode()
	if !Available(node) {
		t.Fatal("it is Ready, and not available")
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
	if Available(node) {
		t.Error("it takes no pods, and is available")
	}
}

func TestStripLeavesOtherKindsAlone(t *testing.T) {
	pod := &corev1.Pod{}
	if got, err := Strip(pod); got != any(pod) || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAHeartbeatAllocatesNothing(t *testing.T) {
	old, updated := readyNode(), readyNode()
	updated.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
	if n := testing.AllocsPerRun(100, func() { Changed(old, updated) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// cached is a cache that has nodes.
type cached struct {
	cache.Cache
	cache.Informer
	indexer toolscache.Indexer
}

func (c cached) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return c, nil
}

func (c cached) GetIndexer() toolscache.Indexer { return c.indexer }

func TestNodesAreKnownUpToTheLastThatHappenedToOne(t *testing.T) {
	c := cached{indexer: toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, nil)}
	nodes, err := Cached(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name, version string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
	}
	for _, step := range []struct {
		happens func() error
		names   []string
		version string
	}{
		{func() error { return nil }, nil, ""},
		{func() error { return c.indexer.Replace([]any{at("a", "9"), at("b", "7")}, "10") }, []string{"a", "b"}, "10"},
		{func() error { return c.indexer.Update(at("b", "12")) }, []string{"a", "b"}, "12"},
		{func() error { return c.indexer.Delete(at("b", "13")) }, []string{"a"}, "13"},
		{func() error { c.indexer.Bookmark("20"); return nil }, []string{"a"}, "20"},
	} {
		if err := step.happens(); err != nil {
			t.Fatal(err)
		}
		all, version := nodes()
		var names []string
		for _, node := range all {
			names = append(names, node.Name)
		}
		slices.Sort(names)
		if !slices.Equal(names, step.names) || version != step.version {
			t.Errorf("got %v at %q, want %v at %q", names, version, step.names, step.version)
		}
	}
}

func TestTheCacheKeepsTheAnnotationsThatGatesRead(t *testing.T) {
	for _, key := range append(others.Annotations(), v1alpha1.ExcludeReasonAnnotation) {
		n := readyNode()
		n.Annotations[key] = "move"
		kept, err := Strip(n)
		if err != nil {
			t.Fatal(err)
		}
		if got := kept.(*corev1.Node).Annotations; len(got) != 1 || got[key] != "move" {
			t.Errorf("of %s it keeps %v", key, got)
		}
	}
}
