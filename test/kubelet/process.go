package kubelet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"github.com/nodemend/nodemend/test/process"
)

// tailBytes is how much of the log a failing test shows.
const tailBytes = 8 << 10

// startProcess runs a command line in a mount namespace of its own. Its output
// is appended to logFile. It sees nothing of the caller's environment.
func startProcess(args []string, logFile string) (*process.Process, error) {
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
			Unshareflags: syscall.CLONE_NEWNS, // Go makes its mounts private, too
		},
	}
	return process.Start(cmd, log)
}

// stopProcess ends p. One that has exited by itself, or that has to be killed, is an
// error.
func stopProcess(p *process.Process) error {
	if p.HasExited() {
		return errors.Join(errors.New("it had exited by itself"), p.Err)
	}
	killed, err := p.StopGroup(stopGrace)
	if killed {
		return fmt.Errorf("it did not stop within %s and was killed", stopGrace)
	}
	return err
}

// tail returns the end of a file, or why it can't be read.
func tail(path string) string {
	text, err := process.Tail(path, tailBytes)
	if err != nil {
		return err.Error()
	}
	return text
}
