package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
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
	name, timeout, began := unitOf(order), order.Step.Timeout.Duration, r.opts.Clock.Now()
	path := r.pipePath(name)
	ready, err := r.getReady(ctx, order, began.Add(timeout+endGrace))
	if err != nil {
		return unreachable(err)
	}
	l := ready.link
	defer l.close()
	if err := makePipe(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return notExecuted(oneLine(err))
	}
	out, write, err := openPipe(path, order.Output)
	if err != nil {
		return notExecuted(oneLine(err))
	}
	defer out.close()
	same, err := sameOnHost(r.opts.HostProc, path)
	if err != nil {
		_ = write.Close()
		return notExecuted(oneLine(err)) // nothing would keep a late start from happening
	}
	permit := ""
	if same {
		permit = path
	}
	// What a slow systemd has taken until now is not given to the command.
	timeout -= r.opts.Clock.Since(began).Truncate(time.Second)
	if timeout <= 0 {
		_ = write.Close()
		return unreachable(fmt.Errorf("systemd takes longer to answer than the step's timeout of %s", order.Step.Timeout.Duration))
	}

	remedy.Reached(ctx, "before-start")
	err = tell(ctx, l, func(ctx context.Context, conn *systemd.Conn) error {
		defer func() { _ = write.Close() }() // systemd has it
		_, err := conn.StartTransientUnitContext(ctx, name, "fail", properties(order, timeout, ready.inherited, write, permit), nil)
		return err
	})
	remedy.Reached(ctx, "after-start")
	if systemd.Refused(err) && !named(err, unitExists) {
		return notExecuted(fmt.Sprintf("systemd refuses to start %s: %s: is it older than version 244? Then let the runner execute commands directly", name, oneLine(err)))
	}
	if named(err, unitExists) {
		if s, err := l.look(ctx); err == nil && s.strange(order) {
			_ = removePipe(path) // or Clean does
			return notExecuted(fmt.Sprintf("systemd has a unit %s that is not of this action: remove it", name))
		}
	}
	if err == nil {
		r.pause(ctx, l, lookEvery) // a look now would only delay the start
	}
	// Without an answer the unit may be there or not: it is looked for.
	return r.follow(ctx, order, l, out)
}

// adoptUnit waits for the end of a unit that another process may have started.
func (r *Remedy) adoptUnit(ctx context.Context, order remedy.Order) *remedy.Outcome {
	name := unitOf(order)
	l := newLink(r.opts.Dialer, name)
	defer l.close()
	// Without its pipe there is no output.
	out, _ := readPipe(r.pipePath(name), r.takeUp(name, order.Output))
	defer out.close()

	// As long as systemd does not tell when it started the command, only the wall clock
	// does.
	timeout := order.Step.Timeout.Duration
	left := min(max(order.StartedAt.Add(timeout).Sub(r.opts.Clock.Now()), 0), timeout)
	l.deadline = r.opts.Clock.Now().Add(left + endGrace)
	if s, err := l.look(ctx); err == nil && s.startedAt != 0 {
		l.deadline = r.opts.Clock.Now().Add(s.left(timeout, uptime()) + endGrace)
	}
	return r.follow(ctx, order, l, out)
}

// follow waits for the end of the unit. It returns nil at the end of ctx, which
// leaves the unit, and what it has printed, to a later process.
func (r *Remedy) follow(ctx context.Context, order remedy.Order, l *link, out *pipe) *remedy.Outcome {
	outcome := r.followToEnd(ctx, order, l, out)
	if outcome == nil {
		r.leave(ctx, l.unit, out)
	}
	return outcome
}

func (r *Remedy) followToEnd(ctx context.Context, order remedy.Order, l *link, out *pipe) *remedy.Outcome {
	revoked := false
	for {
		s, err := l.look(ctx)
		late := !r.opts.Clock.Now().Before(l.deadline)
		pause := lookEvery
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && late:
			return r.giveUp(ctx, order, out, err)
		case err != nil:
			pause = retryEvery
		case !s.absent() && s.strange(order):
			return with(unknown(order, r.opts.Clock.Now(), "systemd's unit "+l.unit+" is not of this action"), out, false)
		case s.absent() && revoked:
			return with(unknown(order, r.opts.Clock.Now(), "systemd knows no unit "+l.unit+" (any more), and will not start it later"), out, false)
		case s.absent():
			// A request may still be on its way to systemd.
			if err := removePipe(r.pipePath(l.unit)); err != nil {
				return with(unknown(order, r.opts.Clock.Now(), oneLine(err)), out, false)
			}
			revoked = true
			continue
		case s.ended():
			return r.conclude(ctx, order, l, out, s)
		case late && !revoked: // systemd can't end it, or has not even begun it and must not any more
			if err := removePipe(r.pipePath(l.unit)); err != nil {
				return with(unknown(order, r.opts.Clock.Now(), oneLine(err)), out, false)
			}
			revoked = true
			continue // it may have begun since it was looked at
		case late:
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

// cleanUnit makes systemd forget the unit.
func (r *Remedy) cleanUnit(ctx context.Context, order remedy.Order) error {
	name := unitOf(order)
	l := newLink(r.opts.Dialer, name)
	defer l.close()
	s, err := l.look(ctx)
	if err != nil {
		return fmt.Errorf("looking for the command's unit %s: %w", name, err)
	}
	if s.strange(order) {
		return nil
	}
	err = tell(ctx, l, func(ctx context.Context, conn *systemd.Conn) error {
		_, err := conn.Await(ctx, func(stopped chan<- string) (int, error) {
			return conn.StopUnitContext(ctx, name, "replace", stopped)
		})
		return err
	})
	if err == nil || systemd.Refused(err) {
		err = tell(ctx, l, func(ctx context.Context, conn *systemd.Conn) error {
			return conn.ResetFailedUnitContext(ctx, name)
		})
	}
	if err != nil && !systemd.Refused(err) { // it refuses what it does not know
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

// named reports whether an error is systemd's answer of this name.
func named(err error, name string) bool {
	answer, ok := errors.AsType[godbus.Error](err)
	return ok && answer.Name == name
}
