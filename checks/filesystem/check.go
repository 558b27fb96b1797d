// Package filesystem checks the file systems on the node's own disks: by what the kernel
// tells of them, by asking each of them, and by writing to some.
package filesystem

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/internal/bounded"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "FilesystemUnhealthy"

// Options of the check.
type Options struct {
	// Ignore are folders. A file system is not looked at if all that is mounted of it is
	// mounted there or below.
	Ignore []string
	// Write are folders in which a block is written and synced, unless they do not exist.
	Write []string
	// MaxWait is how long an answer, or the block, may take. Required.
	MaxWait time.Duration
	// MinAvailable is how much, in percent, has to be available of the space and of the
	// inodes. A file system of more than 100 GiB counts as one of 100 GiB, one of more than a
	// million inodes as one of a million.
	MinAvailable int
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// Process is a folder of /proc: whose view of the file systems counts; empty: that of
	// the process 1, which has the host's.
	Process string
	// Sys is where sysfs is mounted; empty: /sys.
	Sys   string
	Clock clock.PassiveClock
}

// Check is the check of all file systems of this node.
type Check struct {
	options Options
	// looks are those of this run, and those of former ones that have not returned, by what
	// they look at. Nothing is looked at anew before the last look at it has returned.
	looks map[string]*look
}

var _ checks.Check = (*Check)(nil)

// New returns a check. It looks at nothing before the first run.
func New(options Options) *Check {
	if options.Process == "" {
		options.Process = checks.HostProcess
	}
	if options.Sys == "" {
		options.Sys = "/sys"
	}
	return &Check{options: options, looks: map[string]*look{}}
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Run implements checks.Check. What hangs is left on its goroutine, at most one for each
// file system and for each folder.
func (c *Check) Run(ctx context.Context) checks.Result {
	if err := checks.SeesHost(c.options.Process); err != nil {
		return checks.CannotTell(ReasonNotSeen, err.Error())
	}
	systems, err := c.mounted()
	if err != nil {
		return checks.CannotTell(ReasonNotSeen, fmt.Sprintf("the host's file systems are not seen: %v", err))
	}
	root := filepath.Join(c.options.Process, "root")
	c.forget()
	for _, f := range systems {
		c.look("file system "+f.device.String(), func() found { return examine(root, f) })
	}
	for _, folder := range c.options.Write {
		c.look(folder, func() found { return write(root, folder) })
	}
	c.wait(ctx)
	if errors.Is(ctx.Err(), context.Canceled) {
		return checks.CannotTell(ReasonInterrupted, "the run was interrupted")
	}
	return c.judge(systems)
}

// mounted returns what is mounted.
func (c *Check) mounted() ([]fileSystem, error) {
	file, err := os.Open(filepath.Join(c.options.Process, "mountinfo"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // was only read
	systems, err := parseMounts(file, c.options.Ignore)
	if err != nil {
		return nil, err
	}
	for i := range systems {
		systems[i].readErrors(c.options.Sys)
	}
	return systems, nil
}

// forget forgets the looks that have returned.
func (c *Check) forget() {
	for name, l := range c.looks {
		if l.Returned() {
			delete(c.looks, name)
		}
	}
}

// look begins a look, unless one is under way.
func (c *Check) look(name string, what func() found) {
	if c.looks[name] == nil {
		c.looks[name] = &look{bounded.Start(what), c.options.Clock.Now()}
	}
}

// wait waits for all looks, for most of the time that a run has.
func (c *Check) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout*9/10)
	defer cancel()
	for _, l := range c.looks {
		select {
		case <-l.Done():
		case <-ctx.Done():
		}
	}
}

// seen returns what a look has found, or how long it is waited for.
func (c *Check) seen(name string) (found, *waiting) {
	l := c.looks[name]
	if !l.Returned() {
		return found{}, &waiting{c.options.Clock.Since(l.began)}
	}
	return l.Value(), nil
}

func (c *Check) judge(systems []fileSystem) checks.Result {
	var findings []finding
	var written, out []string
	for _, folder := range c.options.Write {
		seen, w := c.seen(folder)
		f, there := writing(folder, seen, w, c.options)
		switch {
		case !there:
			out = append(out, folder)
		case f.Reason == "":
			written = append(written, folder)
		default:
			findings = append(findings, f)
		}
	}
	for _, f := range systems {
		seen, w := c.seen("file system " + f.device.String())
		findings = append(findings, f.problems(seen, w, c.options)...)
	}
	if len(systems) == 0 && len(written) == 0 && len(findings) == 0 {
		return checks.CannotTell(ReasonNotSeen, "there is no file system that is looked at, and no folder in which a block can be written")
	}
	healthy := fmt.Sprintf("%d file systems answer", len(systems))
	if len(written) > 0 {
		healthy += "; a block was written in " + strings.Join(written, ", ")
	}
	if len(out) > 0 {
		healthy += "; none can be written in " + strings.Join(out, ", ")
	}
	return verdict(findings, healthy)
}
