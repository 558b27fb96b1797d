// Package exhaustion checks what a whole node, its kubelet and its runtime can run out of,
// while memory, processors and disks are free.
package exhaustion

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/checks"
)

// ConditionType is the node condition that the check owns.
const ConditionType = "ResourcesExhausted"

// Options of the check.
type Options struct {
	// MaxUsed is how much of a limit may be used, in percent. Required.
	MaxUsed int
	// Programs are those whose own limits are looked at, as /proc/PID/comm names them.
	Programs []string
	// Timeout is the deadline of a run. Required.
	Timeout time.Duration
	// Proc is where the host's /proc is mounted; empty: /proc.
	Proc string
	// Watch makes and ends an inotify watch; nil: the kernel's calls do.
	Watch func() error
}

// host is the host's /proc, and where it is.
type host struct {
	procfs.FS
	proc string
}

// numbers reads a setting of the kernel that has so many.
func (h host) numbers(name string, want int) ([]int, error) {
	got, err := h.SysctlInts(name)
	if err == nil && len(got) != want {
		err = fmt.Errorf("%s has %d numbers, want %d", name, len(got), want)
	}
	return got, err
}

// Check is the check of the node's limits.
type Check struct {
	options  Options
	programs programs
}

var _ checks.Check = (*Check)(nil)

// New returns a check. It looks at nothing before the first run.
func New(options Options) *Check {
	if options.Proc == "" {
		options.Proc = procfs.DefaultMountPoint
	}
	if options.Watch == nil {
		options.Watch = watch
	}
	return &Check{options: options, programs: programs{names: options.Programs}}
}

// Timeout implements checks.Check.
func (c *Check) Timeout() time.Duration { return c.options.Timeout }

// Run implements checks.Check. Nothing in it waits for anything.
func (c *Check) Run(context.Context) checks.Result {
	if err := checks.SeesHost(filepath.Join(c.options.Proc, "1")); err != nil {
		return checks.CannotTell(ReasonNotSeen, err.Error())
	}
	kernel, err := procfs.NewFS(c.options.Proc)
	if err != nil {
		return checks.CannotTell(ReasonNotSeen, err.Error())
	}
	var uses []use
	var errs []error
	for _, read := range []func(host) ([]use, error){fileHandles, processes, conntrack, c.programs.uses} {
		more, err := read(host{kernel, c.options.Proc})
		uses = append(uses, more...)
		if err != nil {
			errs = append(errs, err)
		}
	}
	found := findings(uses, c.options.MaxUsed)
	switch err := c.options.Watch(); {
	case err == nil:
	case errors.Is(err, unix.EMFILE):
		found = append(found, finding{Reason: ReasonInotify, Text: "root can make no more inotify instances (fs.inotify.max_user_instances)"})
	case errors.Is(err, unix.ENOSPC):
		found = append(found, finding{Reason: ReasonInotify, Text: "root can watch no more files by inotify (fs.inotify.max_user_watches)"})
	default:
		errs = append(errs, fmt.Errorf("inotify: %w", err))
	}
	return verdict(found, errs, len(uses)+1)
}

// watch makes and ends an inotify watch. Root's kubelet and runtime fail at that when it
// does; to count them would take a look at every file of every process.
func watch() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing was read of it
	_, err = unix.InotifyAddWatch(fd, "/", unix.IN_DELETE_SELF)
	return err
}

func fileHandles(host host) ([]use, error) {
	of, err := host.numbers("fs.file-nr", 3)
	if err != nil {
		return nil, err
	}
	// The second counts free ones, which Linux has not kept since 2.6.
	return []use{{reason: ReasonFileHandles, what: "file handles", used: uint64(of[0]), limit: uint64(of[2]), by: "fs.file-max"}}, nil
}

// conntrack reads the connections of the host's network. A kernel without them has none.
func conntrack(host host) ([]use, error) {
	first, err := procfs.NewFS(filepath.Join(host.proc, "1"))
	if err != nil {
		return nil, err
	}
	processors, err := first.ConntrackStat()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	limit, err := host.numbers("net.netfilter.nf_conntrack_max", 1)
	if err != nil {
		return nil, err
	}
	if len(processors) == 0 {
		return nil, errors.New("/proc/1/net/stat/nf_conntrack is empty")
	}
	return []use{{
		reason: ReasonConntrack, what: "connections", by: "net.netfilter.nf_conntrack_max",
		used: processors[0].Entries, limit: uint64(limit[0]), // each processor's line has all entries
	}}, nil
}
