package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Counts are numbers of the nodes that a policy selects.
type Counts struct {
	// Invalid is why the policy's nodeSelector cannot be read; then it selects no node.
	Invalid error
	// All is the number of nodes that there are, selected or not.
	All int32
	// Nodes is the number of those that are selected.
	Nodes int32
	// WithoutBudget, Closed and Excluded are numbers of those that may not be acted on: no
	// budget selects them; or one does that never gives a permit; or a person has excluded
	// them. A node counts in the first that is so.
	WithoutBudget, Closed, Excluded int32
	// WithoutFence is the number of those that nobody could switch off from outside, as far as that
	// was tried.
	WithoutFence int32
	// Reports has, for each type of the policy's match in the order of their first entries,
	// how many nodes have such a condition.
	Reports []v1alpha1.ConditionReports
}

// Allowed is the number of nodes that may be acted on.
func (c *Counts) Allowed() int32 { return c.Nodes - c.WithoutBudget - c.Closed - c.Excluded }

// Count counts nodes for each of the policies, in their order. Each node is looked at once,
// whatever the number of policies and budgets: these are asked about each sort of nodes, which are
// alike in all that selectors, matches and budgets ask for.
func Count(policies []v1alpha1.RemedyPolicy, budgets []v1alpha1.RemediationBudget, nodes []*corev1.Node) []Counts {
	counts := make([]Counts, len(policies))
	selectors := make([]labels.Selector, len(policies))
	for i := range policies {
		counts[i].All = int32(len(nodes))
		selectors[i], counts[i].Invalid = v1alpha1.SelectorOf(policies[i].Spec.NodeSelector)
		for _, m := range policies[i].Spec.Match {
			if !slices.ContainsFunc(counts[i].Reports, func(r v1alpha1.ConditionReports) bool { return r.Type == m.Type }) {
				counts[i].Reports = append(counts[i].Reports, v1alpha1.ConditionReports{Type: m.Type})
			}
		}
	}
	limits := limitsOf(budgets)
	for _, s := range newSorter(policies, selectors, limits).sort(nodes) {
		withoutBudget, closed := limits.on(s.labels)
		for i := range policies {
			if counts[i].Invalid != nil || !selectors[i].Matches(s.labels) {
				continue
			}
			c := &counts[i]
			c.Nodes += s.nodes
			if !s.fenceable {
				c.WithoutFence += s.nodes
			}
			switch {
			case withoutBudget:
				c.WithoutBudget += s.nodes
			case closed:
				c.Closed += s.nodes
			case s.labels[v1alpha1.ExcludeLabel] == "true":
				c.Excluded += s.nodes
			}
			for j := range c.Reports {
				if s.conditions[c.Reports[j].Type] {
					c.Reports[j].Nodes += s.nodes
				}
			}
		}
	}
	return counts
}

// limit is one budget.
type limit struct {
	selector labels.Selector // nil: it cannot be read
	closed   bool
}

type limits []limit

// limitsOf returns the budgets without that which is the pause of the cluster, and has no other
// use.
func limitsOf(budgets []v1alpha1.RemediationBudget) limits {
	var all limits
	for i := range budgets {
		b := &budgets[i]
		if b.PausesCluster() {
			continue
		}
		concurrent := b.Spec.Concurrent()
		l := limit{closed: concurrent.Type == intstr.Int && concurrent.IntVal == 0 || concurrent.Type == intstr.String && concurrent.StrVal == "0%"}
		if selector, err := v1alpha1.SelectorOf(b.Spec.NodeSelector); err == nil {
			l.selector = selector
		}
		all = append(all, l)
	}
	return all
}

// on says what the budgets are for nodes with these labels. One whose selector cannot be read
// holds every node, as in gates.Budget.
func (all limits) on(node labels.Set) (withoutBudget, closed bool) {
	withoutBudget = true
	for _, l := range all {
		if l.selector == nil || l.selector.Matches(node) {
			withoutBudget = false
			closed = closed || l.closed || l.selector == nil
		}
	}
	return withoutBudget, closed
}
