// Package child runs programs as children of this process that end together with all
// that belongs to them.
//
// A child leads a session, and so a process group, of its own. When it has ended, and when
// it must end, SIGKILL ends what is left of that group. The child is not reaped before, so
// that nobody else can have the group's ID by then. What has left the group escapes, unless
// [Groups] have started the child.
package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/internal/cgroup"
)

// Child is a program that was started.
type Child struct {
	cmd    *exec.Cmd
	groups *Groups      // nil: it has no control group
	group  cgroup.Group // its own
}

// Start starts what cmd says, in a session of its own. cmd must be neither of
// [exec.CommandContext] nor have a SysProcAttr; its WaitDelay is how long output is read
// after the program has ended, if a process that has left its group holds it open. The
// caller must call [Child.Wait]. A program whose disk hangs is an error after five seconds.
func Start(cmd *exec.Cmd) (*Child, error) { return startBelow("", cmd) }

// startBelow starts a program whose file system begins at root; "": as that of this process does.
func startBelow(root string, cmd *exec.Cmd) (*Child, error) {
	if err := readable(filepath.Join(root, cmd.Path), readLimit); err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Chroot: root}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Child{cmd: cmd}, nil
}

// Run starts a program, and waits for it until ctx ends: see [Start] and [Child.Wait].
func Run(ctx context.Context, cmd *exec.Cmd) error { return RunBelow(ctx, "", cmd) }

// RunBelow is like [Run]. The program's file system begins at root, and so do the paths in cmd; ""
// is that of this process. Another one takes CAP_SYS_CHROOT.
func RunBelow(ctx context.Context, root string, cmd *exec.Cmd) error {
	c, err := startBelow(root, cmd)
	if err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Wait returns when the program has ended: by itself, or killed when ctx ends. No process
// of its group is left then; so it does not return while one hangs in the kernel that
// SIGKILL does not end.
//
// The error is the cause of the end of ctx if that came first, or else what
// [exec.Cmd.Wait] returns.
func (c *Child) Wait(ctx context.Context) error {
	pid := c.cmd.Process.Pid
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(pid)
	}()
	var ended error
	select {
	case <-exited:
	case <-ctx.Done():
		ended = context.Cause(ctx)
	}
	// The only possible error is that nobody is left.
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	killed := c.groups.kill(c.group, pid)
	<-exited
	err := c.cmd.Wait()
	reapGroup(pid)
	c.groups.end(ctx, c.group, killed)
	if ended != nil {
		return ended
	}
	return err
}

// State is how the program ended, after [Child.Wait]. It is nil if somebody else has
// reaped it.
func (c *Child) State() *os.ProcessState { return c.cmd.ProcessState }

// awaitExit returns when the child has ended, and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reapGroup reaps the killed processes of a group that have become children of
// this process, as they do if it is the first one of a container.
func reapGroup(group int) {
	for {
		_, err := syscall.Wait4(-group, nil, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
