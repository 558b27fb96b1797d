package drain

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Drainer drains nodes. Of a node it remembers which evictions were refused, and
// when the next pass is worth it; losing that costs a few requests. It may be
// used concurrently, for one node as well.
type Drainer struct {
	pods  Pods
	clock clock.PassiveClock

	mu    sync.Mutex
	nodes map[string]*node
}

// Pods are those of a cluster. No request may be repeated: each answer tells when the
// next one is worth it.
type Pods interface {
	// OnNode returns the pods of a node as they are now.
	OnNode(ctx context.Context, node string) ([]corev1.Pod, error)
	// Evict evicts this very pod, not one that has its name by now. nil: the pod's own
	// grace period.
	Evict(ctx context.Context, pod *corev1.Pod, gracePeriodSeconds *int64) error
}

// New returns a Drainer that uses the connections of the HTTP client and the rate
// limit of the config, and protobuf.
//
// The clock is compared with times of the API server.
func New(cfg *rest.Config, client *http.Client, clk clock.PassiveClock) (*Drainer, error) {
	pods, err := newRESTPods(cfg, client)
	if err != nil {
		return nil, err
	}
	return NewFor(pods, clk), nil
}

// NewFor is New for pods that are reached in another way.
func NewFor(pods Pods, clk clock.PassiveClock) *Drainer {
	return &Drainer{pods: pods, clock: clk, nodes: map[string]*node{}}
}

// Pass looks at the pods of the node, tells those to end that may go now, and
// reports what is left. It waits for no pod, and not for a PodDisruptionBudget:
// call it again after Result.Next. A pod that came to the node meanwhile is evicted,
// too. Without mayEvict it only looks.
//
// It fails when pods cannot be listed, a selector is none, or ctx is over. What
// goes wrong with one pod is in the Result and concerns no other. Only ctx bounds a
// request that hangs. When it returns,
// none of its requests is under way.
func (d *Drainer) Pass(ctx context.Context, nodeName string, options *v1alpha1.Drain, mayEvict bool) (Result, error) {
	plan, pods, err := d.look(ctx, nodeName, options)
	if err != nil {
		return Result{}, err
	}
	n := d.node(nodeName)
	due := n.recall(pods, &plan, d.clock.Now())
	told := 0
	if mayEvict {
		if told = d.evict(ctx, n, due, options); ctx.Err() != nil {
			return Result{}, fmt.Errorf("evicting the pods of node %s: %w", nodeName, context.Cause(ctx))
		}
	}
	return n.result(&plan, told, mayEvict, d.clock.Now()), nil
}

// Arrived returns a pod that the node is to be drained of and that the drain has not left
// there, nil if there is none. Where a drain has left more pods than its status can list, only
// one that vetoes counts. It fails as Pass does.
func (d *Drainer) Arrived(ctx context.Context, nodeName string, options *v1alpha1.Drain, ended *v1alpha1.DrainStatus) (*corev1.Pod, error) {
	plan, _, err := d.look(ctx, nodeName, options)
	if err != nil {
		return nil, err
	}
	return arrived(&plan, ended), nil
}

// look lists the pods of the node and decides about them.
func (d *Drainer) look(ctx context.Context, nodeName string, options *v1alpha1.Drain) (Plan, []corev1.Pod, error) {
	pods, err := d.pods.OnNode(ctx, nodeName)
	if err != nil {
		return Plan{}, nil, fmt.Errorf("listing the pods of node %s: %w", nodeName, err)
	}
	plan, err := Decide(pods, options, d.clock.Now())
	if err != nil {
		return Plan{}, nil, fmt.Errorf("draining node %s: %w", nodeName, err)
	}
	return plan, pods, nil
}

// OnNode returns the pods of a node as they are now.
func (d *Drainer) OnNode(ctx context.Context, nodeName string) ([]corev1.Pod, error) {
	return d.pods.OnNode(ctx, nodeName)
}

// Forget drops what is remembered of a node: call it when its drain is over.
func (d *Drainer) Forget(nodeName string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, nodeName)
}

func (d *Drainer) node(name string) *node {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nodes[name]
	if n == nil {
		n = &node{refusals: map[types.UID]refusal{}}
		d.nodes[name] = n
	}
	return n
}
