package fleet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestNodesAreKnownUpToTheLatestVersion(t *testing.T) {
	at := func(versions ...string) (nodes []*corev1.Node) {
		for _, v := range versions {
			nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{ResourceVersion: v}})
		}
		return nodes
	}
	for _, tt := range []struct {
		nodes []*corev1.Node
		want  string
	}{
		{at(), ""},
		{at("7"), "7"},
		{at("9", "10", "8"), "10"},
		{at("", "10"), "10"},
	} {
		if got := Version(tt.nodes); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
