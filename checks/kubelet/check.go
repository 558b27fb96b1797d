package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/kubeletapi"
	"github.com/nodemend/nodemend/internal/bounded"
	client "github.com/nodemend/nodemend/internal/systemd"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "KubeletUnhealthy"

// Options of the check.
type Options struct {
	// Kubelet is asked for both its /healthz. Required.
	Kubelet *kubeletapi.Client
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// Unit is the systemd unit of the kubelet; empty: the first that is loaded
	// of those that kubeadm, k3s and RKE2 use.
	Unit string
	// MaxRestarts within RestartWindow are no problem.
	MaxRestarts int
	// RestartWindow begins empty with the check. Required.
	RestartWindow time.Duration
	// Clock measures the window. Required.
	Clock clock.PassiveClock
}

// Check is the check of this node's kubelet.
type Check struct {
	options Options
	systemd units
	names   []string
	memory  memory
}

var _ checks.Check = (*Check)(nil)

// New returns a check. It fails if an option is missing.
func New(options Options) (*Check, error) {
	switch {
	case options.Kubelet == nil, options.Clock == nil:
		return nil, errors.New("kubelet check: Kubelet and Clock are required")
	case options.Timeout <= 0, options.RestartWindow <= 0, options.MaxRestarts < 0:
		return nil, fmt.Errorf("kubelet check: timeout %s and restartWindow %s must be positive, maxRestarts %d not negative",
			options.Timeout, options.RestartWindow, options.MaxRestarts)
	}
	names := kubeletUnits()
	if options.Unit != "" {
		names = []string{options.Unit}
	}
	return &Check{
		options: options,
		systemd: systemd{client.Dialer{Bus: client.DefaultBus, Private: client.DefaultPrivate}},
		names:   names,
		memory: memory{
			maxRestarts: options.MaxRestarts,
			restarts:    restarts{window: options.RestartWindow, limit: options.MaxRestarts + 1},
		},
	}, nil
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Run implements checks.Check.
func (c *Check) Run(ctx context.Context) checks.Result {
	seen := c.observe(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return checks.CannotTell(ReasonInterrupted, "the run was interrupted")
	}
	c.memory.learn(seen, c.options.Clock.Now())
	return judge(seen, c.memory)
}

// observe ends with ctx.
func (c *Check) observe(ctx context.Context) observation {
	// The last tenth is for the verdict: one that is healthy must not be late.
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout*9/10)
	defer cancel()
	var seen observation
	var looking bounded.Group
	looking.Go(func() { seen.plain.response, seen.plain.err = c.options.Kubelet.Healthz(ctx) })
	looking.Go(func() { seen.secure.response, seen.secure.err = c.options.Kubelet.Get(ctx, "/healthz") })
	looking.Go(func() { seen.unit, seen.unitErr = c.systemd.first(ctx, c.names) })
	looking.Wait()
	return seen
}
