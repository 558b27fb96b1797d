package v1alpha1

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestABudgetPausesTheNodesThatItSelects(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "workers"}}}
	of := func(pool string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"pool": pool}}
	}
	unreadable := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Near"}}}
	for _, test := range []struct {
		name string
		spec RemediationBudgetSpec
		want bool
	}{
		{"of all nodes", RemediationBudgetSpec{Paused: true}, true},
		{"of this one", RemediationBudgetSpec{Paused: true, NodeSelector: of("workers")}, true},
		{"of others", RemediationBudgetSpec{Paused: true, NodeSelector: of("storage")}, false},
		{"of nobody knows which", RemediationBudgetSpec{Paused: true, NodeSelector: unreadable}, true},
		{"not paused", RemediationBudgetSpec{}, false},
		{"not paused, of nobody knows which", RemediationBudgetSpec{NodeSelector: unreadable}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := (&RemediationBudget{Spec: test.spec}).Pauses(node); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
