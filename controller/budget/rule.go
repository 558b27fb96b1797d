package budget

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// rule is a budget of which the same is asked for many remediations: what it takes time to
// tell it tells once. It is for one decision, by one goroutine.
type rule struct {
	*v1alpha1.RemediationBudget
	// selector of the nodes; nil: not read yet.
	selector labels.Selector
	// holders of permits by their nodes; nil: not looked for yet.
	holders map[string]string
	// free permits by group.
	free map[string]permits
}

// permits are those that are free.
type permits struct{ any, disruptive int }

func ruleOf(b *v1alpha1.RemediationBudget) *rule { return &rule{RemediationBudget: b} }

func rulesOf(budgets []v1alpha1.RemediationBudget) []*rule {
	rules := make([]*rule, len(budgets))
	for i := range budgets {
		rules[i] = ruleOf(&budgets[i])
	}
	return rules
}

// selects is true also for a selector that cannot be read, as in Selecting.
func (r *rule) selects(node *corev1.Node) bool {
	if r.selector == nil {
		var err error
		if r.selector, err = fleet.Selector(r.Spec.NodeSelector); err != nil {
			r.selector = labels.Everything()
		}
	}
	return r.selector.Matches(labels.Set(node.Labels))
}

// refuses reports whether the budget has no permit for the next step of a remediation on a
// node of the group.
func (r *rule) refuses(remediation *v1alpha1.Remediation, group string, disruptive bool) bool {
	free, known := r.free[group]
	if !known {
		if r.free == nil {
			r.free = map[string]permits{}
		}
		free = permits{Free(r.RemediationBudget, group), FreeDisruptions(r.RemediationBudget, group)}
		r.free[group] = free
	}
	return free.any <= 0 || disruptive && free.disruptive <= 0 || r.heldByAnother(remediation)
}

// heldByAnother reports whether another remediation has the permit for the node: this one
// waits for that, whatever is free.
func (r *rule) heldByAnother(remediation *v1alpha1.Remediation) bool {
	if r.holders == nil {
		r.holders = map[string]string{}
		for _, group := range r.Status.Groups {
			for node, permit := range group.Permits {
				r.holders[node] = permit.Remediation
			}
		}
	}
	holder, held := r.holders[remediation.Spec.NodeName]
	return held && holder != remediation.Name
}
