package counters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/atomicfile"
	"github.com/nodemend/nodemend/internal/bounded"
)

const (
	// limit is how long the file may take to be read or written.
	limit = 2 * time.Second
	// maxSize is far more than what any node has.
	maxSize = 4 << 20
)

// File keeps a value in a file, whose disk may hang. It is used by one goroutine at a time.
type File[T any] struct {
	// Path of the file, whose folder is created; empty: nothing is kept.
	Path string
	// LookOnly is whether the file is only read: a person looks, and the detector's memory is
	// not theirs to change.
	LookOnly bool
	// Disposable is whether a file that can't be understood is replaced, as one of which what it
	// has is known again soon.
	Disposable bool
	Clock      clock.Clock

	loaded bool
	// unread is why it is not known what the file has.
	unread error
	read   bounded.Single[loaded[T]]
	write  bounded.Single[written]
	// kept is what the file has.
	kept []byte
}

type loaded[T any] struct {
	value T
	err   error
}

type written struct {
	data []byte
	err  error
}

// Load returns what the file has, once: the zero value if there is no file. It returns false as
// long as that is not known, since the disk does not answer or the file is damaged, and again from
// then on.
func (f *File[T]) Load(ctx context.Context) (value T, first bool) {
	if f.loaded {
		return value, false
	}
	if f.Path == "" {
		f.loaded = true
		return value, true
	}
	path := f.Path
	got, waited, err := f.read.Call(ctx, f.Clock, limit, func() loaded[T] {
		value, err := load[T](path)
		return loaded[T]{value, err}
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "What was remembered can't be read", "file", path, "waited", waited)
		f.unread = fmt.Errorf("the disk of %s does not answer", path)
		return value, false
	}
	if got.err != nil && f.Disposable {
		klog.FromContext(ctx).Error(got.err, "What was remembered can't be read, and is given up", "file", path)
		f.loaded, f.unread = true, nil
		return value, true
	}
	if got.err != nil {
		klog.FromContext(ctx).Error(got.err, "What was remembered can't be read", "file", path)
		f.unread = fmt.Errorf("%w; if that does not end, remove the file: then all is as at the first look", got.err)
		return value, false
	}
	f.loaded, f.unread = true, nil
	return got.value, true
}

// Unread is why it is not known what the file has; nil once it is.
func (f *File[T]) Unread() error { return f.unread }

// Peek returns what the file has now, and the zero value if there is none. It takes as long as the disk.
func (f *File[T]) Peek() (value T, err error) {
	if f.Path == "" {
		return value, nil
	}
	return load[T](f.Path)
}

func load[T any](path string) (value T, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return value, nil
	}
	if err != nil {
		return value, err
	}
	defer func() { _ = file.Close() }() // was only read
	data, err := io.ReadAll(io.LimitReader(file, maxSize))
	if err != nil {
		return value, err
	}
	var whole T
	if err := json.Unmarshal(data, &whole); err != nil {
		return value, fmt.Errorf("%s: %w", path, err)
	}
	return whole, nil
}

// Save writes the value unless the file has it already. What can't be written is tried again
// by the next call, and is in memory until then. Before Load has returned something, nothing
// is written.
func (f *File[T]) Save(ctx context.Context, value T) {
	if f.Path == "" || f.LookOnly || !f.loaded {
		return
	}
	data, err := json.Marshal(value)
	if err != nil {
		klog.FromContext(ctx).Error(err, "What is to be remembered can't be written", "file", f.Path)
		return
	}
	if bytes.Equal(data, f.kept) {
		return
	}
	path := f.Path
	done, _, err := f.write.Call(ctx, f.Clock, limit, func() written {
		return written{data, atomicfile.Replace(path, append(data, '\n'))}
	})
	if err == nil {
		err = done.err
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "What is remembered is kept in memory only", "file", f.Path)
		return
	}
	f.kept = done.data
}
