package gates

import (
	"fmt"
	"strings"
)

// ReasonPaused says that the policy, or a budget that selects the node, is paused.
const ReasonPaused = "Paused"

// Paused holds every new action of a policy, and on a node of a budget, that a person
// has paused.
func Paused(in Input) Verdict {
	var paused []string
	if in.Policy != nil && in.Policy.Spec.Paused {
		paused = append(paused, "RemedyPolicy "+in.Policy.Name+because(in.Policy.Spec.PauseReason))
	}
	for i := range in.Budgets {
		if b := &in.Budgets[i]; b.Pauses(in.Node) {
			paused = append(paused, "RemediationBudget "+b.Name+", which selects node "+in.Node.Name+because(b.Spec.PauseReason))
		}
	}
	if len(paused) == 0 {
		return Verdict{}
	}
	return Verdict{Reason: ReasonPaused, Message: "paused by spec.paused of " + strings.Join(paused, " and of ")}
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", reason)
}
