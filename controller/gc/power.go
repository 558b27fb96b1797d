package gc

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/internal/deadline"
)

// Power lets actions of the remote runner go that have finished or are deleted, unless a machine
// may be off by one: then the action is what tells the next remote runner to switch it on. Or a machine
// is being replaced by one, until that has ended. One request is one action.
type Power struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Clock tells how old an action is.
	Clock clock.PassiveClock
}

// Loop returns the reconciler with what wakes it.
func (p *Power) Loop() worker.Loop {
	mayGo := predicate.NewPredicateFuncs(func(obj client.Object) bool { return mayGo(obj.(*v1alpha1.NodeAction)) })
	return worker.Loop{
		Name: "power", Key: "action", Workers: 1, Reconciler: p,
		Watches: []worker.Watch{{Kind: &v1alpha1.NodeAction{}, Handler: &handler.EnqueueRequestForObject{}, Predicates: []predicate.Predicate{mayGo}}},
	}
}

// mayGo reports whether the action has the finalizer, and nothing but a machine that is off keeps it.
func mayGo(action *v1alpha1.NodeAction) bool {
	return controllerutil.ContainsFinalizer(action, v1alpha1.PowerFinalizer) && (action.DeletionTimestamp != nil || action.Finished() != nil)
}

// Reconcile removes the finalizer of an action as soon as no machine is off by it.
func (p *Power) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var action v1alpha1.NodeAction
	if err := p.Client.Get(ctx, request.NamespacedName, &action); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mayGo(&action) {
		return reconcile.Result{}, nil
	}
	if now := p.Clock.Now(); deadline.MayBeOff(&action, now) {
		return reconcile.Result{RequeueAfter: deadline.Restorable(&action).Sub(now) + time.Second}, nil
	}
	if action.Finished() == nil && action.Status.Claim != nil && action.Status.Replace != nil {
		return reconcile.Result{}, nil // its end is an event
	}
	released := action.DeepCopy()
	controllerutil.RemoveFinalizer(released, v1alpha1.PowerFinalizer)
	// It fails if a runner has begun since.
	err := p.Client.Patch(ctx, released, optimistic.Since(&action), fieldmanager.Controller)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("removing the finalizer of action %s: %w", action.Name, err)
	}
	return reconcile.Result{}, nil
}
