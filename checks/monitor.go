package checks

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/bounded"
)

// ReasonCheckTimeout is reported, with status Unknown, for a run that did not
// return at its deadline.
const ReasonCheckTimeout = "CheckTimeout"

// ReasonCheckPanicked is reported, with status Unknown, for a run that panicked: what no other
// node has must not end all checks of this one.
const ReasonCheckPanicked = "CheckPanicked"

// ReasonStarved is reported, with status Unknown, for a run that would have reported that something
// does not answer in time, while this process itself was not run for much of that time.
const ReasonStarved = "DetectorStarved"

// Late is how long after its deadline a run may still return its own verdict. On a node that
// is short of processor time a run is late that does not hang, and its problem is none the less,
// unless that is a matter of time ([Kind.Timed]).
const Late = 10 * time.Second

// Grace is how long a run may take to return when its monitor is stopped.
const Grace = time.Second

// confirmAfter is when a check runs once more after it was asked to: what was
// seen in the very second in which an action ended proves nothing.
const confirmAfter = 2 * time.Second

// MonitorOptions say when a check runs.
type MonitorOptions struct {
	// Interval between the starts of two runs, up to ten percent shorter at
	// random; of the first two, of any length up to that. A run that takes longer than that is followed by the next one at
	// once. Must be positive.
	Interval time.Duration
	// ProblemInterval, if not zero, is the longest interval while the check does
	// not report health.
	ProblemInterval time.Duration
	// StartupGrace is how long after the node has booted problems are not
	// reported, as parts of it may still be starting.
	StartupGrace time.Duration
	// Boot is when the node has booted, by Clock.
	Boot time.Time
	// Rand returns random numbers in [0, 1). Required.
	Rand func() float64
	// Clock measures all times. Required.
	Clock clock.Clock
	// Metrics records every run. Required.
	Metrics *Metrics
}

// Monitor runs one check at its interval.
//
// A run that ignores its deadline is reported once as Unknown; after that the
// monitor stays silent until the run has returned, so that the condition's
// heartbeat ages. What such a run returns is discarded.
type Monitor struct {
	kind    Kind
	check   Check
	options MonitorOptions

	demanded chan struct{}
	// progress is when the last report was handed over; nil before Run.
	progress atomic.Pointer[time.Time]
}

// NewMonitor returns a monitor for a check of this kind.
func NewMonitor(kind Kind, check Check, options MonitorOptions) *Monitor {
	return &Monitor{kind: kind, check: check, options: options, demanded: make(chan struct{}, 1)}
}

// ConditionTypes are the node conditions that the monitor reports.
func (m *Monitor) ConditionTypes() []string { return []string{m.kind.ConditionType} }

// String names the monitor in NPD's logs.
func (m *Monitor) String() string { return m.kind.Name }

// Trigger makes the check run at once, or right after the run that is under way,
// and once more soon afterwards. It does not wait for that.
func (m *Monitor) Trigger() {
	select {
	case m.demanded <- struct{}{}:
	default:
	}
}

// Healthy returns an error if the monitor has not handed over a report for much
// longer than its interval and timeout explain: its check hangs and ignores its
// deadline, or nobody takes its reports.
func (m *Monitor) Healthy() error {
	last := m.progress.Load()
	if last == nil {
		return nil
	}
	limit := max(time.Minute, 3*(m.options.Interval+m.check.Timeout()))
	if age := m.options.Clock.Since(*last); age > limit {
		return fmt.Errorf("check %s has reported nothing for %s: its run hangs in spite of its deadline of %s, or its reports are not taken",
			m.kind.Name, age.Round(time.Second), m.check.Timeout())
	}
	return nil
}

func (m *Monitor) advance() {
	now := m.options.Clock.Now()
	m.progress.Store(&now)
}

// Run runs the check at its interval, the first time at once, until ctx ends, which
// also carries the logger. A run that does not return within [Grace] of that is
// abandoned.
func (m *Monitor) Run(ctx context.Context, send Send) error {
	ctx = klog.NewContext(ctx, klog.FromContext(ctx).WithValues("check", m.kind.Name))
	m.advance()
	m.loop(ctx, send)
	return nil
}

