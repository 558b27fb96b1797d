package command

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// cause says why a command ended.
type cause int

const (
	byItself    cause = iota
	timedOut          // it was ended at the timeout
	interrupted       // it was ended since the runner was stopped
)

// ending is how a command that was executed ended.
type ending struct {
	cause   cause
	started time.Time
	took    time.Duration
	// stuck: it was killed and has not gone; the two below are then unknown.
	stuck  bool
	signal syscall.Signal // 0 if it ended by exiting
	status int
}

// outcome puts an ending into words. The output is added later.
func (e ending) outcome(execution v1alpha1.Execution) *remedy.Outcome {
	if e.cause == interrupted && !e.stuck && e.signal != syscall.SIGKILL {
		e.cause = byItself // at the very moment of the kill
	}
	result := &v1alpha1.ActionResult{
		Execution:  execution,
		StartedAt:  v1alpha1.NewMicroTime(e.started),
		FinishedAt: v1alpha1.NewMicroTime(e.started.Add(e.took)),
	}
	reason := v1alpha1.ReasonFailed
	switch {
	case e.cause == timedOut:
		reason = v1alpha1.ReasonTimedOut
	case e.cause == interrupted:
		reason = v1alpha1.ReasonInterrupted
	case e.signal == 0 && e.status == 0:
		reason = v1alpha1.ReasonSucceeded
	}
	if !e.stuck {
		if e.signal != 0 {
			result.Signal = e.signal.String()
		} else {
			result.ExitCode = ptr.To(int32(e.status))
		}
	}
	return &remedy.Outcome{Reason: reason, Message: e.message(), Result: result}
}

func (e ending) message() string {
	took := rounded(e.took)
	switch {
	case e.cause == interrupted && e.stuck:
		return "the runner was stopped and killed the command after " + took + stuckNote
	case e.stuck:
		return "killed after " + took + stuckNote
	case e.cause == interrupted:
		return "the runner was stopped and killed the command after " + took
	case e.cause == timedOut && e.signal == 0:
		return fmt.Sprintf("asked to stop at the timeout, and ended with exit status %d after %s", e.status, took)
	case e.cause == timedOut:
		return "killed after " + took
	case e.signal != 0:
		return fmt.Sprintf("ended by signal %d (%s) after %s", e.signal, e.signal, took)
	default:
		return fmt.Sprintf("exit status %d after %s", e.status, took)
	}
}

// stuckNote is about a process that SIGKILL does not end. It will execute nothing
// more.
const stuckNote = "; the process has not gone since: it hangs in a system call (state D), probably on a device or a file system that does not answer"

// notExecuted is the outcome when not one instruction was executed.
func notExecuted(why string) *remedy.Outcome {
	return &remedy.Outcome{Reason: v1alpha1.ReasonStartFailed, Message: why + "; nothing was executed"}
}

// unreachable is the outcome when systemd would be needed.
func unreachable(err error) *remedy.Outcome {
	return notExecuted(oneLine(err) + ": look at systemctl status on the node, or let the runner execute commands directly")
}

// exited reports whether it ended as it wanted to.
func (e ending) exited() bool { return e.cause == byItself && !e.stuck && e.signal == 0 }

// startFailed is the outcome when the kernel has refused to execute a program.
func startFailed(program string, err error) *remedy.Outcome {
	hint := "check the step's command on this node"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "install the program, or the interpreter that its first line names, on this node, or correct the step's command"
	}
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return &remedy.Outcome{
		Reason:  v1alpha1.ReasonStartFailed,
		Message: fmt.Sprintf("starting %s: %s; nothing was executed: %s", program, oneLine(err), hint),
	}
}

// errNoStart is why a program was not executed whose start did not come to an end.
var errNoStart = errors.New("it had not been executed yet when it was killed: a file system may not answer")

// unknown is the outcome when nobody can tell any more what has been executed.
func unknown(order remedy.Order, now time.Time, why string) *remedy.Outcome {
	return &remedy.Outcome{
		Reason:  v1alpha1.ReasonInterrupted,
		Message: why + "; the command may or may not have been executed",
		Result: &v1alpha1.ActionResult{
			Execution:  order.Prepared.Execution,
			StartedAt:  v1alpha1.NewMicroTime(order.StartedAt),
			FinishedAt: v1alpha1.NewMicroTime(now),
		},
	}
}

// with adds what the command has printed, of which whole says whether it is all that it
// was about to print.
func with(o *remedy.Outcome, p *pipe, whole bool) *remedy.Outcome {
	text, truncated := p.finish(whole)
	if o.Result != nil {
		o.Result.Output, o.Result.OutputTruncated = text, truncated
	}
	return o
}

// rounded writes a duration with as many digits as people care for.
func rounded(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
