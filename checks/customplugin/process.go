package customplugin

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"github.com/nodemend/nodemend/internal/child"
)

// outputGrace is how long output is still read after a plugin has ended, if a
// descendant that has left the plugin's process group holds it open.
const outputGrace = 500 * time.Millisecond

// execute runs the plugin of r once, in a process group of its own, with the
// environment and the directory of this process and with empty input. When the
// plugin has ended, and when ctx ends, which counts as its time-out, SIGKILL ends
// what is left of the group, and what has left it if groups are given.
//
// It returns when no process of the group is left, which is never if one of them
// hangs in the kernel.
func execute(ctx context.Context, r rule, maxOutput int, groups *child.Groups) result {
	stdout, stderr := child.Head{Limit: maxCaptured}, child.Head{Limit: maxCaptured}
	plugin, err := groups.Start(&exec.Cmd{
		Path:      r.program(),
		Args:      append([]string{r.path}, r.args...),
		Stdout:    &stdout,
		Stderr:    &stderr,
		WaitDelay: outputGrace,
	})
	if err != nil {
		return notStartedResult(r, err)
	}
	// How it ended is its state, unless it was reaped by somebody else. The only other
	// errors are exec.ErrWaitDelay and its time-out.
	err = plugin.Wait(ctx)

	var verdict result
	switch output := text(stdout.String(), maxOutput); {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		verdict = timedOutResult(r, output)
	case plugin.State() == nil:
		verdict = untold(ReasonPluginFailed, r, fmt.Sprintf("its exit code is lost: %v", err), output)
	default:
		verdict = exitResult(r, plugin.State().Sys().(syscall.WaitStatus), output)
	}
	verdict.stderr = text(stderr.String(), maxCaptured)
	return verdict
}
