package gauges

import (
	"context"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// collectOutOfService counts the nodes with our mark of the taint out-of-service. One whose maintenance
// lasts is not back, also if somebody has booted it.
func (c *Collector) collectOutOfService(ctx context.Context, out chan<- prometheus.Metric) {
	var maintenances v1alpha1.NodeMaintenanceList
	if c.Reader.List(ctx, &maintenances, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	count := map[bool]int{true: 0, false: 0}
	nodes, _ := c.Nodes()
	for _, node := range nodes {
		if _, marked := node.Annotations[v1alpha1.OutOfServiceAnnotation]; marked {
			ready := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
			lasts := slices.ContainsFunc(maintenances.Items, func(m v1alpha1.NodeMaintenance) bool { return m.KeepsOutOfService(node) })
			count[ready != nil && ready.Status == corev1.ConditionTrue && !lasts]++
		}
	}
	for ready, n := range count {
		tell(out, c.outOfService, n, strconv.FormatBool(ready))
	}
}
