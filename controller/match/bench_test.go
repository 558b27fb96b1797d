package match

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// What a change of one node costs with twenty policies, whatever the number of
// nodes.
func BenchmarkTwentyPoliciesOnOneNode(b *testing.B) {
	policies := make([]v1alpha1.RemedyPolicy, 20)
	n := node(map[string]string{"pool": "workers"}, since("Ready", "True", time.Hour))
	for i := range policies {
		conditionType := fmt.Sprintf("Condition%d", i)
		policies[i].Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
		policies[i].Spec.Match = []v1alpha1.ConditionMatch{entry(conditionType, time.Minute), {Type: "Ready", Status: "Unknown"}}
		n.Status.Conditions = append(n.Status.Conditions, since(conditionType, "False", time.Hour))
	}
	decide := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for i := range policies {
				Policy(&policies[i], n, now, nil, nil)
			}
		}
	}
	b.Run("healthy", decide)
	n.Status.Conditions[len(n.Status.Conditions)-1].Status = "True"
	b.Run("sick", decide)
	n.Status.Conditions[0].Status = "Unknown"
	b.Run("all-match", decide)
}
