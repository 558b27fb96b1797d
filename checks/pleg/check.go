package pleg

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/kubeletapi"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "PLEGUnhealthy"

// Options of the check; all are required.
type Options struct {
	// Kubelet is asked for /metrics, on every run, and for the plain /healthz.
	Kubelet *kubeletapi.Client
	// Probe lists all pod sandboxes of the runtime the kubelet uses, as a relist
	// does. It must return at the deadline of its context, which may be shorter
	// than a deadline of its own. It is called only when there is doubt.
	Probe func(context.Context) error
	// ReadyCondition returns this node's condition Ready. It is called only when
	// nothing else can tell, but then on every run, so it should limit its rate:
	// what it returns may be somewhat old, but hardly if that is Reported, since
	// then it counts as seen by the run.
	ReadyCondition func(context.Context) (corev1.NodeCondition, error)
	// Timeout is the deadline of a run.
	Timeout time.Duration
	// MaxLastSeen is how old the last relist may be. Less than 15 s is too
	// short for a kubelet whose sync loop is busy.
	MaxLastSeen time.Duration
	// KubeletGrace is how long after the kubelet's start its first relist may
	// take; zero: no time at all.
	KubeletGrace time.Duration
	// Clock must run on the host's time.
	Clock clock.Clock
}

// Check is the check of this node's kubelet.
type Check struct {
	options Options
	// previous is the last sample that was read.
	previous *reading
}

var _ checks.Check = (*Check)(nil)

// New returns a check. It fails if an option is missing.
func New(options Options) (*Check, error) {
	switch {
	case options.Kubelet == nil, options.Probe == nil, options.ReadyCondition == nil, options.Clock == nil:
		return nil, errors.New("PLEG check: Kubelet, Probe, ReadyCondition and Clock are required")
	case options.Timeout <= 0, options.MaxLastSeen <= 0, options.KubeletGrace < 0:
		return nil, fmt.Errorf("PLEG check: timeout %s and maxLastSeen %s must be positive, kubeletGrace %s not negative",
			options.Timeout, options.MaxLastSeen, options.KubeletGrace)
	}
	return &Check{options: options}, nil
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Run implements checks.Check. A run of a healthy node makes one request, to the
// kubelet.
func (c *Check) Run(ctx context.Context) checks.Result {
	// The last tenth is for the verdict: one that is healthy must not be late.
	observing, cancel := context.WithTimeout(ctx, c.options.Timeout*9/10)
	defer cancel()
	seen := c.observe(observing)
	if errors.Is(ctx.Err(), context.Canceled) {
		return checks.CannotTell(ReasonInterrupted, "the run was interrupted")
	}
	result := judge(seen, c.previous, limits{maxLastSeen: c.options.MaxLastSeen, kubeletGrace: c.options.KubeletGrace})
	if seen.page.err == nil {
		c.previous = &reading{at: seen.now, sample: seen.page.sample}
	}
	return result
}
