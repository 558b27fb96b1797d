package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// pollInterval is the pause between two looks at whether a program is ready.
	pollInterval = 50 * time.Millisecond

	// stopGrace is how long a program may take to stop before it is killed.
	stopGrace = 10 * time.Second

	// tailBytes is how much of a program's log becomes part of an error.
	tailBytes = 4 << 10
)

// process is a running child with its log file. It is killed when the
// process that started it dies, and shares no terminal signal with it.
type process struct {
	name    string
	pid     int
	logPath string
	began   time.Time
	exited  chan struct{} // closed after exitErr was set
	exitErr error
}

// startProcess runs the program in dir, with its output in dir/<name>.log. It
// sees nothing of the caller's environment, where ETCD_* or KUBECONFIG would
// change what it does.
func startProcess(dir, name string, args []string) (*process, error) {
	program, err := Program(name)
	if err != nil {
		return nil, err
	}
	logPath := filepath.Join(dir, name+".log")
	log, err := os.Create(logPath)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}

	cmd := &exec.Cmd{
		Path:   program,
		Args:   append([]string{name}, args...),
		Dir:    dir,
		Env:    []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir},
		Stdout: log,
		Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{
			Setpgid:   true, // Ctrl-C reaches the parent only, which then stops its children in order
			Pdeathsig: syscall.SIGKILL,
		},
	}
	p := &process{name: name, logPath: logPath, began: time.Now(), exited: make(chan struct{})}
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
			p.exitErr = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// waitReady returns when ready does so without an error. It gives up when the
// program exits or ctx ends; the error then holds the end of the program's log.
func (p *process) waitReady(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("starting %s: %w", p.name, p.exitError())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to become ready: %w, last seen: %w%s", p.name, context.Cause(ctx), err, p.tail())
		case <-tick.C:
		}
	}
}

// stop ends the program and everything it started. A program that had already
// exited, or that has to be killed, is an error.
func (p *process) stop() error {
	select {
	case <-p.exited:
		return p.exitError()
	default:
	}
	if err := syscall.Kill(-p.pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-p.exited:
		return nil
	case <-grace.C:
	}
	if err := syscall.Kill(-p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing %s: %w", p.name, err)
	}
	<-p.exited
	return fmt.Errorf("%s did not stop within %s and was killed%s", p.name, stopGrace, p.tail())
}

// exitError describes an exit that nobody asked for; p must have exited.
func (p *process) exitError() error {
	if p.exitErr == nil {
		return fmt.Errorf("%s exited by itself%s", p.name, p.tail())
	}
	return fmt.Errorf("%s exited by itself: %w%s", p.name, p.exitErr, p.tail())
}

// tail returns the last lines of the log, indented below a heading.
func (p *process) tail() string {
	log, err := os.Open(p.logPath)
	if err != nil {
		return fmt.Sprintf(" (its log cannot be read: %v)", err)
	}
	defer func() { _ = log.Close() }()
	if info, err := log.Stat(); err == nil && info.Size() > tailBytes {
		_, _ = log.Seek(-tailBytes, io.SeekEnd) // else all of it is shown
	}
	data, err := io.ReadAll(log)
	if err != nil {
		return fmt.Sprintf(" (its log cannot be read: %v)", err)
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "; its log is empty"
	}
	return "; the end of its log:\n\t" + strings.ReplaceAll(text, "\n", "\n\t")
}
