package kubelet

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

// tailBytes is how much of the log a failing test shows.
const tailBytes = 8 << 10

// process is a child that dies with the process that has started it.
type process struct {
	pid       int
	exited    chan struct{} // closed after exitState was set
	exitState *os.ProcessState
}

// startProcess runs a command line in a mount namespace of its own. Its output
// is appended to logFile. It sees nothing of the caller's environment.
func startProcess(args []string, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: args[0], Args: args,
		Env:    []string{"PATH=" + os.Getenv("PATH")},
		Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid:      true,
			Pdeathsig:    syscall.SIGKILL,
			Unshareflags: syscall.CLONE_NEWNS, // Go makes its mounts private, too
		},
	}
	p := &process{exited: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(p.exited)
		defer func() { _ = log.Close() }()
		// The death signal comes when the thread ends that made the child
		// (https://go.dev/issue/27505), so one thread stays with it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // what it says is in the state, too
			p.exitState = cmd.ProcessState
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop ends the process. One that has exited by itself, or that has to be killed,
// is an error.
func (p *process) stop() error {
	select {
	case <-p.exited:
		return fmt.Errorf("it had exited by itself (%v)", p.exitState)
	default:
	}
	if err := syscall.Kill(-p.pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-p.exited:
		return nil
	case <-grace.C:
	}
	if err := syscall.Kill(-p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	<-p.exited
	return fmt.Errorf("it did not stop within %s and was killed", stopGrace)
}

// tail returns the end of a file, or why it can't be read.
func tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = file.Seek(-tailBytes, io.SeekEnd) // else all of it is shown
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(data))
}
