package customplugin

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/nodemend/nodemend/checks"
)

// Reasons of the status Unknown.
const (
	// ReasonPluginTimeout: the plugin has not ended at its time-out.
	ReasonPluginTimeout = "PluginTimeout"
	// ReasonPluginFailed: the plugin ended with an exit code other than 0 and 1,
	// or by a signal.
	ReasonPluginFailed = "PluginFailed"
	// ReasonPluginNotStarted: the plugin could not be started.
	ReasonPluginNotStarted = "PluginNotStarted"
)

// result is what one run of a rule has found.
type result struct {
	// status is True for a problem.
	status checks.Status
	// reason is that of the status Unknown only.
	reason  string
	message string
	// stderr is for the log.
	stderr string
}

// exitResult judges a plugin that has ended by itself.
func exitResult(r rule, status syscall.WaitStatus, output string) result {
	switch {
	case status.Signaled():
		return untold(ReasonPluginFailed, r, fmt.Sprintf("ended by signal %d (%s)", status.Signal(), status.Signal()), output)
	case status.ExitStatus() == 0:
		return result{status: checks.False, message: output}
	case status.ExitStatus() == 1:
		if output == "" {
			output = r.path + " reports a problem and says nothing about it"
		}
		return result{status: checks.True, message: output}
	default:
		return untold(ReasonPluginFailed, r, fmt.Sprintf("exit code %d", status.ExitStatus()), output)
	}
}

func timedOutResult(r rule, output string) result {
	return untold(ReasonPluginTimeout, r, fmt.Sprintf("killed at its time-out of %s", r.timeout), output)
}

// stuckResult is that of a plugin which SIGKILL has not ended.
func stuckResult(r rule) result {
	return untold(ReasonPluginTimeout, r, fmt.Sprintf("killed at its time-out of %s but not gone: "+
		"it hangs in a system call (state D), probably on a device or a file system that does not answer", r.timeout), "")
}

func notStartedResult(r rule, err error) result {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	what := fmt.Sprintf("could not be started: %v", err)
	if errors.Is(err, fs.ErrNotExist) {
		what += "; the file, or the interpreter that its first line names, is missing"
	}
	return untold(ReasonPluginNotStarted, r, what, "")
}

func untold(reason string, r rule, what, output string) result {
	message := r.path + ": " + what
	if output != "" {
		message += ": " + output
	}
	return result{status: checks.Unknown, reason: reason, message: message}
}
