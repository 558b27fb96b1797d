package budget

import (
	"container/heap"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// spare is how many remediations are woken beyond the free permits, for those
// that turn out to be held by something else.
const spare = 2

// MostAhead is how many are counted that are ahead and for whom no permit is left. Whoever
// is farther behind does not need to know how far.
const MostAhead = 60

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
// the node, how many of the waiting come before mine and could take one now, at most
// MostAhead more than there are permits: if the first budget has as many, the others are not
// counted any more. Budgets whose permit mine has already are left out. Who waits for a permit of another budget is not ahead: that would stop a budget
// for the sake of one that is exhausted. Selecting are those of all budgets that select the node,
// in name order. The waiting are asked for only if there is a
// free permit. nodeOf returns nil for a node that is gone.
func Ahead(mine *v1alpha1.Remediation, node *corev1.Node, selecting, all []v1alpha1.RemediationBudget,
	waiting func() []*v1alpha1.Remediation, nodeOf func(name string) *corev1.Node,
) map[string]int {
	var wanted []*line
	for i := range selecting {
		b := &selecting[i]
		group := GroupOf(b, node)
		permit, filed, held := Permit(b, node.Name)
		if has := held && permit.Remediation == mine.Name && filed == group; !has && Free(b, group) > 0 {
			wanted = append(wanted, &line{ruleOf(b), group, Free(b, group) + MostAhead, 0})
		}
	}
	ahead := map[string]int{}
	if len(wanted) == 0 {
		return ahead
	}
	queue := waiting()
	if len(queue) == 0 {
		return ahead
	}
	rules := rulesOf(all)
	for _, other := range queue {
		if other.Name == mine.Name || !Before(other, mine) {
			continue
		}
		theirs := nodeOf(other.Spec.NodeName)
		if theirs == nil || !joinAny(wanted, theirs) || !couldTake(other, theirs, rules) {
			continue
		}
		for _, l := range wanted {
			if l.has(theirs) {
				l.ahead++
			}
		}
		if first := wanted[0]; first.ahead == first.most {
			wanted = wanted[:1]
			break
		}
	}
	for _, l := range wanted {
		if l.ahead > 0 {
			ahead[l.Name] = min(l.ahead, l.most)
		}
	}
	return ahead
}

// line is who waits for the permits of one group of a budget.
type line struct {
	*rule
	group string
	// most is how many are counted of those who are ahead.
	most, ahead int
}

// has reports whether remediations of the node wait in the line.
func (l *line) has(node *corev1.Node) bool {
	return GroupOf(l.RemediationBudget, node) == l.group && l.selects(node)
}

func joinAny(lines []*line, node *corev1.Node) bool {
	return slices.ContainsFunc(lines, func(l *line) bool { return l.has(node) })
}

// couldTake reports whether every one of the budgets that selects the node has a permit
// for the remediation's next step.
func couldTake(r *v1alpha1.Remediation, node *corev1.Node, rules []*rule) bool {
	disruptive := disrupts(r, node)
	refuses := func(b *rule) bool {
		return b.selects(node) && b.refuses(r, GroupOf(b.RemediationBudget, node), disruptive)
	}
	i := slices.IndexFunc(rules, refuses)
	if i > 0 { // it may well refuse the next one, too
		rules[0], rules[i] = rules[i], rules[0]
	}
	return i < 0
}

// Wake returns the names of those that wait which are to look again now: in each
// group of the budget as many as there are free permits, in their order, and a
// few more. Those of the control plane, who are few, are woken besides: they also wait for
// one another. Who waits for a permit of one of the other budgets is woken by that one. The
// waiting are asked for only if there is a free permit.
func Wake(b *v1alpha1.RemediationBudget, all []v1alpha1.RemediationBudget,
	waiting func() []*v1alpha1.Remediation, nodeOf func(name string) *corev1.Node,
) []string {
	type left struct{ permits, disruptions int }
	groups := map[string]*left{}
	for group := range b.Status.Groups {
		if free := Free(b, group); free > 0 {
			groups[group] = &left{wakeable(free), wakeable(FreeDisruptions(b, group))}
		}
	}
	if len(groups) == 0 {
		return nil
	}
	own := ruleOf(b)
	var inOrder queued
	for _, r := range waiting() {
		if node := nodeOf(r.Spec.NodeName); node != nil && groups[GroupOf(b, node)] != nil && own.selects(node) && !own.heldByAnother(r) {
			inOrder = append(inOrder, entry{r, node, isFinal(r)})
		}
	}
	heap.Init(&inOrder)
	others := slices.DeleteFunc(rulesOf(all), func(other *rule) bool { return other.Name == b.Name })
	var names []string
	for len(inOrder) > 0 && len(groups) > 0 {
		first, _ := heap.Pop(&inOrder).(entry)
		r, node, group := first.Remediation, first.node, GroupOf(b, first.node)
		l, disruptive := groups[group], disrupts(first.Remediation, first.node)
		if l == nil || disruptive && l.disruptions == 0 || !couldTake(r, node, others) {
			continue
		}
		names = append(names, r.Name)
		if fleet.ControlPlane(node) {
			continue
		}
		l.permits--
		if l.permits == 0 {
			delete(groups, group)
		}
		if disruptive {
			l.disruptions--
		}
	}
	return names
}

// entry is a remediation in the order in which those who wait are served.
type entry struct {
	*v1alpha1.Remediation
	node  *corev1.Node
	final bool
}

// queued is a heap, the first one at its top: only a few are taken, and the others never sorted.
type queued []entry

func (q queued) Len() int { return len(q) }

func (q queued) Less(i, j int) bool {
	if q[i].final != q[j].final {
		return q[i].final
	}
	return Older(q[i].Remediation, q[j].Remediation)
}

func (q queued) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is never used.
func (q *queued) Push(any) {}

func (q *queued) Pop() any {
	last := len(*q) - 1
	popped := (*q)[last]
	*q = (*q)[:last]
	return popped
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
