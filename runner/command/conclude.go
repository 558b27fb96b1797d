package command

import (
	"context"
	"fmt"
	"syscall"

	"github.com/coreos/go-systemd/v22/dbus"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
)

// conclude kills what is left of the unit, without stopping it: as long as it is not
// stopped, a later process can read the same end.
func (r *Remedy) conclude(ctx context.Context, order remedy.Order, l *link, out *pipe, s state) *remedy.Outcome {
	if failed := r.startFailure(order, s); failed != nil {
		return failed
	}
	remedy.Reached(ctx, "ended")
	left := r.unitGroup(l.unit, s.group)
	alone := left != "" && !left.Populated()
	err := tell(ctx, l, func(ctx context.Context, conn *systemd.Conn) error {
		return conn.KillUnitWithTarget(ctx, l.unit, dbus.All, int32(syscall.SIGKILL))
	})
	if ctx.Err() != nil {
		return nil
	}
	if err != nil && !systemd.Refused(err) {
		left.Kill()
	}
	gone := left.Clear(ctx, goneWithin)
	e := s.ending(uptime())
	if !s.ended() {
		e = r.afterKill(ctx, l, s)
	}
	if e.stuck && gone && left != "" {
		e.stuck, e.signal = false, syscall.SIGKILL // only systemd has not seen it go
	}
	outcome := with(e.outcome(v1alpha1.ExecutionTransientUnit), out, alone && e.exited())
	switch _, sure := s.executed(); {
	case !gone && !e.stuck:
		outcome.Message += "; a process that it left behind was killed and does not go: it hangs in a system call (state D)"
	case !sure:
		outcome.Message += "; that can also be what systemd says of a command that it could not execute: see journalctl -u " + l.unit
	}
	remedy.Reached(ctx, "outcome")
	return outcome
}

// afterKill returns the ending of a command that the runner has killed, since systemd
// had not ended it: perhaps it had ended by itself before, and systemd had only been too
// slow to see it.
func (r *Remedy) afterKill(ctx context.Context, l *link, s state) ending {
	r.pause(ctx, l, lookEvery)
	if now, err := l.look(ctx); err == nil && now.exitedAt != 0 {
		s = now
	}
	e := s.ending(uptime())
	if e.signal == syscall.SIGKILL {
		e.cause = timedOut
	}
	return e
}

// startFailure returns the outcome of a unit whose command was not executed, and nil
// if it was, or may have been.
func (r *Remedy) startFailure(order remedy.Order, s state) *remedy.Outcome {
	yes, sure := s.executed()
	if yes && sure {
		return nil
	}
	program := argv(order)[0]
	if s.status == statusExec && s.code == codeExited {
		if err := whyNotExecutable(r.opts.HostProc, program); err != nil {
			return startFailed(program, err)
		}
	}
	switch {
	case yes:
		return nil
	case s.endlessStart():
		return startFailed(program, errNoStart)
	default:
		return startFailed(program, fmt.Errorf("systemd reports the result %q and exit status %d, see systemctl status %s", s.result, s.status, unitOf(order)))
	}
}

// giveUp ends an order whose systemd has not answered for so long that the command
// should have ended.
func (r *Remedy) giveUp(ctx context.Context, order remedy.Order, out *pipe, err error) *remedy.Outcome {
	name := unitOf(order)
	now := r.opts.Clock.Now()
	why := oneLine(err)
	if err := removePipe(r.pipePath(name)); err != nil {
		why += "; " + oneLine(err)
	}
	if left := r.unitGroup(name, ""); !isOurselves(name) && left.Populated() {
		e := ending{cause: timedOut, started: order.StartedAt, took: now.Sub(order.StartedAt), signal: syscall.SIGKILL, stuck: !left.Clear(ctx, goneWithin)}
		outcome := with(e.outcome(v1alpha1.ExecutionTransientUnit), out, false)
		outcome.Message += "; the runner killed it, since " + why
		return outcome
	}
	return with(unknown(order, now, why), out, false)
}
