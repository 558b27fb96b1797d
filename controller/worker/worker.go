// Package worker says how the controller's loops run: several workers each, and a
// backoff for each object by itself, so that none delays another.
package worker

import (
	"fmt"
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

// patience is how many times in a row a look may be forestalled, about ten minutes, until that
// is an error: no cache is behind for that long.
const patience = 20

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
// has changed or deleted the object. The reconcile is repeated soon then. If that goes on for
// about ten minutes it is an error, so that people are told.
func (b Backoff) Result(name string, wait time.Duration, err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		again := b.limiter.When(name)
		if times := b.limiter.NumRequeues(name); times > patience {
			return reconcile.Result{}, fmt.Errorf("forestalled %d times in a row: %w", times, err)
		}
		return reconcile.Result{RequeueAfter: again}, nil
	}
	b.limiter.Forget(name)
	return reconcile.Result{RequeueAfter: wait}, err
}
