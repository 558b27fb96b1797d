package budget

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// spare is how many remediations are woken beyond the free permits, for those
// that turn out to be held by something else.
const spare = 2

// Before reports whether a is served before b when both wait for a permit: the one
// whose next step is final, which the node cannot do without; then the older one,
// by its name among those of one second.
func Before(a, b *v1alpha1.Remediation) bool { return compare(a, b) < 0 }

func compare(a, b *v1alpha1.Remediation) int {
	if first := isFinal(a); first != isFinal(b) {
		if first {
			return -1
		}
		return 1
	}
	return byAge(a, b)
}

// Older reports whether a was created before b; the name decides in one second.
func Older(a, b *v1alpha1.Remediation) bool { return byAge(a, b) < 0 }

func byAge(a, b *v1alpha1.Remediation) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

func isFinal(r *v1alpha1.Remediation) bool {
	step := next(r)
	return step != nil && step.Final()
}

// next returns the next step of a remediation, nil if it has none yet.
func next(r *v1alpha1.Remediation) *v1alpha1.Step { return r.Step(r.Status.Step) }

// Ahead returns, by the name of a budget that has a free permit for the group of
// the node, how many of the waiting come before mine and could take one now. Who
// waits for a permit of another budget is not ahead: that would stop a budget for
// the sake of one that is exhausted. The waiting are asked for only if there is a
// free permit. nodeOf returns nil for a node that is gone.
func Ahead(mine *v1alpha1.Remediation, node *corev1.Node, budgets []v1alpha1.RemediationBudget,
	waiting func() []v1alpha1.Remediation, nodeOf func(name string) *corev1.Node,
) map[string]int {
	ahead := map[string]int{}
	free := Selecting(budgets, node)
	free = slices.DeleteFunc(free, func(b v1alpha1.RemediationBudget) bool { return Free(&b, GroupOf(&b, node)) <= 0 })
	if len(free) == 0 {
		return ahead
	}
	queue := waiting()
	for i := range queue {
		other := &queue[i]
		if other.Name == mine.Name || !Before(other, mine) {
			continue
		}
		theirs := nodeOf(other.Spec.NodeName)
		if theirs == nil || !couldTake(other, theirs, budgets) {
			continue
		}
		for j := range free {
			b := &free[j]
			if selects(b, theirs) && GroupOf(b, theirs) == GroupOf(b, node) {
				ahead[b.Name]++
			}
		}
	}
	return ahead
}

// couldTake reports whether every one of the budgets that selects the node has a permit
// for the remediation's next step.
func couldTake(r *v1alpha1.Remediation, node *corev1.Node, budgets []v1alpha1.RemediationBudget) bool {
	for i := range budgets {
		b := &budgets[i]
		if !selects(b, node) {
			continue
		}
		group := GroupOf(b, node)
		if heldByAnother(b, r) || Free(b, group) <= 0 || disrupts(r, node) && FreeDisruptions(b, group) <= 0 {
			return false
		}
	}
	return true
}

// Wake returns the names of those that wait which are to look again now: in each
// group of the budget as many as there are free permits, in their order, and a
// few more. Those of the control plane, who are few, are woken besides: they also wait for
// one another. Who waits for a permit of one of the other budgets is woken by that one. The
// waiting are asked for only if there is a free permit.
func Wake(b *v1alpha1.RemediationBudget, all []v1alpha1.RemediationBudget,
	waiting func() []v1alpha1.Remediation, nodeOf func(name string) *corev1.Node,
) []string {
	free := false
	for group := range b.Status.Groups {
		free = free || Free(b, group) > 0
	}
	if !free {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(all), func(other v1alpha1.RemediationBudget) bool { return other.Name == b.Name })
	queue := waiting()
	inOrder := make([]*v1alpha1.Remediation, len(queue))
	for i := range queue {
		inOrder[i] = &queue[i]
	}
	slices.SortFunc(inOrder, compare)
	type left struct{ permits, disruptions int }
	groups := map[string]*left{}
	var names []string
	for _, r := range inOrder {
		node := nodeOf(r.Spec.NodeName)
		if node == nil || !selects(b, node) || heldByAnother(b, r) {
			continue
		}
		group := GroupOf(b, node)
		if _, counted := b.Status.Groups[group]; !counted {
			continue
		}
		l := groups[group]
		if l == nil {
			l = &left{wakeable(Free(b, group)), wakeable(FreeDisruptions(b, group))}
			groups[group] = l
		}
		disruptive := disrupts(r, node)
		if l.permits == 0 || disruptive && l.disruptions == 0 || !couldTake(r, node, others) {
			continue
		}
		names = append(names, r.Name)
		if fleet.ControlPlane(node) {
			continue
		}
		l.permits--
		if disruptive {
			l.disruptions--
		}
	}
	return names
}

// heldByAnother reports whether another remediation has the permit for the node: this one
// waits for that, whatever is free.
func heldByAnother(b *v1alpha1.RemediationBudget, r *v1alpha1.Remediation) bool {
	permit, _, held := Permit(b, r.Spec.NodeName)
	return held && permit.Remediation != r.Name
}

func wakeable(free int) int {
	if free <= 0 {
		return 0
	}
	return free + spare
}

// disrupts reports whether the next step of the remediation takes the node out.
func disrupts(r *v1alpha1.Remediation, node *corev1.Node) bool {
	step := next(r)
	return step != nil && Disrupts(step, node)
}

// selects is true also for a selector that cannot be read, as in Selecting.
func selects(b *v1alpha1.RemediationBudget, node *corev1.Node) bool {
	return len(Selecting([]v1alpha1.RemediationBudget{*b}, node)) == 1
}
