package budget

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// Reconciler keeps a budget's absolute limit up to date with the number of
// nodes that it selects.
type Reconciler struct {
	Client client.Client
}

// Register adds the reconciler to the manager.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	// Only a node that comes, goes or changes its labels changes a count.
	counted := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
	}}
	return ctrl.NewControllerManagedBy(mgr).
		Named("budget").
		For(&v1alpha1.RemediationBudget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.all), builder.WithPredicates(counted)).
		Complete(r)
}

// all returns a request for every budget.
func (r *Reconciler) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var budgets v1alpha1.RemediationBudgetList
	if err := r.Client.List(ctx, &budgets); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing budgets")
		return nil
	}
	requests := make([]reconcile.Request, len(budgets.Items))
	for i := range budgets.Items {
		requests[i].Name = budgets.Items[i].Name
	}
	return requests
}

// Reconcile writes the number of selected nodes and the limit that follows.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var b v1alpha1.RemediationBudget
	if err := r.Client.Get(ctx, request.NamespacedName, &b); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	nodes, err := fleet.Selected(ctx, r.Client, b.Spec.NodeSelector)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("budget %s: %w", b.Name, err)
	}
	count := int32(len(nodes))
	base := b.DeepCopy()
	b.Status.Nodes = &count
	groups := map[string]int{}
	for i := range nodes {
		groups[GroupOf(&b, &nodes[i])]++
	}
	for name, count := range groups {
		limit, err := Limit(b.Spec.Concurrent(), count)
		if err != nil {
			return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("budget %s: %w", b.Name, err))
		}
		group := b.Status.Groups[name]
		group.Nodes, group.Limit = int32(count), &limit
		if b.Status.Groups == nil {
			b.Status.Groups = map[string]v1alpha1.BudgetGroup{}
		}
		b.Status.Groups[name] = group
	}
	if equality.Semantic.DeepEqual(base.Status, b.Status) {
		return reconcile.Result{}, nil
	}
	if err := r.Client.Status().Patch(ctx, &b, client.MergeFrom(base), FieldOwner); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(fmt.Errorf("writing the limit of budget %s: %w", b.Name, err))
	}
	return reconcile.Result{}, nil
}
