package fleet

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func readyNode() *corev1.Node {
	at := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Labels: map[string]string{"pool": "a"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True", LastHeartbeatTime: at, LastTransitionTime: at}},
			Images:     []corev1.ContainerImage{{Names: []string{"an image"}}},
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

func TestStripKeepsWhatIsRead(t *testing.T) {
	stripped, err := Strip(readyNode())
	if err != nil {
		t.Fatal(err)
	}
	node := stripped.(*corev1.Node)
	if Changed(readyNode(), node) {
		t.Error("stripping changed what is read")
	}
	if node.Status.Images != nil || node.Spec.PodCIDR != "" {
		t.Error("what nobody reads was kept")
	}
}
