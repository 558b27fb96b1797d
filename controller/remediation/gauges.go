package remediation

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// collectTime bounds how long a scrape waits for the cache.
const collectTime = time.Second

// GaugesOptions are what gauges are told from.
type GaugesOptions struct {
	// Reader is a cache.
	Reader client.Reader
	// Nodes are those of the cache.
	Nodes fleet.Nodes
	// Clock tells how long something lasts.
	Clock clock.PassiveClock
	// Elected is closed when this replica leads.
	Elected <-chan struct{}
	// Counters are shown as zero for every policy.
	Counters *Metrics
}

// Gauges tells, at every scrape, how things are in the cache. Only the replica that
// leads does, or sums over replicas would be wrong.
type Gauges struct {
	GaugesOptions
	ctx func() (context.Context, context.CancelFunc)

	open, blocked, blockedFor, repeated, actedOn *prometheus.Desc // of remediations
	permits, limit, budgetNodes, healthy, storms *prometheus.Desc // of budgets
	maintenances, overdue                        *prometheus.Desc // of maintenances
	conditions                                   *prometheus.Desc // of nodes
}

// NewGauges returns gauges that tell until the context ends.
func NewGauges(ctx context.Context, o GaugesOptions) *Gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Gauges{
		GaugesOptions: o,
		ctx:           func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, collectTime) },
		open: desc("nodemend_remediations_open",
			"Remediations that have not ended, by policy and state: the reason of their Progressing condition.", "policy", "state"),
		blocked: desc("nodemend_remediations_blocked",
			"Open remediations that are held back, by policy and reason.", "policy", "reason"),
		blockedFor: desc("nodemend_remediations_blocked_longest_seconds",
			"For how long the one of them that waits longest is held back, failed attempts to start the action included; by policy and reason.", "policy", "reason"),
		repeated: desc("nodemend_node_remediations_max",
			"Of the node with the most of them, how many remediations acted on it in the last 24 h, by policy.", "policy"),
		actedOn: desc("nodemend_nodes_acted_on",
			"Nodes with an action that finished in the last 6 h, by policy, remedy and outcome of the last one.", "policy", "remedy", "outcome"),
		permits: desc("nodemend_budget_permits",
			"Permits in use, by budget.", "budget"),
		limit: desc("nodemend_budget_permits_limit",
			"Permits that there are, by budget, over all its groups.", "budget"),
		budgetNodes: desc("nodemend_budget_nodes",
			"Nodes that a budget selects.", "budget"),
		healthy: desc("nodemend_budget_nodes_healthy",
			"Nodes that a budget selects and that are Ready, in service and without an open remediation.", "budget"),
		storms: desc("nodemend_budget_storms",
			"Groups of a budget in which fewer nodes are healthy than minHealthy.", "budget"),
		maintenances: desc("nodemend_maintenances",
			"Nodes out of service, by who wants it (policy or person) and the reason of their Drained condition.", "by", "drained"),
		overdue: desc("nodemend_drains_overdue",
			"Drains that have taken longer than their timeout and did not end, by who wants them (policy or person).", "by"),
		conditions: desc("nodemend_node_conditions",
			"Nodes by a condition that policies match and by its status, or else Stale, Absent, Missing or NotReady, where nobody reports it.", "condition", "status"),
	}
}

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		g.open, g.blocked, g.blockedFor, g.repeated, g.actedOn, g.permits, g.limit, g.budgetNodes, g.healthy, g.storms,
		g.maintenances, g.overdue, g.conditions,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector. What cannot be read is left out.
func (g *Gauges) Collect(out chan<- prometheus.Metric) {
	select {
	case <-g.Elected:
	default:
		return
	}
	ctx, cancel := g.ctx()
	defer cancel()
	g.collectBudgets(ctx, out)
	g.collectMaintenances(ctx, out)
	g.collectRemediations(ctx, out)
	g.collectPolicies(ctx, out)
}

