// Package reboot reboots the node and, since a runner does not outlive that,
// tells the next one what it means that the node runs with another boot ID.
//
// Method SysRq writes to the kernel's trigger itself: no program that could hang
// is involved. Method Systemd starts reboot.target, irreversibly, as logind does
// in the end for `systemctl reboot`, and as that does itself where there is no
// logind. Since logind is not asked, nobody's inhibitor holds the reboot back: not
// that of a login session, and not the delay in which the kubelet's graceful node
// shutdown would end the pods one by one. systemd stops all units in their order,
// the kubelet's and the pods' scopes too.
//
// A reboot happens once and can't be taken back. One that does not happen
// within the step's timeout is reported as such.
package reboot

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/boot"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// DefaultTrigger takes commands for the kernel, a byte each (sysrq.rst of the
	// kernel's administration guide). Whoever may write to it is not held back by
	// the setting kernel.sysrq.
	DefaultTrigger = "/proc/sysrq-trigger"
)

// Options say how the node is rebooted.
type Options struct {
	// Dialer connects to the node's systemd.
	Dialer systemd.Dialer
	// RunDir is the directory of the runner's ledger, where a reboot by SysRq notes down that
	// it has begun.
	RunDir string
	// Trigger is the file of the kernel's magic SysRq. Default: DefaultTrigger.
	Trigger string
	// Sync has the disks written. Default: sync(2).
	Sync func()
	// BootIDPath is the file that holds the boot ID. Default: boot.IDPath.
	BootIDPath string
	// Clock measures the timeout. Default: the real one.
	Clock clock.Clock
}

// Reboot is the remedy reboot.
type Reboot struct{ opts Options }

var _ remedy.Remedy = (*Reboot)(nil)

// New returns the remedy.
func New(opts Options) *Reboot {
	if opts.Trigger == "" {
		opts.Trigger = DefaultTrigger
	}
	if opts.BootIDPath == "" {
		opts.BootIDPath = boot.IDPath
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	if opts.Sync == nil {
		opts.Sync = unix.Sync
	}
	return &Reboot{opts}
}

// Prepare sees that the kernel's trigger can be written to, or that systemd
// answers.
func (r *Reboot) Prepare(ctx context.Context, order remedy.Order) (remedy.Prepared, *remedy.Outcome) {
	prepared := remedy.Prepared{Execution: execution(order.Step.Reboot)}
	if prepared.Execution == v1alpha1.ExecutionSystemd {
		conn, err := r.opts.Dialer.Dial(ctx)
		if err != nil {
			return remedy.Prepared{}, startFailed(fmt.Sprintf("%v: repair it, or choose the method SysRq, which does without it", err))
		}
		conn.Close()
		return prepared, nil
	}
	file, err := os.OpenFile(r.opts.Trigger, os.O_WRONLY, 0)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return remedy.Prepared{}, startFailed(fmt.Sprintf("the kernel's SysRq can't be used: %v: the runner's pod must be privileged, or choose the method Systemd", err))
	}
	prepared.Marks = true
	return prepared, nil
}

// execution is the way in which a step reboots.
func execution(step *v1alpha1.RebootRemedy) v1alpha1.Execution {
	if step.Method == v1alpha1.RebootSystemd {
		return v1alpha1.ExecutionSystemd
	}
	return v1alpha1.ExecutionSysRq
}

// Execute asks for the reboot and waits for it. It returns nil when ctx ends, as
// it does when systemd stops the runner on the way down. The exception is a
// sequence of SysRq that has begun: it goes on to its end, since a node that it leaves
// halfway would have file systems that are read-only and no reboot. That takes 4 s,
// or up to 24 s where disks and consoles hang.
func (r *Reboot) Execute(ctx context.Context, order remedy.Order) *remedy.Outcome {
	if ctx.Err() != nil {
		return &remedy.Outcome{Reason: v1alpha1.ReasonNotStarted, Message: "the runner stopped before it asked for the reboot; nothing was executed"}
	}
	if order.Prepared.Execution == v1alpha1.ExecutionSystemd {
		return r.bySystemd(ctx, order)
	}
	return r.bySysRq(ctx, order, false)
}

