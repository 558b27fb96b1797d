package drain

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Drainer drains nodes. Of a node it remembers which evictions were refused, and
// when the next pass is worth it; losing that costs a few requests. It may be
// used concurrently, for one node as well.
type Drainer struct {
	client rest.Interface
	clock  clock.PassiveClock

	mu    sync.Mutex
	nodes map[string]*node
}

// New returns a Drainer that uses the connections of the HTTP client and the rate
// limit of the config, and protobuf. It is a REST client since typed ones, and
// controller-runtime's, repeat a request for as long as a server says Retry-After, and
// sleep meanwhile. A list costs the same with each.
//
// The clock is compared with times of the API server.
func New(cfg *rest.Config, client *http.Client, clk clock.PassiveClock) (*Drainer, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.APIPath, cfg.GroupVersion = "/api", &corev1.SchemeGroupVersion
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	c, err := rest.RESTClientForConfigAndClient(cfg, client)
	if err != nil {
		return nil, fmt.Errorf("setting up the client for drains: %w", err)
	}
	return &Drainer{client: c, clock: clk, nodes: map[string]*node{}}, nil
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
	pods, err := d.list(ctx, nodeName)
	if err != nil {
		return Result{}, fmt.Errorf("listing the pods of node %s: %w", nodeName, err)
	}
	plan, err := Decide(pods, options, d.clock.Now())
	if err != nil {
		return Result{}, fmt.Errorf("draining node %s: %w", nodeName, err)
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

// Forget drops what is remembered of a node: call it when its drain is over.
func (d *Drainer) Forget(nodeName string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.nodes, nodeName)
}

// list returns the pods of a node as they are now: since Kubernetes 1.31 from the
// index that the API server's cache has for that, and consistent with etcd.
func (d *Drainer) list(ctx context.Context, nodeName string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := d.client.Get().Resource("pods").
		VersionedParams(&metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", nodeName).String(),
		}, scheme.ParameterCodec).
		MaxRetries(0). // each would wait here for as long as the server says
		Do(ctx).Into(&list)
	return list.Items, err
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
