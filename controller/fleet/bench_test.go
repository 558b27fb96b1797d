package fleet

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// typicalNode has as many labels and conditions as a node of a cloud provider with
// a detector.
func typicalNode() *corev1.Node {
	node := readyNode()
	for i := range 25 {
		node.Labels[fmt.Sprintf("example.com/label-%d", i)] = fmt.Sprintf("value-%d", i)
	}
	for i := range 15 {
		c := node.Status.Conditions[0]
		c.Type = corev1.NodeConditionType(fmt.Sprintf("Condition%d", i))
		node.Status.Conditions = append(node.Status.Conditions, c)
	}
	return node
}

// What a heartbeat costs until it is dropped, after it was decoded.
func BenchmarkHeartbeat(b *testing.B) {
	old, updated := typicalNode(), typicalNode()
	for i := range updated.Status.Conditions {
		updated.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
	}
	b.ReportAllocs()
	for b.Loop() {
		if Changed(old, updated) {
			b.Fatal("a heartbeat is a change")
		}
	}
}

func BenchmarkStrip(b *testing.B) {
	node := typicalNode()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Strip(node); err != nil {
			b.Fatal(err)
		}
	}
}
