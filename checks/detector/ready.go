package detector

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// An answer of the API server's is used for minReadyAge; the more often Ready was
// asked for without a break, the longer, up to maxReadyAge: where a check can see
// nothing else it asks on every run, which on thousands of nodes is a load.
const (
	minReadyAge = 30 * time.Second
	maxReadyAge = 5 * time.Minute
)

// readyCondition reads the node's Ready condition.
type readyCondition struct {
	node     func(context.Context) (*corev1.Node, error)
	nodeName string
	clock    clock.PassiveClock

	mu        sync.Mutex
	at        time.Time // of the latest attempt
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
	if !r.at.IsZero() && now.Sub(r.at) < r.age {
		return r.condition, r.err
	}
	r.at, r.age = now, min(2*r.age, maxReadyAge)
	r.condition, r.err = r.read(ctx)
	return r.condition, r.err
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
