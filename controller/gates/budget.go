package gates

import (
	"fmt"
	"time"

	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/fleet"
)

// Reasons of the budget gate.
const (
	// ReasonNoBudget: no RemediationBudget selects the node.
	ReasonNoBudget = "NoBudget"
	// ReasonBudgetInvalid: the selector of a budget cannot be read.
	ReasonBudgetInvalid = "BudgetInvalid"
	// ReasonBudgetExhausted: a budget has no permit left.
	ReasonBudgetExhausted = "BudgetExhausted"
)

// BudgetRecheck is a safety net: a returned permit wakes who waits for it.
const BudgetRecheck = time.Minute

// Budget holds an action on a node that no budget selects, or whose budget
// has no permit left as far as is known; the API server has the last word.
func Budget(in Input) Verdict {
	if len(in.Budgets) == 0 {
		return Verdict{
			Reason:  ReasonNoBudget,
			Message: fmt.Sprintf("no RemediationBudget selects node %s: create one to allow actions on it", in.Node.Name),
		}
	}
	for i := range in.Budgets {
		b := &in.Budgets[i]
		if _, err := fleet.Selects(b.Spec.NodeSelector, in.Node); err != nil {
			return Verdict{
				Reason:  ReasonBudgetInvalid,
				Message: fmt.Sprintf("budget %s: cannot tell whether it is meant for node %s: %v", b.Name, in.Node.Name, err),
				Recheck: BudgetRecheck,
			}
		}
		if permit, _, taken := budget.Permit(b, in.Node.Name); taken {
			if permit.Remediation == in.Remediation.Name {
				continue
			}
			return Verdict{
				Reason:  ReasonBudgetExhausted,
				Message: fmt.Sprintf("budget %s: remediation %s acts on node %s", b.Name, permit.Remediation, in.Node.Name),
				Recheck: BudgetRecheck,
			}
		}
		group := budget.GroupOf(b, in.Node)
		allowed, held := int(budget.Allowed(b, group)), len(b.Status.Groups[group].Permits)
		if held < allowed {
			continue
		}
		return Verdict{
			Reason:  ReasonBudgetExhausted,
			Message: fmt.Sprintf("budget %s: %d of %d allowed nodes are being acted on", b.Name, held, allowed),
			Recheck: BudgetRecheck,
		}
	}
	return Verdict{}
}
