package budget

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// MaxGroups is how many groups a budget has at most: the API server takes no more.
const MaxGroups = 150

// NodeState is what a budget looks at in a node that it selects.
type NodeState struct {
	Name string
	// Group of the node in the budget.
	Group string
	// Available as in fleet.Available.
	Available bool
	// Sick: a remediation of the node is open, and its policy is enforced.
	Sick bool
}

// states returns what the budget looks at in the nodes that it selects.
func states(b *v1alpha1.RemediationBudget, selected []*corev1.Node, sick map[types.UID]bool) []NodeState {
	nodes := make([]NodeState, len(selected))
	for i, node := range selected {
		nodes[i] = stateOf(b, node, sick)
	}
	return nodes
}

func stateOf(b *v1alpha1.RemediationBudget, node *corev1.Node, sick map[types.UID]bool) NodeState {
	return NodeState{Name: node.Name, Group: GroupOf(b, node), Available: fleet.Available(node), Sick: sick[node.UID]}
}

// Sick returns the UIDs of the nodes with an open remediation. Those of policies in mode DryRun do
// not count: such a policy is on trial, what it matches may be no fault, and must not keep others
// from acting.
func Sick(open []*v1alpha1.Remediation, policies []v1alpha1.RemedyPolicy) map[types.UID]bool {
	trial := map[types.UID]bool{}
	for i := range policies {
		trial[policies[i].UID] = policies[i].Spec.Mode == v1alpha1.ModeDryRun
	}
	sick := make(map[types.UID]bool, len(open))
	for _, r := range open {
		if spec := &r.Spec; !trial[spec.Policy.UID] {
			sick[spec.NodeUID] = true
		}
	}
	return sick
}

// healthy reports whether the node counts for minHealthy.
func (n *NodeState) healthy(permits map[string]v1alpha1.Permit) bool {
	return n.Available && !n.Sick && !permits[n.Name].Disruptive
}

// Groups returns the status of a budget that selects these nodes: their number
// and limits by group by the spec as it is, and since when there is a storm. A permit goes with its
// node to another group, if that may give one more; else it stays where it is, and the other
// group gives none before it has come. A group that has neither a node nor a permit is dropped. Of more than
// MaxGroups groups only the first by name have a status, and so permits.
func Groups(b *v1alpha1.RemediationBudget, nodes []NodeState, now time.Time) (v1alpha1.RemediationBudgetStatus, error) {
	for stay := map[string]bool{}; ; {
		status, over, err := groupsWith(b, nodes, stay, now)
		if over == "" {
			return status, err
		}
		stay[over] = true
	}
}

// groupsWith is Groups if the permits of some nodes stay where they are. It also returns a node whose permit has gone to
// a group that may give fewer than it has then, since others are to come there, too: the API server refuses that; "":
// there is none.
func groupsWith(b *v1alpha1.RemediationBudget, nodes []NodeState, stay map[string]bool, now time.Time) (status v1alpha1.RemediationBudgetStatus, over string, err error) {
	groups := map[string]v1alpha1.BudgetGroup{}
	for name, old := range b.Status.Groups {
		if len(old.Permits) > 0 {
			groups[name] = v1alpha1.BudgetGroup{Permits: old.Permits, Storm: old.Storm}
		}
	}
	byGroup := map[string][]NodeState{}
	for _, node := range nodes {
		byGroup[node.Group] = append(byGroup[node.Group], node)
	}
	for _, name := range slices.Sorted(maps.Keys(byGroup)) {
		if len(groups) < MaxGroups {
			old := b.Status.Groups[name]
			groups[name] = v1alpha1.BudgetGroup{Permits: old.Permits, Storm: old.Storm}
		}
	}
	countIn := func(name string) error {
		g := groups[name]
		err := count(&b.Spec, &g, byGroup[name], now)
		groups[name] = g
		return err
	}
	for name := range groups {
		if err := countIn(name); err != nil {
			return status, "", err
		}
	}
	total := int32(len(nodes))
	counted := &v1alpha1.RemediationBudget{Spec: b.Spec, Status: v1alpha1.RemediationBudgetStatus{
		ObservedGeneration: b.Generation, NodesVersion: b.Status.NodesVersion, Nodes: &total, Groups: groups,
	}}
	misfiled := misfiled(counted, nodes)
	left, err := refile(counted, misfiled, stay, countIn)
	if err != nil {
		return status, "", err
	}
	reserve(counted, left)
	for _, m := range slices.Backward(misfiled) {
		permit, came := groups[m.Group].Permits[m.Name]
		if came && tooMany(counted, m.Group, permit) {
			return status, m.Name, nil
		}
	}
	return counted.Status, "", nil
}

// reserve takes from the limits of groups what those permits need that are to come there: one
// that is returned there must not be given to another node before that is so.
func reserve(b *v1alpha1.RemediationBudget, misfiled []moved) {
	for _, m := range misfiled {
		g := b.Status.Groups[m.Group]
		less(g.Limit)
		if m.Available && b.Status.Groups[m.from].Permits[m.Name].Disruptive {
			less(g.DisruptionLimit) // one that is not available counts there already
		}
	}
}

func less(limit *int32) {
	if limit != nil && *limit > 0 {
		*limit--
	}
}

