package systemlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/child"
)

const (
	// outputGrace is how long after journalctl has ended its output is waited for.
	outputGrace = 500 * time.Millisecond
	// newestLimit is how long journalctl may take to name the newest entry.
	newestLimit = 5 * time.Second
	// killLimit is how long one that was killed is waited for: the kernel ends none that waits
	// for a disk.
	killLimit = 5 * time.Second
)

// errNotGone says that a journalctl which was killed hangs in the kernel.
var errNotGone = errors.New("a journalctl that was killed hangs in the kernel: the disk of the journal, or its own, does not answer")

// journal reads entries of the systemd journal through journalctl: one that
// follows the journal, and from time to time a second one that names the newest
// entry, as one that follows and is silent may as well hang.
type journal struct {
	command   string // journalctl, or its path
	directory string // where the journal is; empty: where journalctl looks
	source    string // the SYSLOG_IDENTIFIER of the entries that are read
	interval  time.Duration
	clock     clock.Clock

	mu sync.Mutex
	// left are those that hang: closed once they are gone.
	left []<-chan struct{}
}

func (j *journal) read(ctx context.Context, from time.Time, out chan<- entry, asked <-chan struct{}) error {
	if j.directory != "" {
		if _, err := os.Stat(j.directory); err != nil {
			return fmt.Errorf("looking for the journal: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	entries := make(chan *journalEntry, 100)
	cmd, stderr := j.journalctl(j.arguments(from), emit(ctx, entries))
	journalctl, err := j.start(cmd)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = journalctl.Wait(ctx) // State tells the same
	}()
	d := delivery{from: from, interval: j.interval, newest: j.newest, clock: j.clock, out: out}
	err = d.run(ctx, entries, ended, asked)
	cancel()
	if !j.gone(ended) {
		return errors.Join(err, errNotGone)
	}
	if errors.Is(err, errStreamEnded) {
		return fmt.Errorf("%s has ended (%s) after it said %q", j.command, journalctl.State(), said(stderr))
	}
	return err
}

// newest asks journalctl for the entry that was written last; nil if no entry is
// of the source that is read.
func (j *journal) newest(ctx context.Context) (*journalEntry, error) {
	newest, err := j.last(ctx, j.match())
	if newest == nil && err == nil {
		var other *journalEntry
		if other, err = j.last(ctx); other == nil && err == nil {
			err = errors.New("the journal has no entry at all: make the host's journal available to the detector")
		}
	}
	return newest, err
}

// last returns the last of the entries that match, or nil.
func (j *journal) last(ctx context.Context, matches ...string) (last *journalEntry, err error) {
	limited, cancel := context.WithTimeout(ctx, newestLimit)
	defer cancel()
	arguments := append(j.common(), "--lines=1", "--output-fields=SYSLOG_IDENTIFIER")
	var newest *journalEntry
	cmd, stderr := j.journalctl(append(arguments, matches...), func(line []byte) (err error) {
		newest, err = parseJournalEntry(line)
		return err
	})
	journalctl, err := j.start(cmd)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	var how error
	go func() {
		defer close(ended)
		how = journalctl.Wait(limited)
	}()
	select {
	case <-ended:
	case <-limited.Done():
		if !j.gone(ended) {
			return nil, errNotGone
		}
	}
	err = how
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && limited.Err() != nil:
		return nil, fmt.Errorf("%s has not named the newest entry within %s: it hangs", j.command, newestLimit)
	case err != nil:
		return nil, fmt.Errorf("%s could not name the newest entry: %w; it said %q", j.command, err, said(stderr))
	default:
		return newest, nil
	}
}

// start starts a journalctl, unless one hangs: each would.
func (j *journal) start(cmd *exec.Cmd) (*child.Child, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left = slices.DeleteFunc(j.left, func(gone <-chan struct{}) bool {
		select {
		case <-gone:
			return true
		default:
			return false
		}
	})
	if len(j.left) > 0 {
		return nil, errNotGone
	}
	journalctl, err := child.Start(cmd)
	if err != nil {
		return nil, startError(err)
	}
	return journalctl, nil
}

// gone waits for one that is killed, and reports whether it is gone. If not it is left behind.
func (j *journal) gone(ended <-chan struct{}) bool {
	limit := j.clock.NewTimer(killLimit)
	defer limit.Stop()
	select {
	case <-ended:
		return true
	case <-limit.C():
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left = append(j.left, ended)
	return false
}

// journalctl hands each line of its output to emit.
func (j *journal) journalctl(arguments []string, emit func(line []byte) error) (*exec.Cmd, *child.Head) {
	stderr := &child.Head{Limit: 1 << 10}
	path, err := exec.LookPath(j.command)
	return &exec.Cmd{
		Path: path, Err: err, Args: append([]string{j.command}, arguments...),
		Stdout: &lineWriter{emit: emit}, Stderr: stderr,
		WaitDelay: outputGrace,
	}, stderr
}

// said is what journalctl has written to its standard error.
func said(stderr *child.Head) string { return strings.TrimSpace(stderr.String()) }

func startError(err error) error {
	return fmt.Errorf("starting journalctl: %w; the plugin %s needs systemd's journalctl beside the detector", err, pluginJournald)
}

func (j *journal) match() string { return "SYSLOG_IDENTIFIER=" + j.source }

func (j *journal) common() []string {
	arguments := []string{"--output=json", "--no-pager", "--quiet"}
	if j.directory != "" {
		arguments = append(arguments, "--directory="+j.directory)
	}
	return arguments
}

// arguments are those of the journalctl that follows the journal.
func (j *journal) arguments(from time.Time) []string {
	return append(j.since(from), "--follow", "--no-tail")
}

// since are the arguments for the messages since a time.
func (j *journal) since(from time.Time) []string {
	if now := j.clock.Now(); from.After(now) { // its entries are passed over until then
		from = now
	}
	return append(j.common(), "--all", "--output-fields=MESSAGE",
		"--since=@"+strconv.FormatFloat(float64(from.UnixMicro())/1e6, 'f', 6, 64), j.match())
}

func emit(ctx context.Context, entries chan<- *journalEntry) func([]byte) error {
	return func(line []byte) error {
		e, err := parseJournalEntry(line)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Entry of the journal is passed over", "bytes", len(line))
			return nil
		}
		select {
		case entries <- e:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
