package runner

import (
	"context"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// remedy is one kind of fix.
type remedy interface {
	// execute has the side effect and returns within the timeout plus a few
	// seconds, whatever happens. When ctx ends it gives up at once and the
	// outcome is Interrupted.
	execute(ctx context.Context, clk clock.Clock, timeout time.Duration) outcome
}

// outcome says how an action ended.
type outcome struct {
	reason  string                 // of the Finished condition
	message string                 // of the Finished condition
	result  *v1alpha1.ActionResult // nil if nothing was executed
}

// Names of remedies, for metrics and logs.
const (
	remedyCommand = "command"
	remedyUnknown = "unknown"
)

// remedyOf returns the remedy of a step, or nil if this version knows none of
// what the step asks for. Every kind of remedy is chosen here.
func remedyOf(step *v1alpha1.Step) remedy {
	switch {
	case step.Command != nil && len(step.Command.Argv) > 0:
		return newCommand(step.Command.Argv)
	default:
		return nil
	}
}

// remedyName returns the word that a policy uses for the step's remedy. The
// step may be nil.
func remedyName(step *v1alpha1.Step) string {
	switch {
	case step != nil && step.Command != nil:
		return remedyCommand
	default:
		return remedyUnknown
	}
}
