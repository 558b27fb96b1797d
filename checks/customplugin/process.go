package customplugin

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outputGrace is how long output is still read after a plugin has ended, if a
// descendant that has left the plugin's process group holds it open.
const outputGrace = 500 * time.Millisecond

// execute runs the plugin of r once, in a process group of its own, with the
// environment and the directory of this process and with empty input. When the
// plugin has ended, and when ctx ends, which counts as its time-out, SIGKILL ends
// what is left of the group.
//
// It returns when no process of the group is left, which is never if one of them
// hangs in the kernel.
func execute(ctx context.Context, r rule, maxOutput int) result {
	var stdout, stderr head
	cmd := &exec.Cmd{
		Path:        r.program(),
		Args:        append([]string{r.path}, r.args...),
		Stdout:      &stdout,
		Stderr:      &stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   outputGrace,
	}
	if err := cmd.Start(); err != nil {
		return notStartedResult(r, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(cmd.Process.Pid)
	}()
	timedOut := false
	select {
	case <-exited:
	case <-ctx.Done():
		timedOut = true
	}
	// The leader is not reaped yet, so its ID, which is that of the group, belongs
	// to nobody else. The only possible error is that nobody is left.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	<-exited
	// How it ended is in cmd.ProcessState, unless it was reaped by somebody else.
	// The only other error is exec.ErrWaitDelay.
	err := cmd.Wait()
	reapOrphans(cmd.Process.Pid)

	var verdict result
	switch output := stdout.text(maxOutput); {
	case timedOut:
		verdict = timedOutResult(r, output)
	case cmd.ProcessState == nil:
		verdict = untold(ReasonPluginFailed, r, fmt.Sprintf("its exit code is lost: %v", err), output)
	default:
		verdict = exitResult(r, cmd.ProcessState.Sys().(syscall.WaitStatus), output)
	}
	verdict.stderr = stderr.text(maxCaptured)
	return verdict
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

// reapOrphans reaps the killed processes of a group that have become children of
// this process, as they do if it is the first one of a container.
func reapOrphans(group int) {
	for {
		_, err := syscall.Wait4(-group, nil, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
