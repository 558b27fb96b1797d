package gauges

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// collectFenceable tells of each node that was tried whether it could be switched off from outside.
func (c *Collector) collectFenceable(out chan<- prometheus.Metric) {
	now := c.Clock.Now()
	nodes, _ := c.Nodes()
	for _, node := range nodes {
		fence := v1alpha1.FenceOf(node, now)
		switch {
		case fence.Checked.IsZero():
		case fence.Fenceable:
			tell(out, c.fenceable, 1, node.Name, v1alpha1.FenceAnswers)
		default:
			tell(out, c.fenceable, 0, node.Name, fence.Reason)
		}
	}
}
