// Package budget gives out the permits of RemediationBudgets and takes them
// back. The API server enforces the limit; this package only asks.
package budget

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// Limit returns how many permits maxConcurrent allows for this many nodes. A
// percentage is rounded down, but is at least 1 when there is a node at all,
// so that small groups can be repaired; 0% is 0.
func Limit(maxConcurrent intstr.IntOrString, nodes int) (int32, error) {
	limit, err := intstr.GetScaledValueFromIntOrPercent(&maxConcurrent, nodes, false)
	if err != nil {
		return 0, fmt.Errorf("spec.maxConcurrent: %w", err)
	}
	isZero := strings.Trim(maxConcurrent.StrVal, "0%") == ""
	if limit == 0 && nodes > 0 && maxConcurrent.Type == intstr.String && !isZero {
		limit = 1
	}
	return int32(limit), nil
}

// GroupOf returns the name of the node's group in a budget.
func GroupOf(b *v1alpha1.RemediationBudget, node *corev1.Node) string {
	if b.Spec.GroupBy == "" || node.Labels[b.Spec.GroupBy] == "" {
		return v1alpha1.UngroupedNodes
	}
	return node.Labels[b.Spec.GroupBy]
}

// Allowed returns the number of permits that the API server allows now in a group:
// the spec's number, or for a percentage the limit last written to the status.
func Allowed(b *v1alpha1.RemediationBudget, group string) int32 {
	switch m := b.Spec.Concurrent(); {
	case m.Type == intstr.Int:
		return m.IntVal
	case b.Status.Groups[group].Limit != nil:
		return *b.Status.Groups[group].Limit
	default:
		return 0
	}
}

// Selecting returns those budgets that select the node, in name order. A
// budget whose selector cannot be read counts as selecting: nothing is done
// past a budget that may have been meant for the node.
func Selecting(budgets []v1alpha1.RemediationBudget, node *corev1.Node) []v1alpha1.RemediationBudget {
	var selecting []v1alpha1.RemediationBudget
	for _, b := range budgets {
		if selected, err := fleet.Selects(b.Spec.NodeSelector, node); err != nil || selected {
			selecting = append(selecting, b)
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
