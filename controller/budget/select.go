package budget

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// GroupOf returns the name of the node's group in a budget.
func GroupOf(b *v1alpha1.RemediationBudget, node *corev1.Node) string {
	if b.Spec.GroupBy == "" || node.Labels[b.Spec.GroupBy] == "" {
		return v1alpha1.UngroupedNodes
	}
	return node.Labels[b.Spec.GroupBy]
}

// Selecting returns those budgets that select the node, in name order. A
// budget whose selector cannot be read counts as selecting: nothing is done
// past a budget that may have been meant for the node.
func Selecting(budgets []v1alpha1.RemediationBudget, node *corev1.Node) []v1alpha1.RemediationBudget {
	var selecting []v1alpha1.RemediationBudget
	for i := range budgets {
		if selected, err := fleet.Selects(budgets[i].Spec.NodeSelector, node); err != nil || selected {
			selecting = append(selecting, budgets[i])
		}
	}
	slices.SortFunc(selecting, func(a, b v1alpha1.RemediationBudget) int { return strings.Compare(a.Name, b.Name) })
	return selecting
}

// Permit returns the permit for the node, whatever its group was when it was given,
// and that group.
func Permit(b *v1alpha1.RemediationBudget, node string) (permit v1alpha1.Permit, group string, held bool) {
	for name, g := range b.Status.Groups {
		if permit, held := g.Permits[node]; held {
			return permit, name, true
		}
	}
	return v1alpha1.Permit{}, "", false
}

// Holds reports whether the remediation holds the budget's permit for the node.
func Holds(b *v1alpha1.RemediationBudget, node, remediation string) bool {
	permit, _, held := Permit(b, node)
	return held && permit.Remediation == remediation
}

// MayTakeOut reports whether the remediation holds the permits of all these budgets for a
// disruptive step.
func MayTakeOut(budgets []v1alpha1.RemediationBudget, node, remediation string) bool {
	return !slices.ContainsFunc(budgets, func(b v1alpha1.RemediationBudget) bool {
		permit, _, held := Permit(&b, node)
		return !held || permit.Remediation != remediation || !permit.Disruptive
	})
}

// Disrupts reports whether the step takes the node out of service: a disruptive
// step does, unless the node is out already. It is the disruptive of the permit.
func Disrupts(step *v1alpha1.Step, node *corev1.Node) bool {
	return step.Disruptive() && fleet.Available(node)
}
