package gates

import (
	"fmt"
	"strings"
)

// ReasonPaused says that a budget that selects the node is paused.
const ReasonPaused = "Paused"

// Paused holds every new action on a node of a budget that a person has paused.
func Paused(in Input) Verdict {
	var paused []string
	for i := range in.Budgets {
		if in.Budgets[i].Spec.Paused {
			paused = append(paused, in.Budgets[i].Name)
		}
	}
	if len(paused) == 0 {
		return Verdict{}
	}
	return Verdict{
		Reason: ReasonPaused,
		Message: fmt.Sprintf("paused by spec.paused of RemediationBudget %s, which selects node %s",
			strings.Join(paused, " and "), in.Node.Name),
	}
}
