package checks

import (
	"context"
	"time"
)

// Check observes one aspect of this node.
type Check interface {
	// Timeout is the deadline of a run.
	Timeout() time.Duration
	// Run observes the node once. It is never called again before it has
	// returned. When ctx ends it should return soon with its own verdict on what
	// it could not finish: a problem if not finishing is the symptom, or else
	// Unknown.
	Run(ctx context.Context) Result
}

// Result is what one run of a check has found.
type Result struct {
	// Status is True for a problem, False for healthy, Unknown if the check
	// could not tell.
	Status Status
	// Reason is one CamelCase word for Status. A change of it is written to the
	// API server at once, so it does not hold figures.
	Reason string
	// Message tells a person what was observed. A change of it alone is written
	// with the next heartbeat, so it may hold figures.
	Message string
}

// Healthy returns a result without a problem.
func Healthy(reason, message string) Result {
	return Result{Status: False, Reason: reason, Message: message}
}

// Problem returns a result with a confirmed problem.
func Problem(reason, message string) Result {
	return Result{Status: True, Reason: reason, Message: message}
}

// CannotTell returns the result of a check that could not tell.
func CannotTell(reason, message string) Result {
	return Result{Status: Unknown, Reason: reason, Message: message}
}
