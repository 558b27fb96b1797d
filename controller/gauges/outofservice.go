package gauges

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// collectOutOfService counts the nodes with our mark of the taint out-of-service.
func (c *Collector) collectOutOfService(out chan<- prometheus.Metric) {
	count := map[bool]int{true: 0, false: 0}
	nodes, _ := c.Nodes()
	for _, node := range nodes {
		if _, marked := node.Annotations[v1alpha1.OutOfServiceAnnotation]; marked {
			ready := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
			count[ready != nil && ready.Status == corev1.ConditionTrue]++
		}
	}
	for ready, n := range count {
		tell(out, c.outOfService, n, strconv.FormatBool(ready))
	}
}
