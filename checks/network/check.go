// Package network checks the node's own network interfaces and bonds, by what the kernel
// tells of them.
package network

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/counters"
	"github.com/nodemend/nodemend/internal/bounded"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "NetworkUnhealthy"

// Options of the check.
type Options struct {
	// Include and Exclude are patterns of names, as of path.Match: of interfaces that are
	// looked at beside those of the hardware and bonds, and of those that are not.
	Include, Exclude []string
	// MinSpeed is how fast every interface has to be, in Mb/s; 0: any speed that both of its
	// ends agree on will do.
	MinSpeed int
	// MaxFlaps is how often an interface may not lose its carrier within FlapWindow. Both are
	// required.
	MaxFlaps   int
	FlapWindow time.Duration
	// MaxErrors and MaxDropped are how many of the packets since the last run may be damaged
	// and dropped, in percent; 0: that is not looked at.
	MaxErrors, MaxDropped int
	// StateFile keeps what was faulty when it was last seen; empty: memory does.
	StateFile string
	// LookOnly is whether StateFile is only read.
	LookOnly bool
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// Sys is where sysfs is mounted; empty: /sys.
	Sys string
	// Links tells what both ends of the links of interfaces can do; nil: the kernel does.
	Links func(names []string) (map[string]link, error)
	Clock clock.Clock
}

// seen is what one look at the interfaces has seen.
type seen struct {
	interfaces []iface
	// errs are of interfaces that could not be looked at.
	errs []error
	err  error
}

// Check is the check of the node's network interfaces.
type Check struct {
	options Options
	look    bounded.Single[seen]
	watched watched
	kept    counters.File[map[string]remembered]
}

var _ checks.Check = (*Check)(nil)

// New returns a check. Its error is [checks.Off] if the node has no interface that is looked
// at, as in a container that is a node.
func New(options Options) (*Check, error) {
	if options.Sys == "" {
		options.Sys = "/sys"
	}
	if options.Links == nil {
		options.Links = links
	}
	// If the interfaces can't be seen now, runs say so.
	none, err := bounded.Within(options.Clock, options.Timeout, func() bool {
		names, err := sys(options.Sys).names(options)
		return err == nil && len(names) == 0
	})
	if err == nil && none {
		return nil, checks.Off{Why: "no network interface is one of hardware, a bond, or named by include"}
	}
	return &Check{
		options: options, watched: watched{},
		kept: counters.File[map[string]remembered]{Path: options.StateFile, LookOnly: options.LookOnly, Clock: options.Clock},
	}, nil
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Run implements checks.Check. The kernel may not answer where a driver waits for its device:
// it has one lock for all interfaces.
func (c *Check) Run(ctx context.Context) checks.Result {
	options := c.options
	got, waited, err := c.look.Call(ctx, options.Clock, options.Timeout*9/10, func() seen { return sys(options.Sys).look(options) })
	if err != nil {
		return checks.CannotTell(ReasonNotSeen, fmt.Sprintf("the kernel has not told of the network interfaces for %s: a driver may wait for its device", waited.Round(time.Second)))
	}
	if got.err != nil {
		return checks.CannotTell(ReasonNotSeen, got.err.Error())
	}
	if before, first := c.kept.Load(ctx); first {
		c.watched.recall(before, options.Exclude)
	}
	result := c.watched.judge(got, options, options.Clock.Now())
	c.kept.Save(ctx, c.watched.remember())
	if err := c.kept.Unread(); err != nil && result.Status == checks.False {
		return checks.CannotTell(ReasonNotSeen, fmt.Sprintf("what was faulty before is not known: %v", err))
	}
	return result
}
