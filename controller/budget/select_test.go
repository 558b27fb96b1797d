package budget

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestABudgetThatCannotBeReadSelects(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "a"}}}
	budgets := []v1alpha1.RemediationBudget{
		{ObjectMeta: metav1.ObjectMeta{Name: "broken"}, Spec: v1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Near"}}}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "all"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{
			MatchLabels: map[string]string{"pool": "b"}}}},
	}
	got := Selecting(budgets, node)
	if len(got) != 2 || got[0].Name != "all" || got[1].Name != "broken" {
		t.Errorf("got %v, want all and broken", got)
	}
}

func TestNodesAreGroupedByTheirLabel(t *testing.T) {
	b := &v1alpha1.RemediationBudget{Spec: v1alpha1.RemediationBudgetSpec{GroupBy: "rack"}}
	for value, want := range map[string]string{"r7": "r7", "": "-"} {
		if got := GroupOf(b, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"rack": value}}}); got != want {
			t.Errorf("rack %q: group %q, want %q", value, got, want)
		}
	}
	if got := GroupOf(&v1alpha1.RemediationBudget{}, &corev1.Node{}); got != "-" {
		t.Errorf("without groupBy: group %q", got)
	}
}

func TestOnlyADisruptiveStepOnAnAvailableNodeDisrupts(t *testing.T) {
	reboot, gentle := &v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}}, &v1alpha1.Step{Command: &v1alpha1.CommandRemedy{}}
	if !Disrupts(reboot, readyNode("a")) || Disrupts(gentle, readyNode("a")) || Disrupts(reboot, &corev1.Node{}) {
		t.Error("want the reboot of a Ready node alone")
	}
}

// readyNode is an available node with labels: pairs of key and value.
func readyNode(name string, labels ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		node.Labels[labels[i]] = labels[i+1]
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return node
}
