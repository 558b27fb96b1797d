package remediation

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
)

// workers is how many remediations are decided on at the same time. A decision
// takes milliseconds; several workers keep one slow write from delaying others.
const workers = 8

// minBackoff and maxBackoff bound the time before a decision that failed is taken
// again; it doubles.
const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = time.Minute
)

// Register adds the reconciler to the manager.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	r.backoff = workqueue.NewTypedItemExponentialFailureRateLimiter[string](minBackoff, maxBackoff)
	return ctrl.NewControllerManagedBy(mgr).
		Named("remediation").
		For(&v1alpha1.Remediation{}).
		Watches(&v1alpha1.NodeAction{}, handler.EnqueueRequestsFromMapFunc(ofAction)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.openOnNode)).
		Watches(&v1alpha1.RemedyPolicy{}, handler.EnqueueRequestsFromMapFunc(r.openOfPolicy),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.RemediationBudget{}, r.onBudget()).
		WithOptions(options(workers)).
		WithLogConstructor(logConstructor(mgr, "remediation")).
		Complete(r)
}

// options of a controller whose requests do not delay each other: each has a
// backoff of its own.
func options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
	}
}

// logConstructor names in each line what a request is about, and no more.
func logConstructor(mgr ctrl.Manager, key string) func(*reconcile.Request) logr.Logger {
	return func(request *reconcile.Request) logr.Logger {
		if request == nil {
			return mgr.GetLogger()
		}
		return mgr.GetLogger().WithValues(key, request.Name)
	}
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
	if err := r.Client.List(ctx, &list, client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing open remediations")
		return nil
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].Name
	}
	return requests(names...)
}

func requests(names ...string) []reconcile.Request {
	requests := make([]reconcile.Request, len(names))
	for i, name := range names {
		requests[i].Name = name
	}
	return requests
}
