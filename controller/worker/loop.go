package worker

import (
	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Loop is one of the controller's loops: what wakes it, and what it does then.
type Loop struct {
	// Name of the loop, in its metrics.
	Name string
	// Key names the object that a line of the log is about.
	Key string
	// Workers is how many objects are looked at at the same time.
	Workers int
	// Watches wake it.
	Watches []Watch
	// Doorbell wakes it, too, if there is one.
	Doorbell *Doorbell
	// Reconciler does the work.
	Reconciler reconcile.Reconciler
}

// Watch turns the events of a kind into requests.
type Watch struct {
	Kind    client.Object
	Handler handler.EventHandler
	// Predicates must all let an event through.
	Predicates []predicate.Predicate
}

// Register adds the loop to the manager.
func (l Loop) Register(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(l.Name)
	for _, w := range l.Watches {
		b = b.Watches(w.Kind, w.Handler, builder.WithPredicates(w.Predicates...))
	}
	if l.Doorbell != nil {
		b = b.WatchesRawSource(l.Doorbell)
	}
	return b.WithOptions(l.options(mgr)).Complete(l.Reconciler)
}

func (l Loop) options(mgr ctrl.Manager) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: l.Workers,
		RateLimiter:             NewRateLimiter(),
		LogConstructor: func(request *reconcile.Request) logr.Logger {
			if request == nil {
				return mgr.GetLogger()
			}
			return mgr.GetLogger().WithValues(l.Key, request.Name)
		},
	}
}

// NewRateLimiter returns what says after how long a look that failed is repeated: each
// object has a time of its own, which doubles.
func NewRateLimiter() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](MinBackoff, maxBackoff)
}

// Request asks to look at the object of this name.
func Request(name string) (request reconcile.Request) {
	request.Name = name
	return request
}

// Requests asks to look at the objects of these names.
func Requests(names ...string) []reconcile.Request {
	requests := make([]reconcile.Request, len(names))
	for i, name := range names {
		requests[i] = Request(name)
	}
	return requests
}
