package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nodemend/nodemend/test/process"
)

const (
	// pollInterval is the pause between two looks at whether a program is ready.
	pollInterval = 50 * time.Millisecond

	// stopGrace is how long a program may take to stop before it is killed.
	stopGrace = 10 * time.Second

	// tailBytes is how much of a program's log becomes part of an error.
	tailBytes = 4 << 10
)

// child is a running program with its log file. It is killed when the
// process that started it dies, and shares no terminal signal with it.
type child struct {
	*process.Process
	name    string
	logPath string
	began   time.Time
}

// startProcess runs the program in dir, with its output in dir/<name>.log. It
// sees nothing of the caller's environment, where ETCD_* or KUBECONFIG would
// change what it does.
func startProcess(dir, name string, args []string) (*child, error) {
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
		// Ctrl-C reaches the parent only, which then stops its children in order.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	began := time.Now()
	started, err := process.Start(cmd, log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return &child{Process: started, name: name, logPath: logPath, began: began}, nil
}

// waitReady returns when ready does so without an error. It gives up when the
// program exits or ctx ends; the error then holds the end of the program's log.
func (p *child) waitReady(ctx context.Context, ready func(context.Context) error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.Exited:
			return fmt.Errorf("starting %s: %w", p.name, p.exitError())
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to become ready: %w, last seen: %w%s", p.name, context.Cause(ctx), err, p.tail())
		case <-tick.C:
		}
	}
}

// stop ends the program and everything it started. A program that had already
// exited, or that has to be killed, is an error.
func (p *child) stop() error {
	if p.HasExited() {
		return p.exitError()
	}
	killed, err := p.StopGroup(stopGrace)
	switch {
	case err != nil:
		return fmt.Errorf("stopping %s: %w", p.name, err)
	case killed:
		return fmt.Errorf("%s did not stop within %s and was killed%s", p.name, stopGrace, p.tail())
	default:
		return nil
	}
}

// exitError describes an exit that nobody asked for; p must have exited.
func (p *child) exitError() error {
	if p.Err == nil {
		return fmt.Errorf("%s exited by itself%s", p.name, p.tail())
	}
	return fmt.Errorf("%s exited by itself: %w%s", p.name, p.Err, p.tail())
}

// tail returns the last lines of the log, indented below a heading.
func (p *child) tail() string {
	text, err := process.Tail(p.logPath, tailBytes)
	if err != nil {
		return fmt.Sprintf(" (its log cannot be read: %v)", err)
	}
	if text == "" {
		return "; its log is empty"
	}
	return "; the end of its log:\n\t" + strings.ReplaceAll(text, "\n", "\n\t")
}
