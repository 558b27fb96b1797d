package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/runner/systemd"
)

const (
	// lookEvery is how often the unit is looked at, since a message of its end may
	// be lost.
	lookEvery = time.Second
	// retryEvery is the pause before systemd is asked again after it has failed.
	retryEvery = 200 * time.Millisecond
	// endGrace is how long after the timeout systemd may take to end a command:
	// stopGrace, killGrace and a bit.
	endGrace = 12 * time.Second

	unitExists = "org.freedesktop.systemd1.UnitExists"
)

// executeUnit asks systemd once to start the command, and waits for its end.
func (r *Remedy) executeUnit(ctx context.Context, order remedy.Order) *remedy.Outcome {
	name := unitName(order.Action)
	path := r.pipePath(name)
	l := newLink(r.opts.Dialer, name)
	defer l.close()
	if err := l.subscribe(ctx); err != nil {
		return unreachable(err)
	}
	inherited, err := ask(ctx, l, managerEnvironment)
	if err != nil {
		return unreachable(err)
	}
	if err := makePipe(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return notExecuted(oneLine(err))
	}
	printed := newOutput(order.Output, false)
	out, err := readPipe(path, printed)
	if err != nil {
		return notExecuted(oneLine(err))
	}
	defer out.close()
	write, err := writer(path, !printed.none)
	if err != nil {
		return notExecuted(oneLine(err))
	}
	var permit string
	if sameOnHost(r.opts.HostProc, path) {
		permit = path
	}

	remedy.Reached(ctx, "before-start")
	deadline := r.opts.Clock.Now().Add(order.Step.Timeout.Duration).Add(endGrace)
	err = tell(ctx, l, func(ctx context.Context, conn *systemd.Conn) error {
		defer func() { _ = write.Close() }() // systemd has it
		_, err := conn.StartTransientUnitContext(ctx, name, "fail", properties(order, inherited, write, permit), nil)
		return err
	})
	remedy.Reached(ctx, "after-start")
	if refused(err) && !named(err, unitExists) {
		return notExecuted(fmt.Sprintf("systemd refuses to start %s: %s: is it older than version 244? Then let the runner execute commands directly", name, oneLine(err)))
	}
	if err == nil {
		r.pause(ctx, l, lookEvery) // a look now would only delay the start
	}
	// Without an answer the unit may be there or not: it is looked for.
	return r.follow(ctx, order, l, out, deadline)
}

// adoptUnit waits for the end of a unit that another process may have started.
func (r *Remedy) adoptUnit(ctx context.Context, order remedy.Order) *remedy.Outcome {
	name := unitName(order.Action)
	l := newLink(r.opts.Dialer, name)
	defer l.close()
	// Without its pipe there is no output.
	out, _ := readPipe(r.pipePath(name), newOutput(order.Output, true))
	defer out.close()

	now, timeout := r.opts.Clock.Now(), order.Step.Timeout.Duration
	deadline := order.StartedAt.Add(timeout)
	if deadline.Before(now) {
		deadline = now
	}
	if latest := now.Add(timeout); deadline.After(latest) {
		deadline = latest
	}
	return r.follow(ctx, order, l, out, deadline.Add(endGrace))
}

// follow waits for the end of the unit. It returns nil at the end of ctx, which
// leaves the unit to a later process.
func (r *Remedy) follow(ctx context.Context, order remedy.Order, l *link, out *pipe, deadline time.Time) *remedy.Outcome {
	revoked := false
	for {
		s, err := l.look(ctx)
		late := !r.opts.Clock.Now().Before(deadline)
		pause := lookEvery
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && late:
			return r.giveUp(ctx, order, out, err)
		case err != nil:
			pause = retryEvery
		case s.absent() && revoked:
			return with(unknown(order, r.opts.Clock.Now(), "systemd knows no unit "+l.unit+" (any more), and will not start it later"), out)
		case s.absent():
			// A request may still be on its way to systemd.
			if err := removePipe(r.pipePath(l.unit)); err != nil {
				return with(unknown(order, r.opts.Clock.Now(), oneLine(err)), out)
			}
			revoked = true
			continue
		case s.ended():
			return r.conclude(ctx, order, l, out, s)
		case late: // systemd can't end it, or has not even begun it and must not any more
			if err := removePipe(r.pipePath(l.unit)); err != nil {
				return with(unknown(order, r.opts.Clock.Now(), oneLine(err)), out)
			}
			return r.conclude(ctx, order, l, out, s)
		}
		r.pause(ctx, l, pause)
	}
}