// tell sends one value.
func tell[N int | int32 | float64](out chan<- prometheus.Metric, d *prometheus.Desc, value N, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}

func (g *Gauges) collectBudgets(ctx context.Context, out chan<- prometheus.Metric) {
	var list v1alpha1.RemediationBudgetList
	if g.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	for i := range list.Items {
		b := &list.Items[i]
		var permits, storms int
		var limit, nodes, healthy int32
		for _, group := range b.Status.Groups {
			permits += len(group.Permits)
			nodes, healthy = nodes+group.Nodes, healthy+group.Healthy
			if group.Limit != nil {
				limit += *group.Limit
			}
			if group.Storm != nil && group.Storm.CalmSince == nil {
				storms++
			}
		}
		tell(out, g.permits, permits, b.Name)
		tell(out, g.limit, limit, b.Name)
		tell(out, g.budgetNodes, nodes, b.Name)
		tell(out, g.healthy, healthy, b.Name)
		tell(out, g.storms, storms, b.Name)
	}
}

func (g *Gauges) collectRemediations(ctx context.Context, out chan<- prometheus.Metric) {
	var list v1alpha1.RemediationList
	if g.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	type key struct{ policy, reason string }
	now, open, blocked, blockedFor := g.Clock.Now(), map[key]int{}, map[key]int{}, map[key]float64{}
	for i := range list.Items {
		r := &list.Items[i]
		if r.Ended() {
			continue
		}
		open[key{r.Spec.Policy.Name, r.State()}]++
		if by := r.BlockedBy(); by != "" {
			k := key{r.Spec.Policy.Name, by}
			blocked[k]++
			blockedFor[k] = max(blockedFor[k], now.Sub(heldSince(r)).Seconds())
		}
	}
	for k, n := range open {
		tell(out, g.open, n, k.policy, k.reason)
	}
	for k, n := range blocked {
		tell(out, g.blocked, n, k.policy, k.reason)
		tell(out, g.blockedFor, blockedFor[k], k.policy, k.reason)
	}
	for policy, n := range mostRemediations(list.Items, now) {
		tell(out, g.repeated, n, policy)
	}
	for k, n := range actedOn(list.Items, now) {
		tell(out, g.actedOn, n, k.policy, k.remedy, k.outcome)
	}
}

func (g *Gauges) collectMaintenances(ctx context.Context, out chan<- prometheus.Metric) {
	var list v1alpha1.NodeMaintenanceList
	if g.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	type key struct{ by, drained string }
	count, overdue := map[key]int{}, map[string]int{"policy": 0, "person": 0}
	for i := range list.Items {
		m, k := &list.Items[i], key{by: "person"}
		if m.Spec.Remediation != nil {
			k.by = "policy"
		}
		if c := m.Condition(v1alpha1.MaintenanceDrained); c != nil {
			k.drained = c.Reason
			gaveUp := c.Reason == v1alpha1.ReasonDrainTimedOut || c.Reason == v1alpha1.ReasonDrainAborted
			if gaveUp && c.Status != metav1.ConditionTrue && m.DeletionTimestamp == nil {
				overdue[k.by]++
			}
		}
		count[k]++
	}
	for k, n := range count {
		tell(out, g.maintenances, n, k.by, k.drained)
	}
	for by, n := range overdue {
		tell(out, g.overdue, n, by)
	}
}

// heldSince returns since when a blocked remediation is held back. One whose action is
// tried again and again without being executed is so since the first try.
func heldSince(r *v1alpha1.Remediation) time.Time {
	var since time.Time
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RemediationBlocked); c != nil {
		since = c.LastTransitionTime.Time
	}
	for i := len(r.Status.History) - 1; i >= 0; i-- {
		record := &r.Status.History[i]
		if record.Executed || record.Former {
			break
		}
		if record.FinishedAt.Time.Before(since) {
			since = record.FinishedAt.Time
		}
	}
	return since
}
