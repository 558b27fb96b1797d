package outofservice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/worker"
)

// workers is how many nodes are looked at at the same time.
const workers = 8

// Loop returns the reconciler with what wakes it: actions and maintenances that wait for it, and nodes
// with our mark that have changed.
func (r *Reconciler) Loop() worker.Loop {
	r.backoff = worker.NewBackoff()
	waiting := func(object client.Object) bool { return waits(object.(*v1alpha1.NodeAction)) }
	isMarked := func(object client.Object) bool { return marked(object.(*corev1.Node)) }
	return worker.Loop{
		Name: "outofservice", Key: "node", Workers: workers, Reconciler: r,
		Watches: []worker.Watch{
			{
				Kind: &v1alpha1.NodeAction{}, Handler: handler.EnqueueRequestsFromMapFunc(ofAction),
				Predicates: []predicate.Predicate{predicate.NewPredicateFuncs(waiting)},
			},
			{
				Kind: &v1alpha1.NodeMaintenance{}, Handler: handler.EnqueueRequestsFromMapFunc(ofMaintenance),
				Predicates: []predicate.Predicate{predicate.NewPredicateFuncs(func(object client.Object) bool {
					m := object.(*v1alpha1.NodeMaintenance)
					return maintenanceWaits(m) || wordWaits(m) || m.Spec.OutOfService && m.DeletionTimestamp != nil // then the taint may go
				})},
			},
			{
				Kind: &corev1.Node{}, Handler: &handler.EnqueueRequestForObject{},
				Predicates: []predicate.Predicate{predicate.Funcs{
					CreateFunc: func(e event.CreateEvent) bool { return isMarked(e.Object) },
					UpdateFunc: func(e event.UpdateEvent) bool { return (isMarked(e.ObjectOld) || isMarked(e.ObjectNew)) && changed(e) },
					DeleteFunc: func(e event.DeleteEvent) bool { return isMarked(e.Object) },
				}},
			},
		},
	}
}

func ofAction(_ context.Context, object client.Object) []reconcile.Request {
	return worker.Requests(object.(*v1alpha1.NodeAction).Spec.NodeName)
}

func ofMaintenance(_ context.Context, object client.Object) []reconcile.Request {
	return worker.Requests(object.(*v1alpha1.NodeMaintenance).Spec.NodeName)
}

// changed reports whether an update of a node is more than a heartbeat.
func changed(e event.UpdateEvent) bool {
	old, updated := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
	return fleet.Changed(old, updated) || old.Status.NodeInfo.BootID != updated.Status.NodeInfo.BootID ||
		old.Annotations[v1alpha1.OutOfServiceAnnotation] != updated.Annotations[v1alpha1.OutOfServiceAnnotation]
}
