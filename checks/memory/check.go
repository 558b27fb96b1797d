// Package memory checks the node's memory modules, by the errors that the kernel counts (EDAC)
// and by the pages that it has put out of use.
package memory

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/counters"
	"github.com/nodemend/nodemend/internal/bounded"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "MemoryUnhealthy"

// Options of the check.
type Options struct {
	// Exclude are patterns of names, as of path.Match, of modules whose errors do not count, such
	// as that of one which is to be exchanged: the label, or the place, or the kernel's name.
	Exclude []string
	// MaxCorrected is how many errors of a module may be corrected within a day, and
	// MaxOffline how many pages the kernel may have put out of use; 0: that is not looked at.
	MaxCorrected, MaxOffline int
	// StateFile keeps what was counted before; empty: memory does.
	StateFile string
	// BootID is the kernel's.
	BootID string
	// LookOnly is whether StateFile is only read.
	LookOnly bool
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// Sys and Proc are where sysfs and procfs are mounted; empty: /sys and /proc.
	Sys, Proc string
	Clock     clock.Clock
}

// Check is the check of the node's memory.
type Check struct {
	options Options
	files   files
	look    bounded.Single[seen]
	kept    counters.File[known]
	known   known
}

var _ checks.Check = (*Check)(nil)

// New returns a check. Its error is [checks.Off] if nobody counts errors, or did.
func New(options Options) (*Check, error) {
	if options.Sys == "" {
		options.Sys = "/sys"
	}
	if options.Proc == "" {
		options.Proc = "/proc"
	}
	c := &Check{
		options: options, files: files{options.Sys, options.Proc},
		kept: counters.File[known]{Path: options.StateFile, LookOnly: options.LookOnly, Clock: options.Clock},
	}
	// A driver may come later than the detector. If it can't be seen now whether there was or is one,
	// runs say so.
	never, err := bounded.Within(options.Clock, options.Timeout, func() bool {
		before, err := c.kept.Peek()
		return err == nil && len(before.Modules) == 0 && len(c.files.controllers()) == 0
	})
	if err == nil && never {
		return nil, checks.Off{Why: "no driver of the kernel (EDAC) counts errors of the memory, as in a virtual machine"}
	}
	return c, nil
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Run implements checks.Check.
func (c *Check) Run(ctx context.Context) checks.Result {
	got, waited, err := c.look.Call(ctx, c.options.Clock, c.options.Timeout/2, c.files.look)
	switch {
	case err != nil:
		return checks.CannotTell(ReasonNotSeen, fmt.Sprintf("the kernel has not told of the memory for %s", waited.Round(time.Second)))
	case got.err != nil:
		return checks.CannotTell(ReasonNotSeen, got.err.Error())
	case len(got.controllers) == 0:
		return checks.CannotTell(ReasonNotSeen, "the driver that counted errors of the memory (EDAC) is gone; load it, or switch the check off, or remove its state file")
	}
	if before, first := c.kept.Load(ctx); first {
		c.known = before
	}
	result := c.known.judge(got, c.options, c.options.Clock.Now())
	c.kept.Save(ctx, c.known)
	if err := c.kept.Unread(); err != nil && result.Status == checks.False {
		return checks.CannotTell(ReasonNotSeen, fmt.Sprintf("what was counted before is not known: %v", err))
	}
	return result
}