// refile lets permits go with their nodes to other groups, as long as those hold no more than
// they may, and nobody says that they stay. It returns those that stay where they are.
func refile(b *v1alpha1.RemediationBudget, misfiled []moved, stay map[string]bool, count func(group string) error) (left []moved, err error) {
	groups := b.Status.Groups
	for _, m := range misfiled {
		from, to := groups[m.from], groups[m.Group]
		if tooManyGroups := to.Limit == nil; tooManyGroups || stay[m.Name] {
			left = append(left, m)
			continue
		}
		permit := from.Permits[m.Name]
		replace(b, m.from, func(permits map[string]v1alpha1.Permit) { delete(permits, m.Name) })
		replace(b, m.Group, func(permits map[string]v1alpha1.Permit) { permits[m.Name] = permit })
		if err := errors.Join(count(m.from), count(m.Group)); err != nil {
			return nil, err
		}
		switch {
		case tooMany(b, m.Group, permit):
			groups[m.from], groups[m.Group] = from, to
			left = append(left, m)
		case groups[m.from].Nodes == 0 && len(groups[m.from].Permits) == 0:
			delete(groups, m.from)
		}
	}
	return left, nil
}

// tooMany reports whether a group holds more than it may, so that the API server refuses that this permit comes to it.
func tooMany(b *v1alpha1.RemediationBudget, group string, permit v1alpha1.Permit) bool {
	return Free(b, group) < 0 || permit.Disruptive && FreeDisruptions(b, group) < 0
}

// moved is a node whose permit is filed under its former group.
type moved struct {
	NodeState
	from string
}

// misfiled returns the nodes whose permits are, by their names.
func misfiled(b *v1alpha1.RemediationBudget, nodes []NodeState) (all []moved) {
	filed := map[string]string{}
	for name, group := range b.Status.Groups {
		for node := range group.Permits {
			filed[node] = name
		}
	}
	for _, node := range nodes {
		if group, held := filed[node.Name]; held && group != node.Group {
			all = append(all, moved{node, group})
		}
	}
	slices.SortFunc(all, func(a, b moved) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// replace replaces the permits of a group by changed ones.
func replace(b *v1alpha1.RemediationBudget, group string, change func(permits map[string]v1alpha1.Permit)) {
	g := b.Status.Groups[group]
	permits := maps.Clone(g.Permits)
	if permits == nil {
		permits = map[string]v1alpha1.Permit{}
	}
	change(permits)
	g.Permits = permits
	b.Status.Groups[group] = g
}

// count fills in all of the group but its permits.
func count(spec *v1alpha1.RemediationBudgetSpec, g *v1alpha1.BudgetGroup, nodes []NodeState, now time.Time) error {
	g.Nodes, g.Unavailable, g.Healthy = int32(len(nodes)), 0, 0
	for _, node := range nodes {
		disrupted := g.Permits[node.Name].Disruptive
		if !node.Available && !disrupted {
			g.Unavailable++
		}
		if node.healthy(g.Permits) {
			g.Healthy++
		}
	}
	limit, err := Limit(spec.Concurrent(), len(nodes))
	if err != nil {
		return err
	}
	g.Limit = &limit
	return countDisruptions(spec, g, now)
}

func countDisruptions(spec *v1alpha1.RemediationBudgetSpec, g *v1alpha1.BudgetGroup, now time.Time) error {
	mayBeOut := g.Nodes
	if spec.MaxUnavailable != nil {
		limit, err := MaxUnavailable(*spec.MaxUnavailable, int(g.Nodes))
		if err != nil {
			return err
		}
		mayBeOut = min(mayBeOut, limit)
	}
	if spec.MinHealthy == nil || g.Nodes == 0 {
		g.Storm = nil
	} else {
		healthy, err := MinHealthy(*spec.MinHealthy, int(g.Nodes))
		if err != nil {
			return err
		}
		g.Storm = storm(g.Storm, g.Healthy >= healthy, StormCooldown(spec), now)
		mayBeOut = min(mayBeOut, g.Nodes-healthy)
	}
	if spec.MaxUnavailable == nil && spec.MinHealthy == nil {
		return nil
	}
	limit := max(0, mayBeOut-g.Unavailable)
	if g.Storm != nil {
		limit = 0
	}
	g.DisruptionLimit = &limit
	return nil
}

// storm begins when the group is not calm, and is over after it was calm for the
// cooldown.
func storm(old *v1alpha1.Storm, calm bool, cooldown time.Duration, now time.Time) *v1alpha1.Storm {
	at := metav1.NewTime(now.Truncate(time.Second)) // as the API server keeps it
	switch {
	case old == nil && calm:
		return nil
	case old == nil:
		return &v1alpha1.Storm{Since: at}
	case !calm:
		return &v1alpha1.Storm{Since: old.Since}
	case old.CalmSince == nil:
		return storm(&v1alpha1.Storm{Since: old.Since, CalmSince: &at}, calm, cooldown, now)
	case !now.Before(old.CalmSince.Add(cooldown)):
		return nil
	default:
		return old
	}
}

// StormCooldown returns spec.stormCooldown, or its default where the API server
// has not filled it in.
func StormCooldown(spec *v1alpha1.RemediationBudgetSpec) time.Duration {
	if spec.StormCooldown == nil {
		return 15 * time.Minute
	}
	return spec.StormCooldown.Duration
}

// NextLook returns after how long the status changes although nothing happens,
// since a storm is over then; 0: never.
func NextLook(b *v1alpha1.RemediationBudget, now time.Time) time.Duration {
	var next time.Duration
	for _, g := range b.Status.Groups {
		if g.Storm == nil || g.Storm.CalmSince == nil {
			continue
		}
		left := max(time.Second, g.Storm.CalmSince.Add(StormCooldown(&b.Spec)).Sub(now))
		if next == 0 || left < next {
			next = left
		}
	}
	return next
}