// Adopt waits for the reboot that another process has asked for, or was about to. One
// by SysRq that has begun it brings to its end, from the first command on: a node whose runner
// was killed halfway would have file systems that are read-only for ever. That is no second
// reboot, since the node runs with the boot ID that it had when the order was made. One that
// has not begun is not begun now: it may have been forbidden or withdrawn since. Where
// nobody can tell, or after the timeout, when something else may be under way, it asks
// for nothing.
func (r *Reboot) Adopt(ctx context.Context, order remedy.Order) *remedy.Outcome {
	id, err := boot.ID(r.opts.BootIDPath)
	if err == nil && id != order.BootID {
		return new(booted(order.Prepared.Execution, order.BootID, id, order.StartedAt, r.opts.Clock.Now()))
	}
	if err == nil && order.Prepared.Marks && !r.begun(order) {
		return &remedy.Outcome{
			Reason:  v1alpha1.ReasonNotStarted,
			Message: "a runner that has stopped was about to reboot the node and had not begun to make its disks read-only; nothing was executed",
		}
	}
	if err == nil && order.Prepared.Execution == v1alpha1.ExecutionSysRq && r.left(order) > 0 && ctx.Err() == nil {
		return r.bySysRq(ctx, order, true)
	}
	asked := "a runner that has stopped had asked for the reboot or was about to"
	if err != nil {
		asked += fmt.Sprintf(" (%v)", err)
	}
	return r.awaitEnd(ctx, order, asked)
}

// Clean removes the note of a reboot that has begun and did not happen.
func (r *Reboot) Clean(_ context.Context, order remedy.Order) error {
	if !order.Prepared.Marks || !r.begun(order) {
		return nil
	}
	return os.Remove(r.mark())
}

// Rebooted is the outcome of a claimed reboot on a node that runs with another
// boot ID now. That it does is for the caller to know. The ledger has gone with the
// boot, so the step says how the node was rebooted; nil: nobody knows any more.
func Rebooted(claim v1alpha1.Claim, step *v1alpha1.Step, bootIDNow string, now time.Time) remedy.Outcome {
	var by v1alpha1.Execution
	if step != nil && step.Reboot != nil {
		by = execution(step.Reboot)
	}
	return booted(by, claim.BootID, bootIDNow, claim.Time.Time, now)
}

func booted(by v1alpha1.Execution, before, after string, since, now time.Time) remedy.Outcome {
	return remedy.Outcome{
		Reason: v1alpha1.ReasonSucceeded,
		// Two clocks are compared here, so don't say that it took less than nothing.
		Message: fmt.Sprintf("the node has booted: boot ID %s -> %s, %.0f s after the claim", before, after, max(0, now.Sub(since).Seconds())),
		Result: &v1alpha1.ActionResult{
			Execution: by, BootIDAfter: after,
			StartedAt: v1alpha1.NewMicroTime(since), FinishedAt: v1alpha1.NewMicroTime(now),
		},
	}
}

// awaitEnd waits for the node to go down, which ends ctx or the process, until
// the timeout has passed. asked says what was done about it.
func (r *Reboot) awaitEnd(ctx context.Context, order remedy.Order, asked string) *remedy.Outcome {
	if left := r.left(order); left > 0 {
		timer := r.opts.Clock.NewTimer(left)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
		}
	}
	return r.notObserved(order, fmt.Sprintf("%s, and %s later", asked, order.Step.Timeout.Duration))
}

// left is the time until the timeout; never more than that, whatever becomes of
// the node's clock.
func (r *Reboot) left(order remedy.Order) time.Duration {
	timeout := order.Step.Timeout.Duration
	return min(order.StartedAt.Add(timeout).Sub(r.opts.Clock.Now()), timeout)
}

func (r *Reboot) notObserved(order remedy.Order, what string) *remedy.Outcome {
	return &remedy.Outcome{
		Reason:  v1alpha1.ReasonRebootNotObserved,
		Message: fmt.Sprintf("%s this node still runs with boot ID %s: look at its console, and reset it by its BMC if need be", what, order.BootID),
		Result: &v1alpha1.ActionResult{
			Execution: order.Prepared.Execution,
			StartedAt: v1alpha1.NewMicroTime(order.StartedAt), FinishedAt: v1alpha1.NewMicroTime(r.opts.Clock.Now()),
		},
	}
}

func startFailed(why string) *remedy.Outcome {
	return &remedy.Outcome{Reason: v1alpha1.ReasonStartFailed, Message: why + "; nothing was executed"}
}
