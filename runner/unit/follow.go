package unit

import (
	"context"
	"fmt"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// pollInterval is how often the unit is looked at: signals may be lost.
	pollInterval = 500 * time.Millisecond
	// settleTime is how long a unit has to stay active.
	settleTime = time.Second
	// killGrace is how long after the timeout, within deadline.EndGrace, a killed
	// unit may take to be active again. What is then still under way has to be ended.
	killGrace = 18 * time.Second
)

// follower follows one restart to its end.
type follower struct {
	Options
	ending
	conn      *systemd.Conn // nil: to be dialled
	id        uint32        // systemd's job for the restart; 0: not known
	jobs      chan string   // gets the job's result
	startedAt time.Time
	deadline  time.Time
}

func (f *follower) close() {
	if f.conn != nil {
		f.conn.Close()
		f.conn = nil
	}
}

// begin looks at the unit before the restart.
func (f *follower) begin(ctx context.Context) error {
	err := f.connect(ctx)
	if err != nil {
		return err
	}
	if err := f.forgive(ctx); err != nil {
		return err
	}
	f.prior, err = f.look(ctx)
	if err != nil {
		return fmt.Errorf("systemd does not tell about %s: %w", f.unit, err)
	}
	f.before, f.mainPID, f.restarts = f.prior.invocation, f.prior.mainPID, f.prior.restarts
	return nil
}

// forgive makes systemd forget how often the unit has failed and was started: one
// that was given up (start-limit-hit) could not be started else.
func (f *follower) forgive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(f.patience(), answerTime))
	defer cancel()
	if err := f.conn.ResetFailedUnitContext(ctx, f.unit); err != nil && !systemd.Refused(err) {
		return fmt.Errorf("systemd does not answer about %s: %w", f.unit, err)
	}
	return nil
}

// restart asks for the restart. The job's result will be sent to jobs.
func (f *follower) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, f.patience())
	defer cancel()
	id, err := f.conn.RestartUnitContext(ctx, f.unit, "replace", f.jobs)
	if err == nil {
		f.accepted, f.id = true, uint32(id)
	}
	return err
}

// outcome waits until the restart is over or has to be given up. It returns nil when
// ctx has ended before.
func (f *follower) outcome(ctx context.Context) *remedy.Outcome {
	s, over := f.waitForJob(ctx)
	if !over && ctx.Err() == nil {
		f.overdue = true
		if f.seen && f.id != 0 {
			s, over = f.end(ctx, s)
		}
	}
	f.first, f.last = s, s
	f.took = f.Clock.Since(f.startedAt)
	if over {
		f.settle(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	reason, message := f.judge()
	return &remedy.Outcome{Reason: reason, Message: message, Result: f.result(reason)}
}

// waitForJob waits until no job of ours for the unit is under way. It is not over when
// the deadline has passed, or ctx has ended.
func (f *follower) waitForJob(ctx context.Context) (last state, over bool) {
	for {
		s, err := f.look(ctx)
		ours := false
		if err == nil {
			ours, err = f.isOurs(ctx, s)
		}
		f.seen = err == nil
		if f.seen {
			last = s
			if !ours {
				return last, true
			}
		}
		left := f.until(f.deadline)
		if left <= 0 || !f.wait(ctx, min(left, pollInterval)) {
			return last, false
		}
	}
}

// settle looks at an active unit a last time. For any other it gives the job's result
// time to come.
func (f *follower) settle(ctx context.Context) {
	if !f.first.isUp() {
		if f.job == "" {
			f.wait(ctx, pollInterval)
		}
		return
	}
	end := f.Clock.Now().Add(settleTime)
	for left := settleTime; left > 0; left = f.until(end) {
		if !f.wait(ctx, left) {
			return
		}
	}
	for {
		s, err := f.look(ctx)
		if f.seen = err == nil; f.seen {
			f.last = s
			return
		}
		left := f.until(f.deadline)
		if left <= 0 || !f.wait(ctx, min(left, pollInterval)) {
			return
		}
	}
}

// wait waits for a time, or only until the job's result comes, which it keeps. It
// returns false when ctx has ended.
func (f *follower) wait(ctx context.Context, d time.Duration) bool {
	timer := f.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case f.job = <-f.jobs:
	case <-timer.C():
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// look asks systemd for the unit's state, on a new connection if the last one has
// failed: the restart may have been that of the message bus.
func (f *follower) look(ctx context.Context) (state, error) {
	if err := f.connect(ctx); err != nil {
		return state{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, min(f.patience(), answerTime))
	defer cancel()
	properties, err := f.conn.GetAllPropertiesContext(ctx, f.unit)
	if err != nil {
		f.close()
		return state{}, err
	}
	return parse(properties), nil
}

// connect connects to systemd, unless that was done, and makes it remember the unit
// while there is the connection, if it can.
func (f *follower) connect(ctx context.Context) (err error) {
	if f.conn != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, f.patience())
	defer cancel()
	if f.conn, err = f.Dialer.DialBus(ctx); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(ctx, answerTime)
	defer cancel()
	// Between two connections it may have been forgotten.
	f.held = f.conn.RefUnit(ctx, f.unit) == nil && !f.accepted
	return nil
}

// patience is how long systemd may take to answer: until the deadline, but a second
// at least.
func (f *follower) patience() time.Duration { return max(f.until(f.deadline), time.Second) }

func (f *follower) until(t time.Time) time.Duration { return t.Sub(f.Clock.Now()) }

// result returns what the execution gave, nil if nothing is known to be executed.
func (f *follower) result(reason string) *v1alpha1.ActionResult {
	if !v1alpha1.Executed(reason) {
		return nil
	}
	result := &v1alpha1.ActionResult{
		Execution:  v1alpha1.ExecutionSystemd,
		StartedAt:  v1alpha1.NewMicroTime(f.startedAt),
		FinishedAt: v1alpha1.NewMicroTime(f.Clock.Now()),
		Unit:       &v1alpha1.UnitResult{Name: f.unit, MainPIDBefore: f.mainPID},
	}
	if f.seen {
		result.Unit.State = f.last.String()
		result.Unit.MainPIDAfter, result.Unit.InvocationIDAfter = f.last.mainPID, f.last.invocation
	}
	return result
}
