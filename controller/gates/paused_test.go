package gates

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestPaused(t *testing.T) {
	on, off := v1alpha1.RemediationBudgetSpec{Paused: true}, v1alpha1.RemediationBudgetSpec{}
	why := v1alpha1.RemediationBudgetSpec{Paused: true, PauseReason: "rack move"}
	others := v1alpha1.RemediationBudgetSpec{Paused: true, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "storage"}}}
	policy := func(in *Input) { in.Policy.Spec.Paused = true }
	runGate(t, Paused, []gateTest{
		{name: "no budget", in: input(budgets())},
		{name: "none of two", in: input(budgets(off, off))},
		{name: "one of two", in: input(budgets(off, on)), reason: "Paused",
			messages: []string{"paused by spec.paused of RemediationBudget b, which selects node w17"}},
		{name: "two", in: input(budgets(on, off, on)), reason: "Paused",
			messages: []string{"RemediationBudget a, which selects node w17 and of RemediationBudget c, which"}},
		{name: "with a reason", in: input(budgets(why)), reason: "Paused", messages: []string{"which selects node w17 (rack move)"}},
		{name: "one of other nodes", in: input(budgets(others))},
		{name: "the policy", in: input(budgets(off), policy), reason: "Paused",
			messages: []string{"paused by spec.paused of RemedyPolicy container-runtime"}},
		{name: "a reason without the switch", in: input(budgets(v1alpha1.RemediationBudgetSpec{PauseReason: "rack move"}))},
	})
}
