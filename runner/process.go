package runner

import (
	"context"
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// cause says why a process ended.
type cause int

const (
	byItself    cause = iota
	timedOut          // we killed it at the timeout
	interrupted       // we killed it since the context ended
)

// ending is how supervise found or brought about the end of a process.
type ending struct {
	cause cause
	// stuck: it was killed and has not gone.
	stuck bool
}

// process is a started child that leads a process group.
type process struct {
	// exited is closed when the leader has ended. It is not reaped yet, so its
	// ID, which is that of the group, belongs to nobody else.
	exited <-chan struct{}
	// killGroup sends SIGKILL to all processes of the group.
	killGroup func()
	// reap allows the leader to be reaped. It is called once.
	reap func()
	// reaped is closed when the leader is reaped and its output is read.
	reaped <-chan struct{}
}

// watch takes charge of a started command, whose Wait nobody else may call.
// The goroutine that it starts ends with the process: it outlives supervise
// only if the process is stuck.
func watch(cmd *exec.Cmd) process {
	exited, reap, reaped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(reaped)
		awaitExit(cmd.Process.Pid)
		close(exited)
		<-reap
		// How it ended is in cmd.ProcessState. The only other error is
		// exec.ErrWaitDelay: an escaped child holds the output open.
		_ = cmd.Wait()
	}()
	return process{
		exited: exited,
		// The only possible error is that no process of the group is left.
		killGroup: func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) },
		reap:      func() { close(reap) },
		reaped:    reaped,
	}
}

// supervise returns when the process has ended, by itself or killed at the
// timeout or at the end of ctx, or killGrace after a kill that had no effect.
// Nothing of the process group is left then, unless it is stuck.
func (p process) supervise(ctx context.Context, clk clock.Clock, timeout, killGrace time.Duration) ending {
	deadline := clk.NewTimer(timeout)
	defer deadline.Stop()
	var e ending
	select {
	case <-p.exited:
	case <-deadline.C():
		e.cause = timedOut
	case <-ctx.Done():
		e.cause = interrupted
	}
	p.killGroup()
	p.reap()

	grace := clk.NewTimer(killGrace)
	defer grace.Stop()
	select {
	case <-p.reaped:
	case <-grace.C():
		e.stuck = true
	}
	return e
}

// awaitExit returns when the child has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
