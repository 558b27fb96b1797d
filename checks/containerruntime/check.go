// Package containerruntime checks the container runtime over its Container
// Runtime Interface (CRI, k8s.io/cri-api runtime/v1).
//
// A run makes two calls, each with a deadline of its own: Status, which says
// whether the runtime considers itself ready, and ListPodSandbox without a
// filter, which is what the kubelet's PLEG does and which blocks when the
// runtime's locks or its store do. So a stall shows within seconds; the kubelet
// reports it after two to four minutes.
package containerruntime

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "ContainerRuntimeUnhealthy"

// maxMessageSize is the limit for an answer in bytes, that of the kubelet.
const maxMessageSize = 16 << 20

// Options of the check; all are required.
type Options struct {
	// Endpoint of the runtime, "unix:///run/containerd/containerd.sock".
	Endpoint string
	// Timeout is the deadline of each of the two calls.
	Timeout time.Duration
	// Clock measures latencies and the age of connections.
	Clock clock.PassiveClock
}

// Check is the check of one container runtime. It keeps one connection between
// runs.
type Check struct {
	options    Options
	connection *connection
}

var _ checks.Check = (*Check)(nil)

// New returns a check. It does not connect before the first run. It fails if
// the endpoint can't be one: it is a unix socket with an absolute path.
func New(options Options) (*Check, error) {
	path, ok := strings.CutPrefix(options.Endpoint, "unix://")
	if !ok || !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("container runtime endpoint %q: only unix sockets with an absolute path are supported, such as unix:///run/containerd/containerd.sock", options.Endpoint)
	}
	c := &Check{options: options, connection: &connection{path: path, clock: options.Clock}}
	if _, err := c.connection.client(); err != nil {
		return nil, fmt.Errorf("container runtime endpoint %q: %w", options.Endpoint, err)
	}
	return c, nil
}

// Name implements checks.Check.
func (*Check) Name() string { return "container-runtime" }

// ConditionType implements checks.Check.
func (*Check) ConditionType() string { return ConditionType }

// Timeout is how long a run takes at most: both calls up to their deadlines.
func (c *Check) Timeout() time.Duration { return 2 * c.options.Timeout }

// Close closes the connection. The check must not be running.
func (c *Check) Close() { c.connection.close() }

// Run implements checks.Check. It ends with the first call that fails.
//
// RuntimeReady=false is a problem, as is its absence, which the kubelet treats
// alike. NetworkReady=false is not: it means that no CNI configuration is
// loaded, for example since the network plugin has not been installed on a new
// node yet, and nothing that is done to the runtime helps. It is mentioned in
// the message; the kubelet reports it in Ready.
func (c *Check) Run(ctx context.Context) checks.Result {
	statusCall := call{method: "Status", reasonTimeout: ReasonStatusTimeout}
	var status *runtimeapi.StatusResponse
	err := c.measure(ctx, &statusCall, func(ctx context.Context, client runtimeapi.RuntimeServiceClient) (err error) {
		status, err = client.Status(ctx, &runtimeapi.StatusRequest{})
		return err
	})
	if err != nil {
		return c.failed(ctx, statusCall, err)
	}
	if ready := condition(status, runtimeapi.RuntimeReady); !ready.GetStatus() {
		return checks.Problem(ReasonRuntimeNotReady, fmt.Sprintf("%s: Status reports RuntimeReady=false: %s",
			c.options.Endpoint, explain(ready)))
	}

	listCall := call{method: "ListPodSandbox", reasonTimeout: ReasonListTimeout}
	var list *runtimeapi.ListPodSandboxResponse
	err = c.measure(ctx, &listCall, func(ctx context.Context, client runtimeapi.RuntimeServiceClient) (err error) {
		list, err = client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
		return err
	})
	if err != nil {
		return c.failed(ctx, listCall, err)
	}

	message := fmt.Sprintf("%s: Status answered in %s, ListPodSandbox with %d sandboxes in %s (deadline %s each)",
		c.options.Endpoint, statusCall.took, len(list.GetItems()), listCall.took, c.options.Timeout)
	if network := condition(status, runtimeapi.NetworkReady); !network.GetStatus() {
		message += "; NetworkReady=false: " + explain(network)
	}
	return checks.Healthy(ReasonHealthy, message)
}

// call is one call to the runtime.
type call struct {
	method        string
	reasonTimeout string
	took          time.Duration
}

// measure makes one call within its deadline. If the connection breaks, the
// call is made once more on a new one: the runtime may just have been restarted.
func (c *Check) measure(ctx context.Context, call *call, do func(context.Context, runtimeapi.RuntimeServiceClient) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	started := c.options.Clock.Now()
	err := c.attempt(ctx, do)
	if grpcstatus.Code(err) == codes.Unavailable && c.connection.dialer.lastError() == nil {
		c.connection.close()
		err = c.attempt(ctx, do)
	}
	call.took = c.options.Clock.Since(started).Round(time.Millisecond / 10)
	return err
}

func (c *Check) attempt(ctx context.Context, do func(context.Context, runtimeapi.RuntimeServiceClient) error) error {
	client, err := c.connection.client()
	if err != nil {
		return err
	}
	return do(ctx, client)
}

func condition(status *runtimeapi.StatusResponse, conditionType string) *runtimeapi.RuntimeCondition {
	for _, c := range status.GetStatus().GetConditions() {
		if c.GetType() == conditionType {
			return c
		}
	}
	return nil
}

func explain(c *runtimeapi.RuntimeCondition) string {
	switch {
	case c == nil:
		return "the runtime does not report this condition"
	case c.GetReason() == "" && c.GetMessage() == "":
		return "the runtime gives no reason"
	default:
		return strings.TrimSpace(c.GetReason() + " " + c.GetMessage())
	}
}
