package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// command runs one program without a shell, in a process group of its own,
// in the directory /, with empty input and with no environment but that of
// commandEnv. When the program has ended, or at the timeout, SIGKILL ends
// whatever is left of the process group.
//
// A descendant that leaves the process group (setsid) survives. It cannot
// delay the outcome by holding the output open.
type command struct {
	argv []string
	// outputGrace is how long output is still read after the program has
	// ended.
	outputGrace time.Duration
	// killGrace is how long a killed process may take to go. It includes
	// outputGrace.
	killGrace time.Duration
}

func newCommand(argv []string) *command {
	return &command{argv: argv, outputGrace: 2 * time.Second, killGrace: 5 * time.Second}
}

// commandEnv is the whole environment of a command. PATH is there for what
// the program starts, the program itself is named by an absolute path.
func commandEnv() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/root",
	}
}

// execute implements remedy. StartFailed means that not one instruction of
// the program was executed.
func (c *command) execute(ctx context.Context, clk clock.Clock, timeout time.Duration) outcome {
	var output tail
	cmd := &exec.Cmd{
		Path:        c.argv[0],
		Args:        c.argv,
		Dir:         "/",
		Env:         commandEnv(),
		Stdout:      &output,
		Stderr:      &output,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
		WaitDelay:   c.outputGrace,
	}
	startedAt := clk.Now()
	if err := cmd.Start(); err != nil {
		return startFailed(c.argv[0], err)
	}
	p := watch(cmd)
	ended := p.supervise(ctx, clk, timeout, c.killGrace)
	took := clk.Since(startedAt)

	text, truncated := output.text()
	result := &v1alpha1.ActionResult{
		StartedAt:       metav1.NewMicroTime(startedAt),
		FinishedAt:      metav1.NewMicroTime(startedAt.Add(took)),
		Output:          text,
		OutputTruncated: truncated,
	}
	if ended.stuck {
		return stuckOutcome(ended.cause, took, result)
	}
	return exitOutcome(cmd.ProcessState.Sys().(syscall.WaitStatus), ended.cause, took, result)
}

func startFailed(program string, err error) outcome {
	hint := "check the first entry of the step's command.argv on this node"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "install the program, or the interpreter that its first line names, on this node, or correct the step's command.argv"
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return outcome{
		reason:  v1alpha1.ReasonStartFailed,
		message: fmt.Sprintf("starting %s: %v; nothing was executed: %s", program, err, hint),
	}
}

// exitOutcome tells apart a program that was killed by us from one that ended
// by itself, which may happen at the very moment of the kill.
func exitOutcome(status syscall.WaitStatus, cause cause, took time.Duration, result *v1alpha1.ActionResult) outcome {
	if status.Exited() {
		result.ExitCode = ptr.To(int32(status.ExitStatus()))
		reason := v1alpha1.ReasonFailed
		if status.ExitStatus() == 0 {
			reason = v1alpha1.ReasonSucceeded
		}
		return outcome{reason: reason, message: fmt.Sprintf("exit status %d after %s", status.ExitStatus(), rounded(took)), result: result}
	}
	result.Signal = status.Signal().String()
	switch {
	case cause == timedOut && status.Signal() == syscall.SIGKILL:
		return outcome{reason: v1alpha1.ReasonTimedOut, message: "killed after " + rounded(took), result: result}
	case cause == interrupted && status.Signal() == syscall.SIGKILL:
		return outcome{reason: v1alpha1.ReasonInterrupted, message: interruptedMessage(took), result: result}
	default:
		return outcome{
			reason:  v1alpha1.ReasonFailed,
			message: fmt.Sprintf("ended by signal %d (%s) after %s", status.Signal(), result.Signal, rounded(took)),
			result:  result,
		}
	}
}

// stuckOutcome is that of a process which SIGKILL does not end: it is in a
// system call that cannot be interrupted. It will execute nothing more.
func stuckOutcome(cause cause, took time.Duration, result *v1alpha1.ActionResult) outcome {
	const stuck = "; the process has not gone since: it hangs in a system call (state D), probably on a device or a file system that does not answer"
	if cause == interrupted {
		return outcome{reason: v1alpha1.ReasonInterrupted, message: interruptedMessage(took) + stuck, result: result}
	}
	return outcome{reason: v1alpha1.ReasonTimedOut, message: "killed after " + rounded(took) + stuck, result: result}
}

func interruptedMessage(took time.Duration) string {
	return fmt.Sprintf("the runner was stopped and killed the command after %s", rounded(took))
}

// rounded writes a duration with as many digits as people care for.
func rounded(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
