package containerruntime

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "ContainerRuntimeUnhealthy"

// margin is what a run may take besides its calls.
const margin = 500 * time.Millisecond

// Options of the check.
type Options struct {
	// Endpoint of the runtime, "unix:///run/containerd/containerd.sock". Empty:
	// it is looked for, see Candidates.
	Endpoint string
	// Candidates are the paths of the sockets that an empty Endpoint may stand for,
	// the most specific first. Nil: those of k3s and RKE2, CRI-O and containerd, in
	// this order, since a node of the former may have a containerd beside, for
	// Docker.
	Candidates []string
	// Timeout is the deadline of each of the calls, which are made at the same
	// time. Required.
	Timeout time.Duration
	// NetworkNotReady makes NetworkReady=false a problem. Without it, it is only
	// mentioned: it means that no CNI configuration is loaded, for example since
	// the network plugin has not been installed on a new node yet, and nothing that
	// is done to the runtime helps. The kubelet reports it in Ready.
	NetworkNotReady bool
	// Clock measures latencies and the age of connections. Required.
	Clock clock.PassiveClock
}

// Check is the check of one container runtime. It keeps one connection between
// runs. Run and Probe may be called at the same time, but neither twice.
type Check struct {
	options Options
	sockets *sockets
	// A connection each, so that neither closes what the other uses.
	run, probe connection
}

var _ checks.Check = (*Check)(nil)

// New returns a check. It neither connects nor looks for sockets before the first
// run. It fails if the endpoint can't be one: it is a unix socket with an absolute
// path.
func New(options Options) (*Check, error) {
	candidates := options.Candidates
	if candidates == nil {
		candidates = defaultCandidates()
	}
	if options.Endpoint != "" {
		path, ok := strings.CutPrefix(options.Endpoint, "unix://")
		if !ok || !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("container runtime endpoint %q: only unix sockets with an absolute path are supported, such as unix:///run/containerd/containerd.sock", options.Endpoint)
		}
		candidates = []string{path}
	}
	return &Check{
		options: options,
		sockets: &sockets{candidates: candidates},
		run:     connection{clock: options.Clock},
		probe:   connection{clock: options.Clock},
	}, nil
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout + margin }

// Close closes the connections. Neither Run nor Probe must be under way.
func (c *Check) Close() {
	c.run.close()
	c.probe.close()
}

// Run implements checks.Check.
//
// RuntimeReady=false is a problem, as is its absence, which the kubelet treats
// alike.
func (c *Check) Run(ctx context.Context) checks.Result {
	path := c.sockets.find()
	if path == "" {
		return checks.Problem(ReasonSocketMissing, c.sockets.missing())
	}
	o := observation{endpoint: "unix://" + path, timeout: c.options.Timeout, networkMatters: c.options.NetworkNotReady}
	var err error
	if o.answers, err = c.ask(ctx, path); err != nil {
		return checks.CannotTell(ReasonInvalidEndpoint, fmt.Sprintf("%s: %v", o.endpoint, err))
	}
	o.dialErr = c.run.dialError()
	switch {
	case o.failed(isCode(codes.Unavailable)) != nil:
		c.run.close()
	case o.failed(isError(context.DeadlineExceeded)) != nil:
		c.run.suspect()
	}
	return o.verdict()
}

// ask makes the calls of a run. If the connection breaks, it makes them once more
// on a new one: the runtime may just have been restarted.
func (c *Check) ask(ctx context.Context, path string) (a answers, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	for range 2 {
		conn, err := c.run.to(path)
		if err != nil {
			return answers{}, err
		}
		a = ask(ctx, conn, c.options.Clock)
		if a.failed(isCode(codes.Unavailable)) == nil || c.run.dialError() != nil {
			break
		}
		c.run.close()
	}
	return a, nil
}

// Probe calls ListPodSandbox once, for checks of what depends on it. It returns
// nil if that was answered before ctx has ended. Otherwise the error names the
// endpoint, and wraps ctx.Err() if ctx has ended, or [fs.ErrNotExist] if there is no
// socket.
func (c *Check) Probe(ctx context.Context) error {
	path := c.sockets.find()
	if path == "" {
		return fmt.Errorf("%s: %w", c.sockets.missing(), fs.ErrNotExist)
	}
	conn, err := c.probe.to(path)
	if err != nil {
		return fmt.Errorf("unix://%s: %w", path, err)
	}
	var sandboxes count
	err = invoke(ctx, conn, runtimeapi.RuntimeService_ListPodSandbox_FullMethodName, &runtimeapi.ListPodSandboxRequest{}, &sandboxes)
	if dialErr := c.probe.dialError(); err != nil && dialErr != nil {
		err = dialErr
	}
	// Probes are rare, so their connection is not kept, unless it is queued.
	if ctx.Err() != nil {
		c.probe.suspect()
	} else {
		c.probe.close()
	}
	if err != nil {
		return fmt.Errorf("unix://%s: ListPodSandbox: %w", path, err)
	}
	return nil
}
