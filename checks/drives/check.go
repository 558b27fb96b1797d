// Package drives checks the node's own drives and their arrays (md): by what the kernel tells
// of them, and by what drives tell of themselves.
package drives

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/counters"
	"github.com/nodemend/nodemend/internal/bounded"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "DrivesUnhealthy"

// Options of the check.
type Options struct {
	// Exclude are patterns of names, as of path.Match, of drives and arrays that are not
	// looked at; of drives also of what tells them from all others.
	Exclude []string
	// Health is whether drives are asked how they are, HealthInterval how often, and MaxWait
	// how long an answer may take. The latter two are required.
	Health                  bool
	HealthInterval, MaxWait time.Duration
	// MaxMediaErrors is how many blocks of a drive may be lost within a day, MaxErrors how
	// many requests since the last run may fail, in percent, and MaxUsed how much of a drive's
	// life may be used, in percent; 0: that is not looked at.
	MaxMediaErrors, MaxErrors, MaxUsed int
	// StateFile keeps what was seen before; empty: memory does.
	StateFile string
	// LookOnly is whether StateFile is only read.
	LookOnly bool
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// Sys is where sysfs is mounted, and Dev the folder of devices; empty: /sys and /dev.
	Sys, Dev string
	// Ask asks a drive how it is; nil: the kernel does.
	Ask   func(drive) health
	Clock clock.Clock
}

// Check is the check of the node's drives.
type Check struct {
	options Options
	look    bounded.Single[inventory]
	asked   map[string]*asked
	kept    counters.File[known]
	known   known
	// traffic is what was requested of drives at the last run.
	traffic map[string]requests
}

var _ checks.Check = (*Check)(nil)

// asked is what a drive has told.
type asked struct {
	call bounded.Single[health]
	// done is how many requests of others it had carried out when it was asked.
	done uint64
	// waited is how long its answer is waited for; 0: it has answered.
	waited time.Duration
	// answer is the last one, and at when it was; nil: there was none.
	answer *health
	at     time.Time
}

// New returns a check. Its error is [checks.Off] if the node neither has a drive that is looked at,
// or an array, nor had one.
func New(options Options) (*Check, error) {
	if options.Sys == "" {
		options.Sys = "/sys"
	}
	if options.Dev == "" {
		options.Dev = "/dev"
	}
	if options.Ask == nil {
		dev := options.Dev
		options.Ask = func(d drive) health { return ask(dev, d) }
	}
	c := &Check{
		options: options, asked: map[string]*asked{}, traffic: map[string]requests{},
		kept: counters.File[known]{Path: options.StateFile, LookOnly: options.LookOnly, Clock: options.Clock},
	}
	// If it can't be seen now whether there was or is one, runs say so.
	never, err := bounded.Within(options.Clock, options.Timeout, func() bool {
		before, err := c.kept.Peek()
		all := sys(options.Sys).look(options.Exclude)
		return err == nil && len(before.Drives) == 0 && all.err == nil && len(all.drives)+len(all.arrays) == 0
	})
	if err == nil && never {
		return nil, checks.Off{Why: "no drive of NVMe, SATA or SAS is the node's own, and no array (md)"}
	}
	return c, nil
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Run implements checks.Check. A drive that does not answer keeps one goroutine until it does.
func (c *Check) Run(ctx context.Context) checks.Result {
	all, waited, err := c.inventory(ctx)
	if err != nil {
		return checks.CannotTell(ReasonNotSeen, fmt.Sprintf("the kernel has not told of its drives for %s: a driver may wait for one", waited.Round(time.Second)))
	}
	if all.err != nil {
		return checks.CannotTell(ReasonNotSeen, all.err.Error())
	}
	if c.options.Health {
		c.askAll(ctx, all.drives)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return checks.CannotTell(ReasonNotSeen, "the run was interrupted")
	}
	if before, first := c.kept.Load(ctx); first {
		c.known = before
	}
	result := c.judge(all, c.options.Clock.Now())
	c.kept.Save(ctx, c.known)
	if err := c.kept.Unread(); err != nil && result.Status == checks.False {
		return checks.CannotTell(ReasonNotSeen, fmt.Sprintf("what was seen before is not known: %v", err))
	}
	return result
}

func (c *Check) inventory(ctx context.Context) (inventory, time.Duration, error) {
	folder, exclude := sys(c.options.Sys), c.options.Exclude
	return c.look.Call(ctx, c.options.Clock, c.options.Timeout*3/10, func() inventory { return folder.look(exclude) })
}

// askAll asks each drive whose answer is old, or was bad, each on its own.
func (c *Check) askAll(ctx context.Context, drives []drive) {
	var all bounded.Group
	there := map[string]bool{}
	for _, d := range drives {
		there[d.id] = true
		a := c.asked[d.id]
		if a == nil {
			a = &asked{}
			c.asked[d.id] = a
		}
		if a.waited == 0 {
			a.done = d.io.well()
		}
		if d.well() && a.due(c.options.Clock.Now(), c.options.HealthInterval) {
			all.Go(func() { a.ask(ctx, d, c.options) })
		}
	}
	all.Wait()
	for id, a := range c.asked {
		if !there[id] && a.waited == 0 {
			delete(c.asked, id)
		}
	}
	maps.DeleteFunc(c.traffic, func(id string, _ requests) bool { return !there[id] })
}

// due is whether the drive is to be asked.
func (a *asked) due(now time.Time, interval time.Duration) bool {
	const jitter = 10 // of intervals, in percent
	return a.answer == nil || a.waited > 0 || len(a.answer.findings) > 0 || a.answer.err != nil ||
		now.Sub(a.at) >= interval*(100-jitter)/100
}

// ask asks the drive, or waits further for its answer. One that sleeps is not told anything
// new: what it has said before holds.
func (a *asked) ask(ctx context.Context, d drive, o Options) {
	answer, waited, err := a.call.Call(ctx, o.Clock, o.Timeout/2, func() health {
		if d.asleep {
			return health{asleep: true}
		}
		return o.Ask(d)
	})
	if err != nil {
		a.waited = max(waited, 1)
		return
	}
	a.waited, a.at = 0, o.Clock.Now()
	if !answer.asleep || a.answer == nil {
		a.answer = &answer
	}
}
