//go:build integration

package budget

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// 500 remediations that want a permit at once.
func BenchmarkTake500AtOnce(b *testing.B) {
	for _, limit := range []int32{500, 10} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			c := newClient(b)
			var total time.Duration
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				budget := createBudget(b, c, fmt.Sprintf("bench-%d-%d-%d", limit, b.N, i), atMost(limit))
				p := New(c, c)
				b.StartTimer()
				began := time.Now()
				if given, refused := takeAll(b, 500, []v1alpha1.RemediationBudget{*budget}, p); int32(given) != limit || given+refused != 500 {
					b.Fatalf("%d given, %d refused", given, refused)
				}
				total += time.Since(began)
			}
			b.ReportMetric(float64(total.Milliseconds())/float64(b.N), "ms/500-takes")
		})
	}
}

func BenchmarkGroupsOf5000Nodes(b *testing.B) {
	budget := &v1alpha1.RemediationBudget{Spec: v1alpha1.RemediationBudgetSpec{
		MaxConcurrent: ptr.To(intstr.FromString("10%")), MaxUnavailable: ptr.To(intstr.FromString("10%")), MinHealthy: ptr.To(intstr.FromString("66%")),
	}}
	nodes := make([]NodeState, 5000)
	for i := range nodes {
		nodes[i] = NodeState{Name: fmt.Sprintf("node-%d", i), Group: fmt.Sprintf("rack-%d", i%125), Available: i%50 != 0, Sick: i%40 == 0}
	}
	for b.Loop() {
		if _, err := Groups(budget, nodes, noon); err != nil {
			b.Fatal(err)
		}
	}
}
