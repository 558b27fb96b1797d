package systemlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks/npd"
)

// counterBuffer is how many lines a pattern of node-problem-detector's log-counter can span.
const counterBuffer = 1000

// CountOptions say which entries of the journal [Count] counts, as the flags of
// node-problem-detector's log-counter do.
type CountOptions struct {
	// Source is the SYSLOG_IDENTIFIER of the entries. Required.
	Source string
	// Directory is where the journal is; empty: where journalctl looks.
	Directory string
	// Lookback and Delay are durations, or empty. Entries count that are not older than
	// Lookback, nor than the boot and Delay.
	Lookback, Delay string
	// Pattern adds one for each entry up to which it matches; RevertPattern, if there is one,
	// takes one off.
	Pattern, RevertPattern string
	// Journalctl is the command; journalctl from the PATH if empty.
	Journalctl string
	// Clock is the host's. Required.
	Clock clock.Clock

	uptime func() (time.Duration, error) // of the host; nil: ask it
}

// counter counts in the order of the journal.
type counter struct {
	from, until time.Time
	buffer      *buffer
	add, remove *pattern
	entries     int
	count       int
}

// Count counts the entries of the journal that were written before it was called. That there
// is none at all in the journal, of any source, is an error.
func Count(ctx context.Context, o CountOptions) (int, error) {
	if err := o.validate(); err != nil {
		return 0, err
	}
	if o.uptime == nil {
		o.uptime = npd.Uptime
	}
	uptime, err := o.uptime()
	if err != nil {
		return 0, err
	}
	now := o.Clock.Now()
	from, err := npd.StartTime(now, uptime, o.Lookback, o.Delay)
	if err != nil {
		return 0, err
	}
	c := counter{from: from, until: now, buffer: newBuffer(counterBuffer), add: newPattern(o.Pattern)}
	if o.RevertPattern != "" {
		c.remove = newPattern(o.RevertPattern)
	}
	j := &journal{command: cmp.Or(o.Journalctl, "journalctl"), directory: o.Directory, source: o.Source, clock: o.Clock}
	err = j.tell(ctx, &c)
	return c.count, err
}

func (o CountOptions) validate() error {
	found := &mistakes{file: "log-counter"}
	if o.Source == "" {
		found.add("--journald-source", "is empty; the SYSLOG_IDENTIFIER of the entries is needed, such as kernel")
	}
	if o.Lookback != "" {
		found.duration("--lookback", o.Lookback)
	}
	if o.Delay != "" {
		found.duration("--delay", o.Delay)
	}
	if o.Pattern != "" {
		found.pattern("--pattern", o.Pattern, `\z`)
	}
	if o.RevertPattern != "" {
		found.pattern("--revert-pattern", o.RevertPattern, `\z`)
	}
	return errors.Join(found.found...)
}

// tell hands all entries since a time to a counter.
func (j *journal) tell(ctx context.Context, c *counter) error {
	cmd, stderr := j.journalctl(j.since(c.from), func(line []byte) error {
		e, err := parseJournalEntry(line)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Entry of the journal is passed over", "bytes", len(line))
			return nil
		}
		c.take(e)
		return ctx.Err()
	})
	// In the group of this process, so that who kills that kills journalctl.
	inGroup := exec.CommandContext(ctx, j.command, cmd.Args[1:]...)
	inGroup.Stdout, inGroup.Stderr, inGroup.WaitDelay = cmd.Stdout, cmd.Stderr, cmd.WaitDelay
	if err := inGroup.Start(); err != nil {
		return startError(err)
	}
	if err := inGroup.Wait(); err != nil {
		return fmt.Errorf("%s could not read the journal: %w; it said %q", j.command, err, said(stderr))
	}
	if c.entries > 0 {
		return nil
	}
	_, err := j.newest(ctx) // an error if the journal has no entry at all
	return err
}

func (c *counter) take(e *journalEntry) {
	c.entries++
	if e.Timestamp.Before(c.from) || e.Timestamp.After(c.until) {
		return
	}
	c.buffer.push(&e.logLine)
	if _, _, found := c.buffer.match(c.add); found {
		c.count++
	}
	if c.remove == nil {
		return
	}
	if _, _, found := c.buffer.match(c.remove); found {
		c.count--
	}
}
