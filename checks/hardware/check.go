// Package hardware checks the hardware of the server by its baseboard management
// controller (BMC). What is wrong with it is judged by package ipmi/verdict.
package hardware

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/bounded"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/repairnote"
	"github.com/nodemend/nodemend/internal/smbios"
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
	// ReasonForgotten, with Unknown: what is remembered can't be read, since its disk hangs.
	ReasonForgotten = "StateNotReadable"
)

// storeLimit is how long the store may take to read or to write.
const storeLimit = 2 * time.Second

// errStoreHangs says that the store's disk does not answer.
var errStoreHangs = fmt.Errorf("its disk does not answer within %s", storeLimit)

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
	// Machine is what the firmware tells; empty: nothing.
	Machine smbios.Machine
	// Timeout is the deadline of a run.
	Timeout time.Duration
	Clock   clock.PassiveClock
	// Metrics records what is found; nil: nothing does.
	Metrics *Metrics
	// ReportBMC is told, after a run, where the BMC says that it is reached from outside; nil: it is
	// not asked.
	ReportBMC func(power.ReportedBMC)
}

// Check is the check of one server. What it remembers is in its store; if that
// fails, in memory.
type Check struct {
	options Options
	source  ipmi.Source    // nil: to be opened
	state   *verdict.State // nil before the first run
	// looked is when the BMC was read last; zero before the first run.
	looked time.Time
	// bmc is the BMC as it was when something began to be wrong; nil: nothing is, or it is not known.
	bmc *ipmi.DeviceID
	// unsaved is whether state is newer than what the store has, and stored is what it had when it
	// was read or written last.
	unsaved bool
	stored  verdict.State
	// late is closed when the last use of the store that was not waited for any more has ended.
	late <-chan struct{}
	// unreported is why the BMC could not be reported the last time; "": it could.
	unreported string
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
	last, known := c.remembered(ctx)
	if !known {
		return checks.CannotTell(ReasonForgotten, "what is remembered of the hardware can't be read: "+errStoreHangs.Error())
	}
	in := Read(reading, c.source, last, c.options.BootID, c.options.Clock)
	in.Modules = c.options.Machine.Modules
	if errors.Is(ctx.Err(), context.Canceled) {
		return checks.CannotTell(ReasonInterrupted, "the run was interrupted")
	}
	if !c.looked.IsZero() {
		in.Watched = in.Now.Sub(c.looked)
	}
	c.looked = in.Now
	found := c.judge(ctx, last, in)
	note := c.note(reading, found, in)
	c.reportBMC(reading, in)
	if in.ChassisError != nil && in.SensorsError != nil && in.LogError != nil {
		c.Close() // a new one may help
	}
	c.options.Metrics.record(found, in)
	found.Message = repairnote.Join(found.Message, note)
	return result(found)
}

// remembered returns what is remembered of former runs; false if that is not known, since the
// store hangs.
func (c *Check) remembered(ctx context.Context) (state verdict.State, known bool) {
	if c.unsaved {
		return *c.state, true
	}
	state, err := inTime(c, c.options.Store.Load)
	switch {
	case err == nil:
		c.stored = state
		return state, true
	case c.state != nil:
		state = *c.state
	case errors.Is(err, errStoreHangs):
		return state, false
	default:
		state = verdict.Forgotten()
	}
	klog.FromContext(ctx).Error(err, "What is remembered of the hardware can't be used: the System Event Log is read anew, acknowledgements are lost")
	return state, true
}

// judged is a verdict with what is to be remembered of it.
type judged struct {
	found verdict.Verdict
	next  verdict.State
}

// judge judges what was read and remembers what has to be. What the store has by
// now counts, as somebody may have acknowledged a failure; without it, last does.
func (c *Check) judge(ctx context.Context, last verdict.State, in verdict.Input) verdict.Verdict {
	judge := func(state verdict.State) judged {
		found, next := verdict.Judge(c.options.Rules, state, in)
		return judged{found, next}
	}
	unsaved, store, known := c.unsaved, c.options.Store, c.stored
	j, err := inTime(c, func() (j judged, err error) {
		err = store.replace(func(stored verdict.State, usable bool) verdict.State {
			switch {
			case !usable:
				stored = last
			case unsaved:
				stored = last.WithAcknowledgements(stored, known)
			}
			j = judge(stored)
			return j.next
		})
		return j, err
	})
	if err != nil {
		if j.found.Status == "" { // not even that far
			j = judge(last)
		}
		klog.FromContext(ctx).Error(err, "What is remembered of the hardware is kept in memory only")
	}
	if err == nil {
		c.stored = j.next
	}
	c.state, c.unsaved = &j.next, err != nil
	return j.found
}

// inTime calls what uses the store, and returns errStoreHangs if that takes too long. Then it
// goes on by itself, and until it has ended the store is not used again. So it changes nothing
// of the check.
func inTime[T any](c *Check, use func() (T, error)) (value T, err error) {
	if c.late != nil {
		select {
		case <-c.late:
			c.late = nil
		default:
			return value, errStoreHangs
		}
	}
	type answer struct {
		value T
		err   error
	}
	using := bounded.Start(func() answer {
		value, err := use()
		return answer{value, err}
	})
	limit := clock.RealClock{}.NewTimer(storeLimit)
	defer limit.Stop()
	select {
	case <-using.Done():
		a := using.Value()
		return a.value, a.err
	case <-limit.C():
		c.late = using.Done()
		return value, errStoreHangs
	}
}

// Read reads a BMC, after the cursor of state: first the SEL, so that what happens
// meanwhile is seen by the sensors. A slow one must leave them half of the time. Who has
// made the BMC is asked until it is known; without it parts are named less well.
func Read(ctx context.Context, source ipmi.Source, state verdict.State, bootID string, now clock.PassiveClock) verdict.Input {
	in := verdict.Input{BootID: bootID}
	if other, ok := source.(interface{ Kind() string }); ok {
		in.Kind = other.Kind()
	}
	if !state.KnowsBMC() {
		if id, err := identify(ctx, source); err == nil {
			in.BMC = &id
		}
	}
	in.Log, in.LogError = readLog(ctx, source, state)
	in.Chassis, in.ChassisError = source.Chassis(ctx)
	in.Sensors, in.SensorsError = source.Sensors(ctx)
	source.Rest()
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
