package gauges

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func (c *Collector) collectMaintenances(ctx context.Context, out chan<- prometheus.Metric) {
	var list v1alpha1.NodeMaintenanceList
	if c.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	type key struct{ by, drained string }
	machines := map[v1alpha1.PowerPhase]int{v1alpha1.PowerStillOn: 0, v1alpha1.PowerLeftOff: 0} // those of the alert
	count, overdue := map[key]int{}, map[string]int{"policy": 0, "person": 0}
	for i := range list.Items {
		m, k := &list.Items[i], key{by: "person"}
		if m.Spec.Remediation != nil {
			k.by = "policy"
		}
		if drained := m.Condition(v1alpha1.MaintenanceDrained); drained != nil {
			k.drained = drained.Reason
			gaveUp := drained.Reason == v1alpha1.ReasonDrainTimedOut || drained.Reason == v1alpha1.ReasonDrainAborted
			if gaveUp && drained.Status != metav1.ConditionTrue && m.DeletionTimestamp == nil {
				overdue[k.by]++
			}
		}
		count[k]++
		if power := m.Status.Power; power != nil {
			machines[power.Phase]++
		}
	}
	for phase, n := range machines {
		tell(out, c.machines, n, string(phase))
	}
	for k, n := range count {
		tell(out, c.maintenances, n, k.by, k.drained)
	}
	for by, n := range overdue {
		tell(out, c.overdue, n, by)
	}
}
