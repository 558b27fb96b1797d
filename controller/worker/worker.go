// Package worker says how the controller's loops run: several workers each, and a
// backoff for each object by itself, so that none delays another.
package worker

import (
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Bounds of the time before a look that failed is repeated; it doubles.
const (
	MinBackoff = 50 * time.Millisecond
	MaxBackoff = time.Minute
)

// Options are those of a loop with this many workers. Each line of its log names the
// object that it is about, under the key, and no more.
func Options(mgr ctrl.Manager, workers int, key string) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](MinBackoff, MaxBackoff),
		LogConstructor: func(request *reconcile.Request) logr.Logger {
			if request == nil {
				return mgr.GetLogger()
			}
			return mgr.GetLogger().WithValues(key, request.Name)
		},
	}
}

// Backoff is how long to wait after a write that somebody else's forestalled, by the
// name of an object. That is no error, and the same as after one.
func Backoff() workqueue.TypedRateLimiter[string] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[string](MinBackoff, MaxBackoff)
}