// pause returns after a while, or when there is something to do.
func (r *Remedy) pause(ctx context.Context, l *link, while time.Duration) {
	timer := r.opts.Clock.NewTimer(while)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-l.ended:
	case <-timer.C():
	}
}

// conclude kills what is left of the unit, without stopping it: as long as it is not
// stopped, a later process can read the same end.
func (r *Remedy) conclude(ctx context.Context, order remedy.Order, l *link, out *pipe, s state) *remedy.Outcome {
	if failed := r.startFailure(order, s); failed != nil {
		return failed
	}
	remedy.Reached(ctx, "ended")
	left := r.unitGroup(l.unit, s.group)
	err := tell(ctx, l, func(ctx context.Context, conn *systemd.Conn) error {
		return conn.KillUnitWithTarget(ctx, l.unit, dbus.All, int32(syscall.SIGKILL))
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil && !refused(err) {
		left.kill()
	}
	gone := left.clear(ctx)
	outcome := with(s.ending(r.opts.Clock.Now()).outcome(v1alpha1.ExecutionTransientUnit), out)
	if !gone && s.exitedAt != 0 {
		outcome.Message += "; a process that it left behind was killed and does not go: it hangs in a system call (state D)"
	}
	remedy.Reached(ctx, "outcome")
	return outcome
}

// startFailure returns the outcome of a unit whose command was not executed, and nil
// if it was, or may have been.
func (r *Remedy) startFailure(order remedy.Order, s state) *remedy.Outcome {
	yes, sure := s.executed()
	if yes && sure {
		return nil
	}
	program := argv(order)[0]
	if s.status == statusExec {
		if err := whyNotExecutable(r.opts.HostProc, program); err != nil {
			return startFailed(program, err)
		}
	}
	if yes {
		return nil
	}
	return startFailed(program, fmt.Errorf("systemd reports the result %q and exit status %d, see systemctl status %s", s.result, s.status, unitName(order.Action)))
}

// giveUp ends an order whose systemd has not answered for so long that the command
// should have ended.
func (r *Remedy) giveUp(ctx context.Context, order remedy.Order, out *pipe, err error) *remedy.Outcome {
	name := unitName(order.Action)
	now := r.opts.Clock.Now()
	why := oneLine(err)
	if err := removePipe(r.pipePath(name)); err != nil {
		why += "; " + oneLine(err)
	}
	if left := r.unitGroup(name, ""); left.populated() {
		e := ending{cause: timedOut, started: order.StartedAt, took: now.Sub(order.StartedAt), signal: syscall.SIGKILL, stuck: !left.clear(ctx)}
		outcome := with(e.outcome(v1alpha1.ExecutionTransientUnit), out)
		outcome.Message += "; the runner killed it, since " + why
		return outcome
	}
	return with(unknown(order, now, why), out)
}

// cleanUnit makes systemd forget the unit.
func (r *Remedy) cleanUnit(ctx context.Context, name string) error {
	l := newLink(r.opts.Dialer, name)
	defer l.close()
	stopped := make(chan string, 1)
	err := tell(ctx, l, func(ctx context.Context, conn *systemd.Conn) error {
		_, err := conn.StopUnitContext(ctx, name, "replace", stopped)
		if err != nil {
			return err
		}
		select {
		case <-stopped:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err == nil || refused(err) {
		err = tell(ctx, l, func(ctx context.Context, conn *systemd.Conn) error {
			return conn.ResetFailedUnitContext(ctx, name)
		})
	}
	if err != nil && !refused(err) { // it refuses what it does not know
		return fmt.Errorf("removing the command's unit %s: %w", name, err)
	}
	return nil
}

// managerEnvironment returns what systemd gives to all services.
func managerEnvironment(_ context.Context, conn *systemd.Conn) ([]string, error) {
	text, err := conn.GetManagerProperty("Environment")
	if err != nil {
		return nil, err
	}
	variant, err := godbus.ParseVariant(text, godbus.SignatureOf([]string{}))
	if err != nil {
		return nil, fmt.Errorf("reading the environment of systemd: %w", err)
	}
	env, _ := variant.Value().([]string)
	return env, nil
}
