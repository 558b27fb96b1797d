package systemlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// pollInterval is how often a file is looked at.
	pollInterval = 500 * time.Millisecond
	// maxMissing is for how long a file may be missing while it is rotated.
	maxMissing = 10 * time.Second
	// maxUndated is how many lines a file may have of which none has a time stamp,
	// before the configuration counts as wrong.
	maxUndated = 100
	// progressLines is how many lines may be passed over in silence.
	progressLines = 10_000
)

// file reads a text file, through rotation by renaming and by truncation. It does
// not look into files that were rotated away before it was started.
type file struct {
	path       string
	skip       []string
	translator translator
	clock      clock.Clock
}

func (f file) read(ctx context.Context, from time.Time, out chan<- entry, _ <-chan struct{}) error {
	wanted := &since{from: from.Truncate(time.Second), opened: f.clock.Now()} // most stamps are no finer
	lines := f.newLines(ctx, wanted, out)
	t := &tail{path: f.path}
	if err := t.open(); err != nil {
		return err
	}
	defer t.close()
	buffer := make([]byte, 32<<10)
	for {
		began := f.clock.Now()
		state, err := t.look(began)
		if err != nil {
			return err
		}
		if state == truncated {
			lines.reset()
			wanted.caughtUp = false // it may have been written anew
		}
		n, err := io.CopyBuffer(lines, t, buffer)
		if err != nil {
			return fmt.Errorf("reading %s: %w", f.path, err)
		}
		switch {
		case state == replaced && n == 0: // what was written to the old one has ended
			if err := errors.Join(lines.end(), t.open()); err != nil {
				return err
			}
			continue
		case state == unchanged || state == truncated:
			if err := lines.usable(); err != nil {
				return err
			}
			wanted.caughtUp = true
			if err := put(ctx, out, entry{readUpTo: began}); err != nil {
				return err
			}
		}
		if err := pause(ctx, f.clock, pollInterval); err != nil {
			return err
		}
	}
}

// fileLines makes log entries of a file's lines.
type fileLines struct {
	lineWriter
	path                   string
	dated, undated, passed int
}

func (f file) newLines(ctx context.Context, wanted *since, out chan<- entry) *fileLines {
	lines := &fileLines{path: f.path}
	lines.emit = func(line []byte) error {
		if log := f.parse(ctx, lines, string(line)); log != nil && wanted.wants(log.Timestamp) {
			return put(ctx, out, entry{log: log})
		}
		lines.passed++
		if lines.passed%progressLines == 0 {
			return put(ctx, out, entry{})
		}
		return ctx.Err()
	}
	return lines
}

// parse returns nil for a line that is to be passed over.
func (f file) parse(ctx context.Context, lines *fileLines, line string) *logLine {
	for _, skipped := range f.skip {
		if strings.Contains(line, skipped) {
			return nil
		}
	}
	log, err := f.translator.translate(line)
	if errors.Is(err, errUndated) {
		lines.undated++
	} else {
		lines.dated++
	}
	if err != nil {
		klog.FromContext(ctx).V(5).Info("Line of the log is passed over", "file", f.path, "line", line, "reason", err.Error())
		return nil
	}
	return log
}

// end hands on a last line that lacks its newline.
func (l *fileLines) end() error {
	if len(l.pending) == 0 {
		return nil
	}
	return l.flush()
}

// usable returns an error if the lines are not of the format that is configured.
func (l *fileLines) usable() error {
	if l.dated == 0 && l.undated >= maxUndated {
		return fmt.Errorf("%s: none of its %d lines has a time stamp as pluginConfig.%s and pluginConfig.%s say; correct them",
			l.path, l.undated, keyTimestamp, keyTimestampFormat)
	}
	return nil
}

// tail is an open file and what has become of its path.
type tail struct {
	path    string
	file    *os.File
	offset  int64
	missing time.Time // since when nothing is at path; zero if something is
}

type tailState int

const (
	unchanged tailState = iota
	truncated           // and to be read from its start again
	replaced            // another file is at path
	missing             // nothing is at path, yet
)

// open begins with the file that is at path now.
func (t *tail) open() error {
	// Without O_NONBLOCK a named pipe would block.
	file, err := os.OpenFile(t.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file: set logPath to one", t.path)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	t.close()
	t.file, t.offset = file, 0
	return nil
}

func (t *tail) close() {
	if t.file != nil {
		_ = t.file.Close() // it was only read
	}
}

// Read continues where the last one ended.
func (t *tail) Read(p []byte) (int, error) {
	n, err := t.file.Read(p)
	t.offset += int64(n)
	return n, err
}

func (t *tail) look(now time.Time) (tailState, error) {
	current, err := t.file.Stat()
	if err != nil {
		return unchanged, err
	}
	atPath, err := os.Stat(t.path)
	if !errors.Is(err, fs.ErrNotExist) {
		t.missing = time.Time{}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if t.missing.IsZero() {
			t.missing = now
		}
		if gone := now.Sub(t.missing); gone > maxMissing {
			return missing, fmt.Errorf("the log is missing for %s: %w", gone, err)
		}
		return missing, nil
	case err != nil:
		return unchanged, err
	case !os.SameFile(current, atPath):
		return replaced, nil
	case current.Size() < t.offset:
		t.offset = 0
		_, err = t.file.Seek(0, io.SeekStart)
		return truncated, err
	default:
		return unchanged, nil
	}
}
