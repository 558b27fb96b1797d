package gauges

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func (c *Collector) collectBudgets(ctx context.Context, out chan<- prometheus.Metric) {
	var list v1alpha1.RemediationBudgetList
	if c.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
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
		tell(out, c.permits, permits, b.Name)
		tell(out, c.limit, limit, b.Name)
		tell(out, c.budgetNodes, nodes, b.Name)
		tell(out, c.healthy, healthy, b.Name)
		tell(out, c.storms, storms, b.Name)
	}
}
