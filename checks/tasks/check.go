// Package tasks checks whether processes or threads wait in the kernel and are not woken
// up: for a disk, a server of files or a lock.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/counters"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "TasksBlocked"

// calm is the load below which no task can have waited for a minute: one alone brings it
// to 0.63 by then.
const calm = 0.5

// Options of the check.
type Options struct {
	// MaxBlocked is how long a task may wait without being woken up once. Required.
	MaxBlocked time.Duration
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// StateFile keeps since when tasks wait; empty: memory does. LookOnly is whether it is only
	// read.
	StateFile string
	LookOnly  bool
	// BootID is the kernel's.
	BootID string
	// Proc is where the host's /proc is mounted; empty: /proc.
	Proc string
	// Uptime is how long ago the node has booted; nil: the kernel tells.
	Uptime func() time.Duration
	Clock  clock.Clock
}

// Check is the check of all tasks of the node.
type Check struct {
	options Options
	watched watched
	kept    counters.File[known]
}

var _ checks.Check = (*Check)(nil)

// New returns a check. It looks at nothing before the first run.
func New(options Options) *Check {
	if options.Proc == "" {
		options.Proc = procfs.DefaultMountPoint
	}
	if options.Uptime == nil {
		options.Uptime = uptime
	}
	return &Check{options: options, kept: counters.File[known]{
		// Who waits is seen anew at once, and since when after MaxBlocked.
		Path: options.StateFile, LookOnly: options.LookOnly, Disposable: true, Clock: options.Clock,
	}}
}

// uptime is how long ago the node has booted, without the time for which it was suspended: it is the
// same clock for all processes, and nobody sets it.
func uptime() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // fails for unknown clocks only
	return time.Duration(now.Nano())
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Run implements checks.Check. It reads only what the kernel tells without waiting for the
// task.
func (c *Check) Run(ctx context.Context) checks.Result {
	if err := checks.SeesHost(filepath.Join(c.options.Proc, "1")); err != nil {
		return checks.CannotTell(ReasonNotSeen, err.Error())
	}
	host, err := procfs.NewFS(c.options.Proc)
	if err != nil {
		return checks.CannotTell(ReasonNotSeen, err.Error())
	}
	waiting, err := blocked(ctx, host)
	if err != nil {
		return checks.CannotTell(ReasonNotSeen, err.Error())
	}
	now := c.options.Uptime()
	if before, first := c.kept.Load(ctx); first {
		c.watched.recall(before, c.options.BootID, now)
	}
	result := c.watched.judge(waiting, now, c.options.MaxBlocked)
	c.kept.Save(ctx, c.watched.remember(c.options.BootID, now))
	if err := c.kept.Unread(); err != nil && result.Status == checks.Unknown {
		result.Message += fmt.Sprintf("; what was seen before is not known: %v", err)
	}
	return result
}

// blocked returns the tasks that wait now. Nobody is looked at if the load shows that none
// has waited for a minute.
func blocked(ctx context.Context, host procfs.FS) (waiting []task, err error) {
	load, err := host.LoadAvg()
	if err != nil {
		return nil, err
	}
	if load.Load1 < calm {
		return nil, nil
	}
	processes, err := host.AllProcs()
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the node has too many tasks to look at all of them: %w", ctx.Err())
		}
		threads, err := host.AllThreads(process.PID)
		if ended(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, thread := range threads {
			t, waits, err := look(process.PID, thread)
			if err != nil && !ended(err) {
				return nil, err
			}
			if err == nil && waits {
				waiting = append(waiting, t)
			}
		}
	}
	return waiting, nil
}

// look returns what a thread waits for, if it does.
func look(process int, thread procfs.Proc) (t task, waits bool, err error) {
	stat, err := thread.Stat()
	if err != nil || stat.State != "D" {
		return task{}, false, err
	}
	status, err := thread.NewStatus()
	if err != nil {
		return task{}, false, err
	}
	t = task{
		process: process, thread: thread.PID, name: stat.Comm, started: stat.Starttime,
		switches: status.VoluntaryCtxtSwitches + status.NonVoluntaryCtxtSwitches,
	}
	t.in, err = thread.Wchan()
	return t, !meant(t.in), err
}

// ended is whether an error says that a task is gone.
func ended(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }
