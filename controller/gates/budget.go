package gates

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/fleet"
)

// Reasons of the budget gate.
const (
	// ReasonNoBudget: no RemediationBudget selects the node.
	ReasonNoBudget = "NoBudget"
	// ReasonBudgetInvalid: the selector of a budget cannot be read.
	ReasonBudgetInvalid = "BudgetInvalid"
	// ReasonBudgetExhausted: a budget has no permit left, or others wait for it
	// that come first.
	ReasonBudgetExhausted = "BudgetExhausted"
	// ReasonDisruptionLimit: the step would take the node out of service, and as
	// many nodes are out as may be.
	ReasonDisruptionLimit = "DisruptionLimit"
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
	var numbers []string
	for i := range in.Budgets {
		b := &in.Budgets[i]
		if _, err := fleet.Selects(b.Spec.NodeSelector, in.Node); err != nil {
			return Verdict{
				Reason:  ReasonBudgetInvalid,
				Message: fmt.Sprintf("budget %s: cannot tell whether it is meant for node %s: %v", b.Name, in.Node.Name, err),
				Recheck: BudgetRecheck,
			}
		}
		if v := permitOf(in, b); v.Held() {
			return v
		}
		group := budget.GroupOf(b, in.Node)
		numbers = append(numbers, fmt.Sprintf("budget %s: %d of %d permits taken%s",
			b.Name, len(b.Status.Groups[group].Permits), budget.Allowed(b, group), of(group)))
	}
	return open("%s", strings.Join(numbers, "; "))
}

// permitOf holds if the remediation cannot have the permit of one budget.
func permitOf(in Input, b *v1alpha1.RemediationBudget) Verdict {
	permit, group, taken := budget.Permit(b, in.Node.Name)
	if taken && permit.Remediation != in.Remediation.Name {
		return exhausted(BudgetRecheck, "budget %s: remediation %s acts on node %s", b.Name, permit.Remediation, in.Node.Name)
	}
	// A permit that is to go with the node to another group stays one for a disruptive step.
	disruptive, counted := permit.Disruptive || budget.Disrupts(in.Step(), in.Node), permit.Disruptive
	if current := budget.GroupOf(b, in.Node); !taken || group != current {
		group, counted = current, false
		if v := concurrent(in, b, group); v.Held() {
			return v
		}
	}
	if !disruptive || counted || budget.FreeDisruptions(b, group) > 0 {
		return Verdict{}
	}
	return Verdict{
		Reason:  ReasonDisruptionLimit,
		Message: fmt.Sprintf("budget %s: %s", b.Name, disruptionLimit(b, group)),
		Recheck: BudgetRecheck,
	}
}

func concurrent(in Input, b *v1alpha1.RemediationBudget, group string) Verdict {
	if !budget.Counted(b, group) {
		return exhausted(BudgetRecheck, "budget %s: the nodes%s are not counted yet", b.Name, of(group))
	}
	free, ahead := budget.Free(b, group), in.Ahead[b.Name]
	if free > ahead {
		return Verdict{}
	}
	if free <= 0 {
		return exhausted(BudgetRecheck, "budget %s: %d of %d allowed nodes%s are being acted on",
			b.Name, len(b.Status.Groups[group].Permits), budget.Allowed(b, group), of(group))
	}
	// They may turn out to wait for something else.
	soon := min(BudgetRecheck, time.Duration(1+ahead-free)*time.Second)
	who := plural(ahead, "remediation is", "remediations are")
	if ahead >= free+budget.MostAhead {
		who = "at least " + who
	}
	return exhausted(soon, "budget %s: %s before this one for the %d free of %d permits%s",
		b.Name, who, free, budget.Allowed(b, group), of(group))
}

func exhausted(recheck time.Duration, format string, args ...any) Verdict {
	return Verdict{Reason: ReasonBudgetExhausted, Message: fmt.Sprintf(format, args...), Recheck: recheck}
}

// disruptionLimit explains with the numbers why no more nodes of the group may be
// taken out.
func disruptionLimit(b *v1alpha1.RemediationBudget, group string) string {
	g, counted := b.Status.Groups[group]
	if !counted || g.DisruptionLimit == nil {
		return "the nodes" + of(group) + " are not counted yet"
	}
	out := budget.Disruptive(g.Permits)
	var limits string
	if m := b.Spec.MaxUnavailable; m != nil {
		limits = fmt.Sprintf("spec.maxUnavailable allows %s", m)
	}
	if m := b.Spec.MinHealthy; m != nil {
		if limits != "" {
			limits += ", "
		}
		limits += fmt.Sprintf("spec.minHealthy requires %s", m)
	}
	return fmt.Sprintf("%s%s: %d not Ready, cordoned or leaving, %d taken out by remediations; one more is too many: %s",
		plural(int(g.Nodes), "node", "nodes"), of(group), g.Unavailable, out, limits)
}

// of names a group, if there are groups.
func of(group string) string {
	if group == v1alpha1.UngroupedNodes {
		return ""
	}
	return " of group " + group
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
