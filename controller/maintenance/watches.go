package maintenance

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/worker"
)

const (
	// drains is how many nodes are drained at the same time. A look takes as long as the eviction
	// of what may go, so that hundreds of nodes drain at once.
	drains = 16
	// workers is how many nodes are looked at at the same time: some are left for nodes that are to
	// be cordoned or given back, though evictions may hang.
	workers = drains + 4
)

// Loop returns the reconciler with what wakes it.
func (r *Reconciler) Loop() worker.Loop {
	r.backoff = worker.NewBackoff()
	return worker.Loop{
		Name: "maintenance", Key: "node", Workers: workers, Reconciler: r, Doorbell: &r.doorbell,
		Watches: []worker.Watch{
			{
				Kind: &v1alpha1.NodeMaintenance{}, Handler: handler.EnqueueRequestsFromMapFunc(ofMaintenance),
				// A deletion changes the spec, too; what is written here does not.
				Predicates: []predicate.Predicate{predicate.Or(worker.OnSpec(), switchedBack())},
			},
			{Kind: &corev1.Node{}, Handler: r.onNode()},
			{Kind: &v1alpha1.NodeAction{}, Handler: handler.EnqueueRequestsFromMapFunc(ofAction), Predicates: []predicate.Predicate{letGo()}},
			{Kind: &v1alpha1.Remediation{}, Handler: handler.EnqueueRequestsFromMapFunc(ofRemediation), Predicates: []predicate.Predicate{givesUp()}},
		},
	}
}

func ofMaintenance(_ context.Context, obj client.Object) []reconcile.Request {
	return worker.Requests(obj.(*v1alpha1.NodeMaintenance).Spec.NodeName)
}

func ofAction(_ context.Context, obj client.Object) []reconcile.Request {
	return worker.Requests(obj.(*v1alpha1.NodeAction).Spec.NodeName)
}

func ofRemediation(_ context.Context, obj client.Object) []reconcile.Request {
	return worker.Requests(obj.(*v1alpha1.Remediation).Spec.NodeName)
}

// givesUp passes remediations for which there is nothing left to do, or something again, while they have
// their node out.
func givesUp() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			old, updated := e.ObjectOld.(*v1alpha1.Remediation), e.ObjectNew.(*v1alpha1.Remediation)
			return updated.Status.Maintenance != "" && goesOn(old) != goesOn(updated)
		},
		DeleteFunc: func(e event.DeleteEvent) bool { return e.Object.(*v1alpha1.Remediation).Status.Maintenance != "" },
	}
}

// letGo passes actions that another program was to stop, and that have ended: its node may be
// cordoned again. All others, which are many, go no further.
func letGo() predicate.Predicate {
	stopping := func(object client.Object) bool {
		action := object.(*v1alpha1.NodeAction)
		return action.Status.External != nil && action.Status.External.Stop != nil && action.Finished() == nil
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return stopping(e.ObjectOld) && !stopping(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return stopping(e.Object) },
	}
}

// onNode queues a node that has come, has gone, whose cordon or word to Karpenter has changed or that tells a
// technician more, if it is held or has our mark. All others, which are heartbeats, go no further.
func (r *Reconciler) onNode() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, node *corev1.Node, q queue) {
		if touched(node) || r.held(ctx, node.Name) {
			q.Add(worker.Request(node.Name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, e.Object.(*corev1.Node), q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object.(*corev1.Node), q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			old, updated := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			before, was := marked(old)
			after, is := marked(updated)
			if old.UID != updated.UID || old.Spec.Unschedulable != updated.Spec.Unschedulable || was != is || before != after || vetoed(old) != vetoed(updated) || mayVeto(old) != mayVeto(updated) || tellsMore(old, updated) {
				add(ctx, updated, q)
			}
		},
	}
}

// held reports whether there is a maintenance of the node.
func (r *Reconciler) held(ctx context.Context, node string) bool {
	var list v1alpha1.NodeMaintenanceList
	err := r.Client.List(ctx, &list, client.MatchingFields{index.MaintenancesByNode: node}, client.UnsafeDisableDeepCopy)
	return err != nil || len(list.Items) > 0 // Reconcile meets the error again, and comes back
}
