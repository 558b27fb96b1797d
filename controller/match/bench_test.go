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
	for i := range policies {
		policies[i].Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
		policies[i].Spec.Match = []v1alpha1.ConditionMatch{entry(fmt.Sprintf("Condition%d", i), time.Minute), entry("Ready", time.Hour)}
	}
	n := node(map[string]string{"pool": "workers"}, since("Condition19", "True", time.Hour), since("Ready", "True", time.Hour))
	b.ReportAllocs()
	for b.Loop() {
		for i := range policies {
			Policy(&policies[i], n, now)
		}
	}
}
