package budget

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
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
	// Sick: a remediation of the node is open.
	Sick bool
}

// Groups returns the status of a budget that selects these nodes: their number
// and limits by group by the spec as it is, and since when there is a storm. The permits stay as they
// are; a group that has neither a node nor a permit is dropped. Of more than
// MaxGroups groups only the first by name have a status, and so permits.
func Groups(b *v1alpha1.RemediationBudget, nodes []NodeState, now time.Time) (v1alpha1.RemediationBudgetStatus, error) {
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
	for name, g := range groups {
		if err := count(&b.Spec, &g, byGroup[name], now); err != nil {
			return v1alpha1.RemediationBudgetStatus{}, err
		}
		groups[name] = g
	}
	total := int32(len(nodes))
	return v1alpha1.RemediationBudgetStatus{
		ObservedGeneration: b.Generation, NodesVersion: b.Status.NodesVersion, Nodes: &total, Groups: groups,
	}, nil
}

// count fills in all of the group but its permits.
func count(spec *v1alpha1.RemediationBudgetSpec, g *v1alpha1.BudgetGroup, nodes []NodeState, now time.Time) error {
	g.Nodes = int32(len(nodes))
	for _, node := range nodes {
		disrupted := g.Permits[node.Name].Disruptive
		if !node.Available && !disrupted {
			g.Unavailable++
		}
		if node.Available && !node.Sick && !disrupted {
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
