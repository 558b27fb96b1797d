package remediation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
)

// workers is how many remediations are decided on at the same time. A decision
// takes milliseconds; several workers keep one slow write from delaying others.
const workers = 8

// Register adds the reconciler to the manager.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("remediation").
		For(&v1alpha1.Remediation{}).
		Watches(&v1alpha1.NodeAction{}, handler.EnqueueRequestsFromMapFunc(ofAction)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.openOnNode)).
		Watches(&v1alpha1.RemedyPolicy{}, handler.EnqueueRequestsFromMapFunc(r.openOfPolicy),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.RemediationBudget{}, handler.EnqueueRequestsFromMapFunc(r.concernedByBudget)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

func ofAction(_ context.Context, obj client.Object) []reconcile.Request {
	return requests(obj.(*v1alpha1.NodeAction).Spec.Remediation)
}

func (r *Reconciler) openOnNode(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.open(ctx, index.OpenByNode, obj.GetName())
}

func (r *Reconciler) openOfPolicy(ctx context.Context, obj client.Object) []reconcile.Request {
	return r.open(ctx, index.OpenByPolicy, string(obj.GetUID()))
}

// open returns the open remediations whose indexed field has the value.
func (r *Reconciler) open(ctx context.Context, field, value string) []reconcile.Request {
	var list v1alpha1.RemediationList
	if err := r.Client.List(ctx, &list, client.MatchingFields{field: value}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing open remediations")
		return nil
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return requests(names...)
}

// concernedByBudget returns the remediations that hold a permit, for a permit
// that is no longer needed is released by them, and those that wait for one.
func (r *Reconciler) concernedByBudget(ctx context.Context, obj client.Object) []reconcile.Request {
	b := obj.(*v1alpha1.RemediationBudget)
	var names []string
	var waiting []reconcile.Request
	free := false
	for name, group := range b.Status.Groups {
		for _, permit := range group.Permits {
			names = append(names, permit.Remediation)
		}
		free = free || len(group.Permits) < int(budget.Allowed(b, name))
	}
	if free {
		waiting = append(waiting, r.open(ctx, index.BlockedBy, gates.ReasonBudgetExhausted)...)
		waiting = append(waiting, r.open(ctx, index.BlockedBy, gates.ReasonNoBudget)...)
		waiting = append(waiting, r.open(ctx, index.BlockedBy, gates.ReasonBudgetInvalid)...)
	}
	return append(requests(names...), waiting...)
}

func requests(names ...string) []reconcile.Request {
	requests := make([]reconcile.Request, len(names))
	for i, name := range names {
		requests[i].Name = name
	}
	return requests
}