func (m *Monitor) loop(ctx context.Context, send Send) {
	demanded := false
	jitter := 1.0 // checks that start together, on all nodes, do not stay together
	for ctx.Err() == nil {
		r := m.begin(ctx)
		result, returned := m.await(ctx, r)
		if ctx.Err() != nil {
			m.leave(ctx, r, returned)
			return
		}
		m.options.Metrics.record(m.kind.Name, r.started, m.options.Clock.Since(r.started), result.Status)
		if result.Status == True && m.options.Clock.Since(m.options.Boot) < m.options.StartupGrace {
			klog.FromContext(ctx).V(1).Info("Problem is not reported yet: the node has just booted", "reason", result.Reason, "message", result.Message)
			m.advance()
		} else {
			m.report(r.started, result, send)
		}
		if !returned {
			klog.FromContext(ctx).Error(nil, "Check ignores its deadline; it is not run again before it has returned",
				"timeout", m.check.Timeout())
			select {
			case <-r.result:
				klog.FromContext(ctx).Info("Check has returned at last", "took", m.options.Clock.Since(r.started))
			case <-ctx.Done():
				m.leave(ctx, r, false)
				return
			}
		}
		next := m.options.Interval
		if p := m.options.ProblemInterval; p > 0 && result.Status != False {
			next = min(next, p)
		}
		next = time.Duration(float64(next) * (1 - jitter*m.options.Rand()))
		jitter = 0.1
		if demanded {
			next = min(next, confirmAfter)
		}
		demanded = m.pause(ctx, next-m.options.Clock.Since(r.started))
	}
}

// run is one run of the check, on a goroutine of its own since it may hang.
type run struct {
	started time.Time
	result  chan Result
	pulse   *pulse
	// rest ends the pulse.
	rest context.CancelFunc
}

func (m *Monitor) begin(ctx context.Context) run {
	awake, rest := context.WithCancel(ctx)
	r := run{started: m.options.Clock.Now(), result: make(chan Result, 1), rest: rest}
	r.pulse = startPulse(awake, m.options.Clock)
	ctx, cancel := context.WithTimeout(ctx, m.check.Timeout())
	go func() {
		defer cancel()
		r.result <- Guarded(ctx, m.kind, m.check)
	}()
	return r
}

// Guarded runs a check once. If it panics, the result is that it can't tell.
func Guarded(ctx context.Context, kind Kind, check Check) (result Result) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		p, elsewhere := cause.(bounded.Panic)
		if !elsewhere {
			p = bounded.Panic{Value: cause, Stack: debug.Stack()}
		}
		klog.FromContext(ctx).Error(nil, "Check panicked", "check", kind.Name, "panic", p.Value, "stack", string(p.Stack))
		result = CannotTell(ReasonCheckPanicked, fmt.Sprintf("check %s panicked, which is a bug of Nodemend; its log has more: %v", kind.Name, p.Value))
	}()
	return check.Run(ctx)
}

// await waits for the result of r until Late after its deadline. returned is
// false if it has not come by then, or if the monitor is being stopped.
func (m *Monitor) await(ctx context.Context, r run) (result Result, returned bool) {
	defer r.rest()
	limit := m.options.Clock.NewTimer(m.check.Timeout() + Late)
	defer limit.Stop()
	select {
	case result = <-r.result:
		switch late, starved := r.pulse.starved(); {
		case result.Status == False && m.options.Clock.Since(r.started) >= m.check.Timeout():
			result = m.timedOut("ended only after its deadline")
		case result.Status == True && starved && slices.Contains(m.kind.Timed, result.Reason):
			result = CannotTell(ReasonStarved, fmt.Sprintf("the detector itself was not run for %s of the %s that it has waited, so this may not be the fault of others: %s",
				late.Round(beat), m.options.Clock.Since(r.started).Round(beat), result.Message))
		}
		return result, true
	case <-limit.C():
		return m.timedOut("has not returned at its deadline"), false
	case <-ctx.Done():
		return Result{}, false
	}
}

func (m *Monitor) timedOut(what string) Result {
	return CannotTell(ReasonCheckTimeout, fmt.Sprintf("check %s %s of %s", m.kind.Name, what, m.check.Timeout()))
}

// report hands over what the run that began then has found.
func (m *Monitor) report(started time.Time, result Result, send Send) {
	if send(&Report{
		Source: m.kind.Name,
		Observations: []Observation{{
			Type:    m.kind.ConditionType,
			Status:  result.Status,
			At:      started,
			Reason:  result.Reason,
			Message: result.Message,
		}},
	}) {
		m.advance()
	}
}

// leave gives a run that is under way at shutdown a last chance to return.
func (m *Monitor) leave(ctx context.Context, r run, returned bool) {
	if returned {
		return
	}
	limit := m.options.Clock.NewTimer(Grace)
	defer limit.Stop()
	select {
	case <-r.result:
	case <-limit.C():
		klog.FromContext(ctx).Info("Check is abandoned at shutdown: it does not return", "running", m.options.Clock.Since(r.started))
	}
}

// pause waits for the next run. It returns whether that is since it was demanded.
func (m *Monitor) pause(ctx context.Context, d time.Duration) (demanded bool) {
	timer := m.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-m.demanded:
		return true
	default: // the timer may be due, too
	}
	select {
	case <-m.demanded:
		return true
	case <-timer.C():
	case <-ctx.Done():
	}
	return false
}
