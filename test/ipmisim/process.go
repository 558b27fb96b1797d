package ipmisim

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that dies with the process that has started it.
type process struct {
	pid    int
	exited chan struct{}
}

// startProcess starts a program with its output in log, which it closes.
func startProcess(program string, args []string, log *os.File) (*process, error) {
	cmd := &exec.Cmd{
		Path: program, Args: append([]string{program}, args...),
		Env:    []string{"PATH=/usr/bin:/bin"},
		Stdout: log, Stderr: log,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
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
			_ = cmd.Wait() // it is killed in the end
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill ends the program and what it has started.
func (p *process) kill() {
	select {
	case <-p.exited:
		return
	default:
	}
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // at worst it has just ended
	<-p.exited
}
