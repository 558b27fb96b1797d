package gauges

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// What a scrape costs with 5,000 nodes, eight policies and a history of 500 remediations.
func BenchmarkGauges(b *testing.B) {
	cache := &stored{}
	for i := range 8 {
		policy := v1alpha1.RemedyPolicy{}
		policy.Name = fmt.Sprint("p", i)
		policy.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}}
		policy.Spec.Match = []v1alpha1.ConditionMatch{{Type: fmt.Sprint("Condition", i), Status: "True"}, {Type: "Ready", Status: "Unknown"}}
		cache.policies = append(cache.policies, policy)
	}
	for range 5000 {
		node := nodeReporting("True", time.Hour, "False", time.Minute)
		for i := range 8 {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: corev1.NodeConditionType(fmt.Sprint("Condition", i)), Status: "False", LastHeartbeatTime: ago(time.Minute)})
		}
		cache.nodes = append(cache.nodes, node)
	}
	for i := range 500 {
		cache.remediations = append(cache.remediations, remediation(on(types.UID(fmt.Sprint(i))), over, did("command", "Succeeded", time.Hour)))
	}
	gauges := cache.gauges(b, true)
	b.ReportAllocs()
	for b.Loop() {
		testutil.CollectAndCount(gauges)
	}
}
