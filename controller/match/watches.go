package match

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/worker"
)

// workers is how many nodes are looked at at the same time, so that one slow
// write does not delay the others.
const workers = 8

// Loop returns the reconciler with what wakes it.
func (r *Reconciler) Loop() worker.Loop {
	// The node may have another incident by the time a remediation is over.
	over := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !e.ObjectOld.(*v1alpha1.Remediation).Ended() && e.ObjectNew.(*v1alpha1.Remediation).Ended()
		},
	}
	return worker.Loop{
		Name: "match", Key: "node", Workers: workers, Reconciler: r,
		Watches: []worker.Watch{
			{Kind: &corev1.Node{}, Handler: r.onNode()},
			{
				Kind: &v1alpha1.RemedyPolicy{}, Handler: handler.EnqueueRequestsFromMapFunc(r.concerned),
				Predicates: []predicate.Predicate{worker.OnSpec()},
			},
			{
				Kind: &v1alpha1.Remediation{}, Handler: handler.EnqueueRequestsFromMapFunc(ofRemediation),
				Predicates: []predicate.Predicate{over},
			},
		},
	}
}

func ofRemediation(_ context.Context, obj client.Object) []reconcile.Request {
	return worker.Requests(obj.(*v1alpha1.Remediation).Spec.NodeName)
}

// onNode queues a node that has come or changed if a policy concerns it. All others,
// which are heartbeats and conditions that no policy names, go no further.
//
// A policy that the cache does not show yet is not missed: when it comes, the
// nodes are looked at that are in the cache by then.
func (r *Reconciler) onNode() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(ctx context.Context, node *corev1.Node, q queue) {
		if r.anyConcerns(ctx, node) {
			q.Add(worker.Request(node.Name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			node := e.Object.(*corev1.Node)
			r.Seen.Observe(node, r.Clock.Now())
			add(ctx, node, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			old, updated := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if old.UID != updated.UID {
				r.Seen.Forget(old)
			}
			r.Seen.Observe(updated, r.Clock.Now())
			if fleet.Changed(old, updated) {
				add(ctx, updated, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) { r.Seen.Forget(e.Object.(*corev1.Node)) },
	}
}

// anyConcerns reports whether any policy concerns the node; it waits for the
// policies to be read first.
func (r *Reconciler) anyConcerns(ctx context.Context, node *corev1.Node) bool {
	var policies v1alpha1.RemedyPolicyList
	if err := r.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return true // Reconcile meets the error again, and comes back
	}
	now := r.Clock.Now()
	for i := range policies.Items {
		if Concerns(&policies.Items[i], node, now, r.Seen.Seen) {
			return true
		}
	}
	return false
}

// concerned returns the nodes that a policy concerns.
func (r *Reconciler) concerned(ctx context.Context, obj client.Object) []reconcile.Request {
	policy := obj.(*v1alpha1.RemedyPolicy)
	all, _ := r.Nodes()
	nodes, err := fleet.Selected(all, policy.Spec.NodeSelector)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "policy selects no node", "policy", policy.Name)
		return nil
	}
	var names []string
	now := r.Clock.Now()
	for _, node := range nodes {
		if Concerns(policy, node, now, r.Seen.Seen) {
			names = append(names, node.Name)
		}
	}
	return worker.Requests(names...)
}
