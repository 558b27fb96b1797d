package gates

import (
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestPaused(t *testing.T) {
	on, off := v1alpha1.RemediationBudgetSpec{Paused: true}, v1alpha1.RemediationBudgetSpec{}
	runGate(t, Paused, []gateTest{
		{name: "no budget", in: input(budgets())},
		{name: "none of two", in: input(budgets(off, off))},
		{name: "one of two", in: input(budgets(off, on)), reason: "Paused",
			messages: []string{"paused by spec.paused of RemediationBudget b, which selects node w17"}},
		{name: "two", in: input(budgets(on, off, on)), reason: "Paused", messages: []string{"RemediationBudget a and c,"}},
	})
}
