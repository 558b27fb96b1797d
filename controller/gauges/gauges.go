// Package gauges tells Prometheus how things are: budgets, maintenances, open remediations,
// what was done lately, and what nodes report. What happens is counted where it does.
package gauges

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// collectTime bounds how long a scrape waits for the cache.
const collectTime = time.Second

// Options are what gauges are told from.
type Options struct {
	// Reader is a cache.
	Reader client.Reader
	// Nodes are those of the cache.
	Nodes fleet.Nodes
	// Checked are the types of the conditions that the detector's checks report.
	Checked []string
	// Clock tells how long something lasts.
	Clock clock.PassiveClock
	// Elected is closed when this replica leads.
	Elected <-chan struct{}
	// Expect is told of every policy at each scrape, so that what is counted of it is
	// shown before it happens.
	Expect func(*v1alpha1.RemedyPolicy)
}

// Collector tells, at every scrape, how things are in the cache. Only the replica that
// leads does, or sums over replicas would be wrong.
type Collector struct {
	Options
	ctx func() (context.Context, context.CancelFunc)

	open, blocked, blockedFor, repeated, actedOn *prometheus.Desc // of remediations
	permits, limit, budgetNodes, healthy, storms *prometheus.Desc // of budgets
	maintenances, overdue, machines              *prometheus.Desc // of maintenances
	conditions, outOfService, fenceable          *prometheus.Desc // of nodes
}

// New returns gauges that tell until the context ends.
func New(ctx context.Context, o Options) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Collector{
		Options: o,
		ctx:     func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, collectTime) },
		open: desc("nodemend_remediations_open",
			"Remediations that have not ended, by policy and state: the reason of their Progressing condition.", "policy", "state"),
		blocked: desc("nodemend_remediations_blocked",
			"Open remediations that are held back, by policy and reason.", "policy", "reason"),
		blockedFor: desc("nodemend_remediations_blocked_longest_seconds",
			"For how long the one of them that waits longest is held back, failed attempts to start the action included; by policy and reason. "+
				"Without those of policies in mode DryRun that have done nothing.", "policy", "reason"),
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
			"Nodes that a budget selects and that are Ready, in service and without an open remediation of a policy in mode Enforce.", "budget"),
		storms: desc("nodemend_budget_storms",
			"Groups of a budget in which fewer nodes are healthy than minHealthy.", "budget"),
		maintenances: desc("nodemend_maintenances",
			"Nodes out of service, by who wants it (policy or person) and the reason of their Drained condition.", "by", "drained"),
		overdue: desc("nodemend_drains_overdue",
			"Drains that have taken longer than their timeout and did not end, by who wants them (policy or person).", "by"),
		conditions: desc("nodemend_node_conditions",
			"Nodes by a condition that policies match and by its status, or else Stale, Absent, Missing or NotReady, where nobody reports it.", "condition", "status"),
		machines: desc("nodemend_maintenance_machines", "Machines that are switched off for a maintenance, or are to be, by how far that is (status.power.phase).", "phase"),
		outOfService: desc("nodemend_nodes_out_of_service",
			"Nodes whose taint out-of-service is Nodemend's, by whether they are Ready: then it is about to be taken away, or something keeps it.", "ready"),
		fenceable: desc("nodemend_node_fenceable",
			"1: what switches the node's power from outside was tried lately, and would do. 0: not so, by the reason of the condition Fenceable. Nodes that no remote runner has tried have none.", "node_name", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.open, c.blocked, c.blockedFor, c.repeated, c.actedOn, c.permits, c.limit, c.budgetNodes, c.healthy, c.storms,
		c.maintenances, c.overdue, c.machines, c.conditions, c.outOfService, c.fenceable,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector. What cannot be read is left out.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	select {
	case <-c.Elected:
	default:
		return
	}
	ctx, cancel := c.ctx()
	defer cancel()
	c.collectBudgets(ctx, out)
	c.collectMaintenances(ctx, out)
	c.collectRemediations(ctx, out)
	c.collectConditions(ctx, out)
	c.collectOutOfService(out)
	c.collectFenceable(out)
}

// tell sends one value.
func tell[N int | int32 | float64](out chan<- prometheus.Metric, d *prometheus.Desc, value N, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
}
