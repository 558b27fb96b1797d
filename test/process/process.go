// Package process starts programs for tests that die with the process that has
// started them, however that ends.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Process is a program that was started.
type Process struct {
	// Pid of the program.
	Pid int
	// Exited is closed when the program has exited.
	Exited <-chan struct{}
	// Err is how it has exited, as of exec.Cmd.Wait. Valid after Exited.
	Err error
}

// Start starts cmd and waits for it. log, which cmd writes to, is closed when it has
// exited, or if it can't be started.
func Start(cmd *exec.Cmd, log *os.File) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	exited, started := make(chan struct{}), make(chan error)
	p := &Process{Exited: exited}
	go func() {
		defer close(exited)
		defer func() { _ = log.Close() }()
		// The death signal comes when the thread ends that made the child
		// (https://go.dev/issue/27505), so one thread stays with it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.Pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.Err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// HasExited reports whether the program has exited.
func (p *Process) HasExited() bool {
	select {
	case <-p.Exited:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the program alone.
func (p *Process) Signal(signal syscall.Signal) error { return syscall.Kill(p.Pid, signal) }

// Kill kills the program, or with it the group that it leads, unless it has exited,
// and waits until it has.
func (p *Process) Kill() {
	if !p.HasExited() {
		pid := p.Pid
		if group, err := syscall.Getpgid(pid); err == nil && group == pid {
			pid = -pid
		}
		_ = syscall.Kill(pid, syscall.SIGKILL) // at worst it has just ended
		<-p.Exited
	}
}

// StopGroup asks the process group that the program leads to end, and kills it after
// grace. killed is whether that was necessary. The program must have been started
// with Setpgid.
func (p *Process) StopGroup(grace time.Duration) (killed bool, err error) {
	if err := p.signalGroup(syscall.SIGTERM); err != nil {
		return false, fmt.Errorf("stopping it: %w", err)
	}
	limit := time.NewTimer(grace)
	defer limit.Stop()
	select {
	case <-p.Exited:
		return false, nil
	case <-limit.C:
	}
	if err := p.signalGroup(syscall.SIGKILL); err != nil {
		return false, fmt.Errorf("killing it: %w", err)
	}
	<-p.Exited
	return true, nil
}

// signalGroup takes a group that has ended for signalled.
func (p *Process) signalGroup(signal syscall.Signal) error {
	if err := syscall.Kill(-p.Pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// Tail returns the last bytes of a file, at most limit, without space around them.
func Tail(path string, limit int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // was only read
	if info, err := file.Stat(); err == nil && info.Size() > limit {
		_, _ = file.Seek(-limit, io.SeekEnd) // else all of it is shown
	}
	data, err := io.ReadAll(file)
	return strings.TrimSpace(string(data)), err
}
