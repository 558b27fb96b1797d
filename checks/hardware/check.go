// Package hardware checks the hardware of the server by its baseboard management
// controller (BMC). What is wrong with it is judged by package ipmi/verdict.
package hardware

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "HardwareFailure"

// Reasons of the condition beside those of verdicts.
const (
	// ReasonNoBMC, with Unknown: the BMC's source can't be opened.
	ReasonNoBMC = "BMCNotAccessible"
	// ReasonInterrupted, with Unknown: the run was ended from outside.
	ReasonInterrupted = "Interrupted"
)

// Options of the check; all but Metrics are required.
type Options struct {
	// Open opens the source of the BMC. It is called again after a failure.
	Open func() (ipmi.Source, error)
	// Rules come before the default rules.
	Rules verdict.Rules
	// Store keeps what is remembered.
	Store Store
	// BootID is the kernel's.
	BootID string
	// Timeout is the deadline of a run.
	Timeout time.Duration
	Clock   clock.PassiveClock
	// Metrics records what is found; nil: nothing does.
	Metrics *Metrics
}

// Check is the check of one server. What it remembers is in its store; if that
// fails, in memory.
type Check struct {
	options Options
	source  ipmi.Source    // nil: to be opened
	state   *verdict.State // nil before the first run
	// looked is when the BMC was read last; zero before the first run.
	looked time.Time
	// unsaved is whether state is newer than what the store has.
	unsaved bool
}

var _ checks.Check = (*Check)(nil)

// New returns a check. It does not look at the BMC before the first run.
func New(options Options) *Check { return &Check{options: options} }

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Close closes the source. The check must not be running.
func (c *Check) Close() {
	if c.source != nil {
		_ = c.source.Close() // was only read
		c.source = nil
	}
}

// Run implements checks.Check.
func (c *Check) Run(ctx context.Context) checks.Result {
	// The last tenth is for the verdict and for writing it down.
	reading, cancel := context.WithTimeout(ctx, c.options.Timeout*9/10)
	defer cancel()
	if c.source == nil {
		source, err := c.options.Open()
		if err != nil {
			return checks.CannotTell(ReasonNoBMC, err.Error())
		}
		c.source = source
	}
	last := c.remembered(ctx)
	in := Read(reading, c.source, last, c.options.BootID, c.options.Clock)
	if errors.Is(ctx.Err(), context.Canceled) {
		return checks.CannotTell(ReasonInterrupted, "the run was interrupted")
	}
	if !c.looked.IsZero() {
		in.Watched = in.Now.Sub(c.looked)
	}
	c.looked = in.Now
	found := c.judge(ctx, last, in)
	if in.ChassisError != nil && in.SensorsError != nil && in.LogError != nil {
		c.Close() // a new one may help
	}
	c.options.Metrics.record(found, in)
	return result(found)
}

// remembered returns what is remembered of former runs.
func (c *Check) remembered(ctx context.Context) verdict.State {
	if c.unsaved {
		return *c.state
	}
	state, err := c.options.Store.Load()
	if err != nil {
		klog.FromContext(ctx).Error(err, "What is remembered of the hardware can't be used: the System Event Log is read anew, acknowledgements are lost")
		if c.state == nil {
			return verdict.Forgotten()
		}
		return *c.state
	}
	return state
}

// judge judges what was read and remembers what has to be. What the store has by
// now counts, as somebody may have acknowledged a failure; without it, last does.
func (c *Check) judge(ctx context.Context, last verdict.State, in verdict.Input) (found verdict.Verdict) {
	judge := func(state verdict.State) verdict.State {
		var next verdict.State
		found, next = verdict.Judge(c.options.Rules, state, in)
		c.state = &next
		return next
	}
	err := c.options.Store.replace(func(stored verdict.State, usable bool) verdict.State {
		if c.unsaved || !usable {
			stored = last
		}
		return judge(stored)
	})
	c.unsaved = err != nil
	if err != nil {
		if found.Status == "" { // not even that far
			judge(last)
		}
		klog.FromContext(ctx).Error(err, "What is remembered of the hardware is kept in memory only")
	}
	return found
}

// Read reads a BMC, after the cursor of state: first the SEL, so that what happens
// meanwhile is seen by the sensors. A slow one must leave them half of the time. Who has
// made the BMC is asked until it is known; without it parts are named less well.
func Read(ctx context.Context, source ipmi.Source, state verdict.State, bootID string, now clock.PassiveClock) verdict.Input {
	in := verdict.Input{BootID: bootID}
	if !state.KnowsBMC() {
		if id, err := identify(ctx, source); err == nil {
			in.BMC = &id
		}
	}
	in.Log, in.LogError = readLog(ctx, source, state)
	in.Chassis, in.ChassisError = source.Chassis(ctx)
	in.Sensors, in.SensorsError = source.Sensors(ctx)
	in.Now = now.Now()
	return in
}

func identify(ctx context.Context, source ipmi.Source) (ipmi.DeviceID, error) {
	ctx, cancel := partOf(ctx, 4)
	defer cancel()
	return source.DeviceID(ctx)
}

func readLog(ctx context.Context, source ipmi.Source, state verdict.State) (ipmi.EventLog, error) {
	ctx, cancel := partOf(ctx, 2)
	defer cancel()
	return source.Events(ctx, state.Cursor())
}

// partOf returns a context that ends after that part of the time that ctx has left.
func partOf(ctx context.Context, part time.Duration) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)/part)
	}
	return context.WithCancel(ctx)
}

func result(v verdict.Verdict) checks.Result {
	switch v.Status {
	case verdict.Healthy:
		return checks.Healthy(v.Reason, v.Message)
	case verdict.Failed:
		return checks.Problem(v.Reason, v.Message)
	default:
		return checks.CannotTell(v.Reason, v.Message)
	}
}
