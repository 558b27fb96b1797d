// Package clock checks whether the node's clock is right: by what its time service has told
// the kernel, and by the API server's clock.
package clock

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/internal/systemd"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "ClockUnhealthy"

// Options of the check.
type Options struct {
	// MaxOffset is how far the clock may be from that of the API server, whose answers tell
	// it to the second. Required.
	MaxOffset time.Duration
	// MaxError is how far the clock may be off by what the kernel knows; zero: that is not
	// looked at.
	MaxError time.Duration
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// Server tells the API server's time, and Ask gets an answer of the API server's; both
	// nil: there is none.
	Server *serverclock.Clock
	Ask    func(context.Context) error
	// Adjtimex reads the kernel's clock; nil: the system call of that name does.
	Adjtimex func(*unix.Timex) (state int, err error)
	// Stopped tells of a time service of the node that is to run and does not, "" if there is
	// none; nil: systemd is asked.
	Stopped func(context.Context) (string, error)
}

// Check is the check of the node's clock.
type Check struct{ options Options }

var _ checks.Check = (*Check)(nil)

// New returns a check. Its error is [checks.Off] if nothing tells whether the clock is right.
func New(options Options) (*Check, error) {
	if options.Server == nil && options.MaxError == 0 {
		return nil, checks.Off{Why: "without an API server and with maxError 0 nothing tells whether the clock is right"}
	}
	if options.Adjtimex == nil {
		options.Adjtimex = unix.Adjtimex
	}
	if options.Stopped == nil {
		dialer := systemd.Dialer{Bus: systemd.DefaultBus, Private: systemd.DefaultPrivate}
		options.Stopped = func(ctx context.Context) (string, error) { return stopped(ctx, dialer) }
	}
	return &Check{options: options}, nil
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Run implements checks.Check.
func (c *Check) Run(ctx context.Context) checks.Result {
	seen := seen{alone: c.options.Server == nil}
	if !seen.alone {
		seen.ahead, seen.answered = c.ahead(ctx)
	}
	var kernel unix.Timex
	seen.state, seen.err = c.options.Adjtimex(&kernel)
	seen.maxError = time.Duration(kernel.Maxerror) * time.Microsecond
	if seen.late(c.options.MaxError) {
		ctx, cancel := context.WithTimeout(ctx, c.options.Timeout/4)
		defer cancel()
		seen.stopped, _ = c.options.Stopped(ctx) // who has no systemd may have a time service, too
	}
	return seen.judge(c.options.MaxOffset, c.options.MaxError)
}

// ahead returns how far the API server's clock is ahead of the node's. It asks the API server
// if the last answers do not tell enough.
func (c *Check) ahead(ctx context.Context) (serverclock.Bounds, bool) {
	b, known := c.options.Server.Ahead()
	if most := c.options.MaxOffset; known && (b.Within(most) || b.Beyond(most)) {
		return b, true
	}
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout/2)
	defer cancel()
	_ = c.options.Ask(ctx) // an answer that is an error tells the time, too
	return c.options.Server.Ahead()
}
