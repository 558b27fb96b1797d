package command

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
)

// Mode says how commands are executed.
type Mode string

const (
	// Auto takes a transient unit where systemd answers, and else runs directly.
	Auto Mode = "Auto"
	// TransientUnit executes nothing where systemd does not answer.
	TransientUnit Mode = "TransientUnit"
	// Direct never asks systemd.
	Direct Mode = "Direct"
)

// Options say how commands reach the host.
type Options struct {
	// Dialer reaches the node's systemd.
	Dialer systemd.Dialer
	// Execution is Auto if empty.
	Execution Mode
	// Dir is an absolute path of a directory that is empty after a boot. It is made
	// for root alone if it is not there. If it has the same path on the host, a
	// start that systemd reads too late is refused.
	Dir string
	// HostProc is the proc file system in which process 1 is the host's; /proc if
	// empty.
	HostProc string
	// Cgroup is the mount point of the host's cgroup2; if empty, that of the host's
	// process 1.
	Cgroup string
	// Clock is the real one if nil.
	Clock clock.Clock
}

// Remedy runs commands. It implements remedy.Remedy.
type Remedy struct {
	opts  Options
	ready atomic.Pointer[ready] // for the next Execute; nil if there is none
}

var _ remedy.Remedy = (*Remedy)(nil)

// New returns the remedy.
func New(opts Options) *Remedy {
	if opts.Execution == "" {
		opts.Execution = Auto
	}
	if opts.HostProc == "" {
		opts.HostProc = "/proc"
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	return &Remedy{opts: opts}
}

// Prepare implements remedy.Remedy. It chooses the execution, and asks systemd all that
// Execute needs to know.
func (r *Remedy) Prepare(ctx context.Context, order remedy.Order) (remedy.Prepared, *remedy.Outcome) {
	order.Prepared.Unit = unitName(order.Action)
	direct := remedy.Prepared{Execution: v1alpha1.ExecutionDirect, Unit: order.Prepared.Unit}
	if err := check(order); err != nil {
		return remedy.Prepared{}, notExecuted(err.Error())
	}
	if r.opts.Execution == Direct {
		return direct, nil
	}
	r.forget()
	ready, err := r.makeReady(ctx, order, time.Time{})
	if err == nil {
		r.keep(ctx, ready)
		if err := checkText(order); err != nil {
			return remedy.Prepared{}, notExecuted(err.Error())
		}
		return remedy.Prepared{Execution: v1alpha1.ExecutionTransientUnit, Unit: order.Prepared.Unit}, nil
	}
	if r.opts.Execution == TransientUnit {
		return remedy.Prepared{}, unreachable(err)
	}
	direct.Note = "executed directly, since " + oneLine(err)
	return direct, nil
}

// Execute implements remedy.Remedy. StartFailed means that not one instruction of
// the command was executed.
func (r *Remedy) Execute(ctx context.Context, order remedy.Order) *remedy.Outcome {
	if order.Prepared.Execution != v1alpha1.ExecutionDirect {
		return r.executeUnit(ctx, order)
	}
	outcome := r.executeDirect(ctx, order)
	if note := order.Prepared.Note; note != "" {
		outcome.Message += "; " + note
	}
	return outcome
}

// Adopt implements remedy.Remedy. A command that ran directly has ended with its
// runner.
func (r *Remedy) Adopt(ctx context.Context, order remedy.Order) *remedy.Outcome {
	if order.Prepared.Execution != v1alpha1.ExecutionDirect {
		return r.adoptUnit(ctx, order)
	}
	return r.adoptDirect(ctx, order)
}

// Clean implements remedy.Remedy.
func (r *Remedy) Clean(ctx context.Context, order remedy.Order) error {
	name := unitOf(order)
	// First of all, since systemd then starts nothing any more.
	if err := removePipe(r.pipePath(name)); err != nil {
		return err
	}
	if order.Prepared.Execution != v1alpha1.ExecutionDirect {
		return errors.Join(r.removePrinted(name), r.cleanUnit(ctx, order))
	}
	return removeGroup(ctx, r.directGroup(name))
}

// argv is what is executed. A script gets the action's name as its $0.
func argv(order remedy.Order) []string {
	if script := order.Step.Command.Script; script != "" {
		return []string{"/bin/sh", "-c", script, order.Action}
	}
	return order.Step.Command.Argv
}
