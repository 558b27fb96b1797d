// Package worker says how the controller's loops run: several workers each, and a
// backoff for each object by itself, so that none delays another.
package worker

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Bounds of the time before a look that failed is repeated; it doubles.
const (
	MinBackoff = 50 * time.Millisecond
	maxBackoff = time.Minute
)

// Backoff is how long to wait after a write that somebody else's forestalled, for each
// object by itself.
type Backoff struct {
	limiter workqueue.TypedRateLimiter[string]
}

// NewBackoff returns a Backoff for all objects of a loop.
func NewBackoff() Backoff {
	return Backoff{workqueue.NewTypedItemExponentialFailureRateLimiter[string](MinBackoff, maxBackoff)}
}

// Result turns the outcome of a reconcile into a reconcile.Result. wait 0 means: on the
// next event. A conflict or NotFound is no error: the cache is behind, or somebody else
// has changed or deleted the object. The reconcile is repeated soon then.
func (b Backoff) Result(name string, wait time.Duration, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: b.limiter.When(name)}, nil
	}
	b.limiter.Forget(name)
	return reconcile.Result{RequeueAfter: wait}, err
}
