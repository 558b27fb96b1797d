package remediation

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// collectTime bounds how long a scrape waits for the cache.
const collectTime = time.Second

// Gauges tells, at every scrape, how things are in the cache. Only the replica that
// leads does, or sums over replicas would be wrong.
type Gauges struct {
	reader  client.Reader
	elected <-chan struct{}
	ctx     func() (context.Context, context.CancelFunc)

	open, blocked, permits, maintenances *prometheus.Desc
}

// NewGauges returns the gauges of what the reader, a cache, has; until the context
// ends, and from when elected is closed.
func NewGauges(ctx context.Context, reader client.Reader, elected <-chan struct{}) *Gauges {
	return &Gauges{
		reader: reader, elected: elected,
		ctx: func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, collectTime) },
		open: prometheus.NewDesc("nodemend_remediations_open",
			"Remediations that have not ended, by policy and state: the reason of their Progressing condition.", []string{"policy", "state"}, nil),
		blocked: prometheus.NewDesc("nodemend_remediations_blocked",
			"Open remediations that are held back, by policy and reason.", []string{"policy", "reason"}, nil),
		permits: prometheus.NewDesc("nodemend_budget_permits",
			"Permits in use, by budget.", []string{"budget"}, nil),
		maintenances: prometheus.NewDesc("nodemend_maintenances",
			"Nodes out of service, by who wants it (policy or person) and the reason of their Drained condition.", []string{"by", "drained"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(out chan<- *prometheus.Desc) {
	out <- g.open
	out <- g.blocked
	out <- g.permits
	out <- g.maintenances
}

// Collect implements prometheus.Collector. What cannot be read is left out.
func (g *Gauges) Collect(out chan<- prometheus.Metric) {
	select {
	case <-g.elected:
	default:
		return
	}
	ctx, cancel := g.ctx()
	defer cancel()
	var budgets v1alpha1.RemediationBudgetList
	if g.reader.List(ctx, &budgets, client.UnsafeDisableDeepCopy) == nil {
		for i := range budgets.Items {
			permits := 0
			for _, group := range budgets.Items[i].Status.Groups {
				permits += len(group.Permits)
			}
			out <- prometheus.MustNewConstMetric(g.permits, prometheus.GaugeValue, float64(permits), budgets.Items[i].Name)
		}
	}
	g.collectMaintenances(ctx, out)
	var remediations v1alpha1.RemediationList
	if g.reader.List(ctx, &remediations, client.UnsafeDisableDeepCopy) == nil {
		type key struct{ policy, reason string }
		open, blocked := map[key]int{}, map[key]int{}
		for i := range remediations.Items {
			r := &remediations.Items[i]
			if r.Ended() {
				continue
			}
			open[key{r.Spec.Policy.Name, r.State()}]++
			if by := r.BlockedBy(); by != "" {
				blocked[key{r.Spec.Policy.Name, by}]++
			}
		}
		for k, n := range open {
			out <- prometheus.MustNewConstMetric(g.open, prometheus.GaugeValue, float64(n), k.policy, k.reason)
		}
		for k, n := range blocked {
			out <- prometheus.MustNewConstMetric(g.blocked, prometheus.GaugeValue, float64(n), k.policy, k.reason)
		}
	}
}

func (g *Gauges) collectMaintenances(ctx context.Context, out chan<- prometheus.Metric) {
	var list v1alpha1.NodeMaintenanceList
	if g.reader.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	type key struct{ by, drained string }
	count := map[key]int{}
	for i := range list.Items {
		m, k := &list.Items[i], key{by: "person"}
		if m.Spec.Remediation != nil {
			k.by = "policy"
		}
		if c := m.Condition(v1alpha1.MaintenanceDrained); c != nil {
			k.drained = c.Reason
		}
		count[k]++
	}
	for k, n := range count {
		out <- prometheus.MustNewConstMetric(g.maintenances, prometheus.GaugeValue, float64(n), k.by, k.drained)
	}
}
