// Package gpu checks the node's GPUs of NVIDIA: by what the kernel tells of them, by those that the
// node had before, and by what their driver says, which nvidia-smi asks.
package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/counters"
	"github.com/nodemend/nodemend/internal/bounded"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "GPUUnhealthy"

// Options of the check.
type Options struct {
	// Exclude are patterns, as of path.Match, of addresses, models, serial numbers and UUIDs of GPUs
	// that are not looked at.
	Exclude []string
	// Health is whether the driver is asked how GPUs are, HealthInterval how often, and MaxWait how
	// long an answer may take. The latter two are required.
	Health                  bool
	HealthInterval, MaxWait time.Duration
	// MaxSlowdown is for how long a GPU may slow itself down; 0: that is not looked at.
	MaxSlowdown time.Duration
	// Program is the path of nvidia-smi, whose file system begins at Root, or as this process's if
	// that is empty. Without a path it is looked for.
	Program, Root string
	// StateFile keeps which GPUs the node had; empty: memory does.
	StateFile string
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// Sys and Proc are where sysfs and procfs are mounted; empty: /sys and /proc.
	Sys, Proc string
	// Ask asks the driver, of this version, how its GPUs are; nil: nvidia-smi does.
	Ask   func(ctx context.Context, version string) answer
	Clock clock.Clock
}

// Check is the check of the node's GPUs.
type Check struct {
	options Options
	files   files
	look    bounded.Single[inventory]
	asked   asked
	kept    counters.File[known]
	known   known
	// slow is since when GPUs have slowed themselves down, by address.
	slow map[string]time.Time
}

var _ checks.Check = (*Check)(nil)

// asked is what the driver was asked.
type asked struct {
	call bounded.Single[answer]
	// end ends the call that is under way; nil if none is.
	end context.CancelFunc
	// waited is how long an answer is waited for; 0: none is.
	waited time.Duration
	// answer is the last one, and at when it was; nil: there was none.
	answer *answer
	at     time.Time
	// of are the addresses of the GPUs that the driver had when it was asked.
	of []string
	// bad is whether the answer was.
	bad bool
}

// New returns a check. Its error is [checks.Off] if the node neither has a GPU of NVIDIA nor had one.
func New(options Options) (*Check, error) {
	if options.Sys == "" {
		options.Sys = "/sys"
	}
	if options.Proc == "" {
		options.Proc = "/proc"
	}
	if options.Ask == nil {
		options.Ask = (&program{path: options.Program, root: options.Root, limit: options.MaxWait}).ask
	}
	c := &Check{
		options: options, files: files{options.Sys, options.Proc}, slow: map[string]time.Time{},
		kept: counters.File[known]{Path: options.StateFile, Clock: options.Clock},
	}
	// If it can't be seen now whether there was or is one, runs say so.
	never, err := bounded.Within(options.Clock, options.Timeout, func() bool {
		_, err := os.Stat(options.StateFile)
		return errors.Is(err, os.ErrNotExist) && c.files.look().none()
	})
	if err == nil && never {
		return nil, checks.Off{Why: "there is no GPU of NVIDIA"}
	}
	return c, nil
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Close ends an nvidia-smi that is under way.
func (c *Check) Close() {
	if c.asked.end != nil {
		c.asked.end()
	}
}

// Run implements checks.Check. A driver that does not answer keeps two goroutines until it does.
func (c *Check) Run(ctx context.Context) checks.Result {
	if before, first := c.kept.Load(ctx); first {
		c.known = before
	}
	all, waited, err := c.look.Call(ctx, c.options.Clock, c.options.Timeout/5, c.files.look)
	if err == nil && all.err == nil && c.options.Health {
		c.askDriver(ctx, all)
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return checks.CannotTell(ReasonNotSeen, "the run was interrupted")
	case err != nil && waited >= c.options.MaxWait && c.known.told():
		return checks.Problem(ReasonNotAnswering, fmt.Sprintf("the kernel has not told of its GPUs for %s: the driver waits for one", waited.Round(time.Second)))
	case err != nil:
		return checks.CannotTell(ReasonNotSeen, fmt.Sprintf("the kernel has not told of its GPUs for %s", waited.Round(time.Second)))
	case all.err != nil:
		return checks.CannotTell(ReasonNotSeen, all.err.Error())
	}
	result := c.judge(all, c.options.Clock.Now())
	c.kept.Save(ctx, c.known)
	if err := c.kept.Unread(); err != nil && result.Status == checks.False {
		return checks.CannotTell(ReasonNotSeen, fmt.Sprintf("which GPUs the node had is not known: %v", err))
	}
	return result
}

// askDriver asks the driver if it has GPUs, and its last answer is old, was bad, or is about others.
// Without its GPUs it is not asked: nvidia-smi would load it.
func (c *Check) askDriver(ctx context.Context, all inventory) {
	a := &c.asked
	var of []string
	for _, g := range all.gpus {
		if g.driver == driver && !c.excludes(g, nil) {
			of = append(of, g.address)
		}
	}
	if len(of) == 0 {
		a.answer = nil
	}
	if a.waited == 0 && (len(of) == 0 || !a.due(of, c.options.Clock.Now(), c.options.HealthInterval)) {
		return
	}
	var life context.Context
	if a.waited == 0 {
		life, a.end = context.WithCancel(context.WithoutCancel(ctx)) // it may take longer than a run
		a.of = of
	}
	ask, version := c.options.Ask, all.version
	got, waited, err := a.call.Call(ctx, c.options.Clock, c.options.Timeout*7/10, func() answer { return ask(life, version) })
	if err != nil {
		a.waited = max(waited, 1)
		return
	}
	a.end()
	a.end, a.waited, a.at, a.answer = nil, 0, c.options.Clock.Now(), &got
}

// due is whether the driver is to be asked.
func (a *asked) due(of []string, now time.Time, interval time.Duration) bool {
	const jitter = 10 // of intervals, in percent
	return a.answer == nil || a.bad || !slices.Equal(of, a.of) || now.Sub(a.at) >= interval*(100-jitter)/100
}
