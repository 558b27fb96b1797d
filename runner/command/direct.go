package command

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// executeDirect runs the command as a child, and leaves no process of it behind.
func (r *Remedy) executeDirect(ctx context.Context, order remedy.Order) *remedy.Outcome {
	name := unitOf(order)
	path := r.pipePath(name)
	err := makePipe(path)
	if errors.Is(err, fs.ErrExist) {
		return r.adoptDirect(ctx, order) // somebody has begun it
	}
	if err != nil {
		return notExecuted(oneLine(err))
	}
	out, write, err := openPipe(path, order.Output)
	if err != nil {
		return notExecuted(oneLine(err))
	}
	defer out.close()
	files := []*os.File{write}

	words := argv(order)
	cmd := &exec.Cmd{
		Path: words[0], Args: words,
		Dir: "/", Env: append([]string{}, order.Env...),
		Stdout: write, Stderr: write,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	// Without a control group, which takes root to make, what leaves the process
	// group escapes.
	inGroup := r.directGroup(name)
	if dir, err := makeLimited(inGroup); err == nil {
		files = append(files, dir)
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	} else {
		inGroup = ""
	}

	remedy.Reached(ctx, "before-start")
	startedAt := r.opts.Clock.Now()
	child := start(cmd, r.opts.HostProc, inGroup, files...)
	e := child.supervise(ctx, r.opts.Clock, order.Step.Timeout.Duration)
	switch {
	case e.startErr != nil:
		return startFailed(words[0], e.startErr)
	case e.unsure:
		return with(unknown(order, r.opts.Clock.Now(), "the start of the command did not come to an end until it was killed"), out, false)
	}
	end := ending{cause: e.cause, stuck: e.stuck, started: startedAt, took: r.opts.Clock.Since(startedAt)}
	if !e.stuck {
		switch status := cmd.ProcessState.Sys().(syscall.WaitStatus); {
		case status.Signaled():
			end.signal = status.Signal()
		default:
			end.status = status.ExitStatus()
		}
		inGroup.Clear(ctx, goneWithin)
	}
	outcome := with(end.outcome(v1alpha1.ExecutionDirect), out, e.alone && end.exited())
	remedy.Reached(ctx, "outcome")
	return outcome
}

// adoptDirect ends what is left of a command whose runner has gone. Its first
// process has gone with it.
func (r *Remedy) adoptDirect(ctx context.Context, order remedy.Order) *remedy.Outcome {
	r.directGroup(unitOf(order)).Clear(ctx, goneWithin)
	return unknown(order, r.opts.Clock.Now(),
		"the runner that had begun to execute it directly was stopped, and what was left of it was killed")
}

const (
	// stopGrace is how long a command may take to end when it is asked to.
	stopGrace = 5 * time.Second
	// killGrace is how long a killed command may take to go.
	killGrace = 5 * time.Second
)
