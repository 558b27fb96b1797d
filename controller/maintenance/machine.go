package maintenance

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
)

// Reasons of events about what the remote runner has not switched back in time.
const (
	eventLightLeftOn  = "LightLeftOn"
	eventPowerLeftOff = "PowerLeftOff"
)

// NewLeftOff registers the counter of machines that are left to people.
func NewLeftOff(registry prometheus.Registerer) (prometheus.Counter, error) {
	c := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "nodemend_maintenance_machines_left_off_total",
		Help: "Machines that were switched off for a maintenance that has ended, and are not switched on again: people have to look.",
	})
	return c, registry.Register(c)
}

// awaitedFor reports whether a maintenance that is deleted still waits for the remote runner: to put
// the light out, or to switch the machine on, which it does not as long as another one holds the
// node. The wait is until that is given up; 0: it is not by itself.
func awaitedFor(m *v1alpha1.NodeMaintenance, others bool, now time.Time) (wait time.Duration, awaited bool) {
	if m.MayBeOff() {
		if others {
			return 0, true
		}
		wait = deadline.GivenBack(m).Sub(now)
	}
	if m.MayShine() {
		wait = max(wait, m.DeletionTimestamp.Add(deadline.LightTime).Sub(now))
	}
	return max(0, wait), wait > 0
}

// tellLeft tells people of what is left to them.
func (r *Reconciler) tellLeft(m *v1alpha1.NodeMaintenance) {
	if m.MayShine() {
		r.tell(m, corev1.EventTypeWarning, eventLightLeftOn, "its light may still shine: no remote runner has put it out: "+m.Status.Identify.Message)
	}
	if m.MayBeOff() || m.Status.Power != nil && m.Status.Power.Phase == v1alpha1.PowerLeftOff {
		if r.LeftOff != nil {
			r.LeftOff.Inc()
		}
		r.tell(m, corev1.EventTypeWarning, eventPowerLeftOff, "the machine may be off. When nobody works on it, switch it on: "+m.Status.Power.Message)
	}
}

// switchedBack passes updates of a maintenance by which it waits for less than before.
func switchedBack() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, updated := e.ObjectOld.(*v1alpha1.NodeMaintenance), e.ObjectNew.(*v1alpha1.NodeMaintenance)
			return old.MayBeOff() && !updated.MayBeOff() || old.MayShine() && !updated.MayShine()
		},
	}
}
