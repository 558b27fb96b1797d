package detector

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
)

// readyAge is how long an answer of the API server's is used: checks that look at
// Ready on every run must not become a load, with thousands of nodes.
const readyAge = 30 * time.Second

// readyCondition reads the node's Ready condition.
type readyCondition struct {
	nodes    corev1client.NodeInterface
	nodeName string
	clock    clock.PassiveClock

	mu        sync.Mutex
	at        time.Time // of the latest attempt
	condition corev1.NodeCondition
	err       error
}

// get returns the condition as it was at most half a minute ago.
func (r *readyCondition) get(ctx context.Context) (corev1.NodeCondition, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && r.clock.Since(r.at) < readyAge {
		return r.condition, r.err
	}
	r.at = r.clock.Now()
	r.condition, r.err = r.read(ctx)
	return r.condition, r.err
}

func (r *readyCondition) read(ctx context.Context) (corev1.NodeCondition, error) {
	node, err := r.nodes.Get(ctx, r.nodeName, metav1.GetOptions{ResourceVersion: "0"}) // from the API server's cache
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
