package remediation

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
)

// onNode wakes the open remediations of a node that has come, changed or gone; of one that
// only says the same again those whose decision may be another one for that. Those that wait for
// a condition to be seen healthy are woken by changes as well.
func (r *Reconciler) onNode() handler.EventHandler {
	all := func(ctx context.Context, node client.Object, q queue) {
		wake(q, r.openWhere(ctx, index.ByNode, node.GetName(), func(remediation *v1alpha1.Remediation) bool {
			return !remediation.Ended() || len(remediation.AwaitedHealthy()) > 0
		}))
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { all(ctx, e.Object, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { all(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			old, updated := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if !saysTheSame(old, updated) {
				all(ctx, updated, q)
				return
			}
			wake(q, r.openWhere(ctx, index.OpenByNode, updated.Name, func(remediation *v1alpha1.Remediation) bool {
				return awaitsReport(remediation, updated)
			}))
		},
	}
}

// saysTheSame reports whether an update of a node is a heartbeat: of what decisions are made
// from nothing has changed but when it was reported.
func saysTheSame(old, updated *corev1.Node) bool {
	return !fleet.Changed(old, updated) && old.Status.NodeInfo.BootID == updated.Status.NodeInfo.BootID &&
		maps.Equal(old.Annotations, updated.Annotations)
}

// awaitsReport reports whether a newer report that says the same may lead to another decision.
// While the fault is reported it does not, if
//   - every step is done, or the node is out of service: only recovery or a person ends that; or
//   - a gate holds that no report opens. The change that opens it wakes the remediation, or it
//     opens at a known time; that decision reads the latest reports.
//
// If the cache has an old version of the remediation, the event of the new one leads to another
// decision.
func awaitsReport(r *v1alpha1.Remediation, node *corev1.Node) bool {
	faulty := r.Spec.Request != nil || slices.ContainsFunc(r.Spec.Match, func(m v1alpha1.ConditionMatch) bool {
		return m.Matches(v1alpha1.FindNodeCondition(node, m.Type))
	})
	switch {
	case !faulty:
		return true
	case r.State() == v1alpha1.ReasonExhausted, r.State() == v1alpha1.ReasonStopped, r.State() == v1alpha1.ReasonInMaintenance:
		return false
	}
	switch r.BlockedBy() {
	case "", gates.ReasonNoEvidence, ReasonReleaseRequired:
		return true
	default:
		return false
	}
}
