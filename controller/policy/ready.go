package policy

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// rule is a reason for the Ready condition.
type rule struct {
	reason string
	status metav1.ConditionStatus
	// applies says why to a person, and what to do; "" if the rule does not apply.
	applies func(*v1alpha1.RemedyPolicySpec, *Counts) string
}

// rules are asked in this order; the first that applies is shown. What a policy can never do
// comes before what it is told not to do now: that is found out too late otherwise.
func rules() []rule {
	return []rule{
		{v1alpha1.ReasonSelectorInvalid, metav1.ConditionFalse, selectorInvalid},
		{v1alpha1.ReasonNoNode, metav1.ConditionFalse, noNode},
		{v1alpha1.ReasonNotReported, metav1.ConditionFalse, notReported},
		{v1alpha1.ReasonNoRemediationAllowed, metav1.ConditionFalse, noRemediationAllowed},
		{v1alpha1.ReasonNoBudget, metav1.ConditionFalse, noBudget},
		{v1alpha1.ReasonNoNodeAllowed, metav1.ConditionFalse, noNodeAllowed},
		{v1alpha1.ReasonPaused, metav1.ConditionTrue, paused},
		{v1alpha1.ReasonDryRun, metav1.ConditionTrue, dryRun},
		{v1alpha1.ReasonEnforced, metav1.ConditionTrue, enforced},
	}
}

// Ready returns the Ready condition of a policy with this spec and these counts, without its
// times.
func Ready(spec *v1alpha1.RemedyPolicySpec, c *Counts) metav1.Condition {
	for _, r := range rules() {
		if message := r.applies(spec, c); message != "" {
			return metav1.Condition{Type: v1alpha1.RemedyPolicyReady, Status: r.status, Reason: r.reason, Message: message + unfenced(spec, c)}
		}
	}
	return metav1.Condition{Type: v1alpha1.RemedyPolicyReady, Status: metav1.ConditionUnknown, Reason: "Unknown"} // the last rule applies
}

func selectorInvalid(_ *v1alpha1.RemedyPolicySpec, c *Counts) string {
	if c.Invalid == nil {
		return ""
	}
	return fmt.Sprintf("spec.nodeSelector cannot be read, so it selects no node: %v", c.Invalid)
}

func noNode(_ *v1alpha1.RemedyPolicySpec, c *Counts) string {
	switch {
	case c.Nodes > 0:
		return ""
	case c.All == 0:
		return "there is no node"
	default:
		return fmt.Sprintf("spec.nodeSelector selects none of %s: compare it with kubectl get nodes --show-labels", nodes(c.All))
	}
}

// notReported: without any of its conditions a policy starts nothing; without one of them no
// remediation of it ever counts as recovered, since all must be clear.
func notReported(_ *v1alpha1.RemedyPolicySpec, c *Counts) string {
	var missing []string
	for _, r := range c.Reports {
		if r.Nodes == 0 {
			missing = append(missing, r.Type)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	without := "no remediation of the policy can start"
	if len(missing) < len(c.Reports) {
		without = "no remediation of the policy can count as recovered"
	}
	return fmt.Sprintf("none of %s reports %s: %s; run the check on the nodes, or take it out of spec.match",
		selected(c.Nodes), strings.Join(missing, " and "), without)
}

func noRemediationAllowed(spec *v1alpha1.RemedyPolicySpec, _ *Counts) string {
	if spec.MaxRemediations == nil || spec.MaxRemediations.Count > 0 {
		return ""
	}
	return "spec.maxRemediations.count is 0, which allows no remediation to act: raise it"
}

func noBudget(_ *v1alpha1.RemedyPolicySpec, c *Counts) string {
	if c.WithoutBudget < c.Nodes {
		return ""
	}
	return fmt.Sprintf("no RemediationBudget selects any of %s: create one to allow actions on them", selected(c.Nodes))
}

func noNodeAllowed(_ *v1alpha1.RemedyPolicySpec, c *Counts) string {
	if c.Allowed() > 0 {
		return ""
	}
	return fmt.Sprintf("none of %s may be acted on: %s", selected(c.Nodes), held(c))
}

func paused(spec *v1alpha1.RemedyPolicySpec, _ *Counts) string {
	if !spec.Paused {
		return ""
	}
	because := ""
	if spec.PauseReason != "" {
		because = " (" + spec.PauseReason + ")"
	}
	return "it starts no new action, by spec.paused" + because + "; to let it, set that to false"
}

func dryRun(spec *v1alpha1.RemedyPolicySpec, c *Counts) string {
	if spec.Mode != v1alpha1.ModeDryRun {
		return ""
	}
	return "it only shows what it would do on " + selected(c.Nodes) + but(c) + "; to let it act, set spec.mode to Enforce"
}

func enforced(spec *v1alpha1.RemedyPolicySpec, c *Counts) string {
	if len(spec.Match) == 0 {
		return "it has no match: it acts on " + selected(c.Nodes) + " when a NodemendRemediation asks for it" + but(c)
	}
	return "it acts on " + selected(c.Nodes) + but(c)
}

// but says which of the selected nodes are left alone.
func but(c *Counts) string {
	if text := held(c); text != "" {
		return ", but not on all: " + text
	}
	return ""
}

// unfenced says on how many nodes a step that switches power would fail, as far as that was tried.
func unfenced(spec *v1alpha1.RemedyPolicySpec, c *Counts) string {
	needs := slices.IndexFunc(spec.Steps, func(s v1alpha1.Step) bool { return s.NeedsSwitch() })
	if needs < 0 || c.WithoutFence == 0 {
		return ""
	}
	return fmt.Sprintf("; step %d switches power, and of %s %d were not seen to have a switch that would do: kubectl nodemend status", needs+1, selected(c.Nodes), c.WithoutFence)
}

// held says how many nodes may not be acted on, and why.
func held(c *Counts) string {
	var parts []string
	if c.WithoutBudget > 0 {
		parts = append(parts, fmt.Sprintf("%d without a RemediationBudget", c.WithoutBudget))
	}
	if c.Closed > 0 {
		parts = append(parts, fmt.Sprintf("%d in a RemediationBudget that gives no permit (maxConcurrent 0)", c.Closed))
	}
	if c.Excluded > 0 {
		parts = append(parts, fmt.Sprintf("%d labelled %s=true", c.Excluded, v1alpha1.ExcludeLabel))
	}
	return strings.Join(parts, ", ")
}

func selected(n int32) string {
	if n == 1 {
		return "1 selected node"
	}
	return fmt.Sprintf("%d selected nodes", n)
}

func nodes(n int32) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
