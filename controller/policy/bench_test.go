package policy

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// typical is a fleet of nodes with 25 labels and 16 conditions each, in ten pools, and policies
// and budgets for the pools.
func typical(nodes, policies int) ([]v1alpha1.RemedyPolicy, []v1alpha1.RemediationBudget, []*corev1.Node) {
	var ps []v1alpha1.RemedyPolicy
	for i := range policies {
		ps = append(ps, policyFor(selecting("In", fmt.Sprint("pool-", i%10)), fmt.Sprint("Condition", i%15), "Ready"))
	}
	var bs []v1alpha1.RemediationBudget
	for i := range 10 {
		bs = append(bs, budgetFor(selecting("In", fmt.Sprint("pool-", i))))
	}
	ns := make([]*corev1.Node, nodes)
	for i := range ns {
		ns[i] = nodeIn(fmt.Sprint("pool-", i%10), "Ready")
		ns[i].Labels[corev1.LabelHostname] = fmt.Sprint("node-", i)
		for j := range 22 {
			ns[i].Labels[fmt.Sprintf("example.com/label-%d", j)] = "value"
		}
		for j := range 15 {
			ns[i].Status.Conditions = append(ns[i].Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprint("Condition", j)), LastHeartbeatTime: metav1.Now()})
		}
	}
	return ps, bs, ns
}

// What one count costs: once in burst at most, and only if something else has changed than a
// heartbeat or the status of a condition.
func BenchmarkCount(b *testing.B) {
	for _, size := range []struct{ nodes, policies int }{{1_000, 5}, {10_000, 5}, {100_000, 5}, {100_000, 50}, {100_000, 200}} {
		b.Run(fmt.Sprintf("%d-nodes-%d-policies", size.nodes, size.policies), func(b *testing.B) {
			policies, budgets, nodes := typical(size.nodes, size.policies)
			b.ReportAllocs()
			for b.Loop() {
				Count(policies, budgets, nodes)
			}
		})
	}
}

// What a heartbeat costs.
func BenchmarkHeartbeat(b *testing.B) {
	_, _, nodes := typical(2, 1)
	nodes[1].Labels, nodes[1].Status.Conditions = nodes[0].Labels, nodes[0].Status.Conditions
	b.ReportAllocs()
	for b.Loop() {
		if countsOtherwise(nodes[0], nodes[1]) {
			b.Fatal("a heartbeat counts otherwise")
		}
	}
}
