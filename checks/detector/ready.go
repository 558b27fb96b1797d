package detector

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks/pleg"
)

// An answer of the API server's is used for minReadyAge; the more often Ready was
// asked for without a break, the longer, up to maxReadyAge: where a check can see
// nothing else it asks on every run, which on thousands of nodes is a load. An answer
// that PLEG is not healthy is one that a condition is made of: it is never used longer
// than minReadyAge, nor any beyond a demand, which follows an action.
const (
	minReadyAge = 30 * time.Second
	maxReadyAge = 5 * time.Minute
)

// readyCondition reads the node's Ready condition.
type readyCondition struct {
	node     func(context.Context) (*corev1.Node, error)
	nodeName string
	clock    clock.PassiveClock
	// demands counts those after which no earlier answer is used.
	demands atomic.Int64

	mu        sync.Mutex
	at        time.Time // of the latest attempt
	demanded  int64     // demands before it
	askedAt   time.Time
	age       time.Duration // for which its answer is used
	condition corev1.NodeCondition
	err       error
}

// get returns the condition as it was at most maxReadyAge ago.
func (r *readyCondition) get(ctx context.Context) (corev1.NodeCondition, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if now.Sub(r.askedAt) > minReadyAge {
		r.age = minReadyAge / 2
	}
	r.askedAt = now
	demands := r.demands.Load()
	if !r.at.IsZero() && r.demanded == demands && now.Sub(r.at) < r.age {
		return r.condition, r.err
	}
	r.at, r.demanded, r.age = now, demands, min(2*r.age, maxReadyAge)
	r.condition, r.err = r.read(ctx)
	if pleg.Reported(r.condition) {
		r.age = minReadyAge
	}
	return r.condition, r.err
}

// demand has Ready read anew when it is asked for next. It does not wait for a read that is under
// way, whose answer is not used again either.
func (r *readyCondition) demand() { r.demands.Add(1) }

// ask asks the API server now, whatever was answered before.
func (r *readyCondition) ask(ctx context.Context) error {
	_, err := r.node(ctx)
	return err
}

func (r *readyCondition) read(ctx context.Context) (corev1.NodeCondition, error) {
	node, err := r.node(ctx)
	if err != nil {
		return corev1.NodeCondition{}, fmt.Errorf("reading the Ready condition: %w", err)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c, nil
		}
	}
	return corev1.NodeCondition{}, fmt.Errorf("node %s has no Ready condition", r.nodeName)
}
