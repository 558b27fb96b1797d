package command

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/cgroup"
	"github.com/nodemend/nodemend/internal/thread"
	"github.com/nodemend/nodemend/runner/remedy"
)

// process is a child that leads a session, perhaps in a control group of its own.
type process struct {
	// started has what the start gave, as soon as that is known: a file system that
	// does not answer can hold it up.
	started <-chan error
	// exited is closed when the leader has ended, or could not be started. It is not
	// reaped yet, so its ID, which is that of the process group, belongs to nobody else.
	exited <-chan struct{}
	// unexecuted reports whether the leader, which was killed and is not reaped, has
	// certainly executed nothing.
	unexecuted func() bool
	// alone reports whether it is known that no other process belongs to it.
	alone func() bool
	// stop asks the process group to end, kill ends all that belongs to it.
	stop, kill func()
	// reap allows the leader to be reaped. It is called once.
	reap func()
	// reaped is closed when the leader is reaped.
	reaped <-chan struct{}
}

// progress is how supervise found or brought about the end of a process.
type progress struct {
	startErr error // nothing was executed
	cause    cause
	stuck    bool
	unsure   bool // it may have been executed or not
	alone    bool // it had left nothing behind when it ended
}

// start starts a command in the host's namespaces, and closes the files then. The
// goroutine that it makes ends with the process: it outlives supervise only if the
// process is stuck.
func start(cmd *exec.Cmd, hostProc string, in cgroup.Group, files ...*os.File) process {
	started, exited, reap, reaped := make(chan error, 1), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var pid atomic.Int64
	var doomed, forking atomic.Bool
	signal := func(s syscall.Signal) {
		if id := pid.Load(); id != 0 {
			_ = syscall.Kill(-int(id), s) // fails only if nobody is left
		}
	}
	run := func() {
		defer close(reaped)
		score := openOOMScore()
		err := enterHost(hostProc)
		if err == nil {
			readAhead(hostProc, cmd.Path)
			forking.Store(true)
			if doomed.Load() {
				err = errNoStart
			}
		}
		if err == nil {
			score.usual()
			err = cmd.Start()
		}
		score.restore()
		for _, file := range files {
			_ = file.Close()
		}
		if err != nil {
			started <- err
			close(exited)
			return
		}
		pid.Store(int64(cmd.Process.Pid))
		if doomed.Load() {
			signal(syscall.SIGKILL)
		}
		started <- nil
		awaitExit(cmd.Process.Pid)
		close(exited)
		<-reap
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
	}
	go thread.Own(run) // so the death signal of the child comes when the process ends
	return process{
		started: started,
		exited:  exited,
		unexecuted: func() bool {
			if !forking.Load() {
				return true // it will find that it is doomed
			}
			pids := in.PIDs()
			if id := pid.Load(); id != 0 {
				pids = []int{int(id)}
			}
			return len(pids) > 0 && !slices.ContainsFunc(pids, hasExecuted)
		},
		alone: func() bool { return in != "" && !in.Populated() },
		stop:  func() { signal(syscall.SIGTERM) },
		kill: func() {
			doomed.Store(true)
			signal(syscall.SIGKILL)
			in.Kill()
		},
		reap:   func() { close(reap) },
		reaped: reaped,
	}
}

// readAhead waits until the file systems of a program and of its interpreter answer. Until a
// child has executed something, Go can neither collect garbage nor, in the end, run any
// goroutine: the child has the parent's memory. Here only this thread waits.
func readAhead(hostProc, path string) {
	for range 2 {
		file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return // the start tells
		}
		path, _ = interpreterOf(hostProc, file) // of what is read
		_ = file.Close()
		if path == "" {
			return
		}
	}
}

// supervise returns when the process has ended, by itself, or stopped at the timeout,
// or killed at the end of ctx, or killGrace after a kill that had no effect. Nothing
// that belongs to it is left then, unless it is stuck.
func (p process) supervise(ctx context.Context, clk clock.Clock, timeout time.Duration) progress {
	deadline := clk.NewTimer(timeout)
	defer deadline.Stop()
	var e progress
	begun := false
	select {
	case e.startErr = <-p.started:
		if e.startErr != nil {
			return e
		}
		begun = true
		remedy.Reached(ctx, "after-start")
		e.cause = p.await(ctx, clk, deadline)
	case <-deadline.C():
		e.cause = timedOut
	case <-ctx.Done():
		e.cause = interrupted
	}
	remedy.Reached(ctx, "ended")
	e.alone = p.alone()
	p.kill()

	grace := clk.NewTimer(killGrace)
	defer grace.Stop()
	select {
	case <-p.exited:
	case <-grace.C():
		e.stuck = true
	}
	if !begun {
		p.judgeStart(&e)
	}
	p.reap()
	if !e.stuck {
		<-p.reaped
	}
	return e
}

// judgeStart finds out whether a process was executed whose start had not come to an end
// when it was killed.
func (p process) judgeStart(e *progress) {
	select {
	case e.startErr = <-p.started:
	default:
		e.unsure = true
		p.kill() // it may not have been there before
	}
	if e.startErr == nil && p.unexecuted() {
		e.startErr = errNoStart
	}
}

// hasExecuted reports whether a process has got beyond execve(2), or may have.
func hasExecuted(pid int) bool { return hasExecutedAt("/proc/" + strconv.Itoa(pid)) }

func hasExecutedAt(dir string) bool {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return true
	}
	// proc_pid_stat(5): the name, which may contain anything, is in parentheses, and the
	// seventh field after it has the kernel's flags of the process.
	const forkedButDidNotExec = 0x40
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 7 {
		return true
	}
	flags, err := strconv.ParseUint(fields[6], 10, 64)
	return err != nil || flags&forkedButDidNotExec == 0
}

// await returns when a process that was started has ended or is to be killed.
func (p process) await(ctx context.Context, clk clock.Clock, deadline clock.Timer) cause {
	select {
	case <-p.exited:
		return byItself
	case <-ctx.Done():
		return interrupted
	case <-deadline.C():
	}
	select {
	case <-p.exited: // at the same moment
		return byItself
	default:
	}
	p.stop()
	grace := clk.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-p.exited:
	case <-grace.C():
	case <-ctx.Done():
	}
	return timedOut
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
