package hostunits

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// claimAge is how old a claim can get before it counts for nothing.
const claimAge = 3 * time.Minute

// The lock of a claim is held for a few system calls: it is tried every lockPoll, and for
// lockLimit, as an installer may be frozen.
const (
	lockPoll  = 100 * time.Millisecond
	lockLimit = 10 * time.Second
)

// claim is a file of the host that says which installer looks after a unit. While
// the pod is replaced there may be two for a moment: the later one takes the claim
// over, and the earlier one keeps its hands off, or they would undo each other's
// work. It takes the claim back if the later one has gone. The file is read and written under
// its lock (flock), which ends with the process that has it.
type claim struct {
	path string
	id   types.UID
}

type claimContent struct {
	ID      types.UID `json:"id"`
	Renewed time.Time `json:"renewed"`
}

// take makes the claim ours, whoever had it.
func (c claim) take(ctx context.Context) error {
	return c.locked(ctx, os.O_CREATE, c.write)
}

// renew renews the claim and reports whether it is ours. One that is gone or has got
// too old is taken.
func (c claim) renew(ctx context.Context) (ours bool, err error) {
	err = c.locked(ctx, os.O_CREATE, func(f *os.File) error {
		holder, err := holderIn(f)
		if err != nil || holder != "" && holder != c.id {
			return err
		}
		ours = true
		return c.write(f)
	})
	return ours && err == nil, err
}

// release gives the claim up if it is ours.
func (c claim) release(ctx context.Context) error {
	return c.ofFile(ctx, func(f *os.File) error {
		if holder, err := holderIn(f); err != nil || holder != c.id {
			return err
		}
		return os.Remove(c.path)
	})
}

// holder returns which installer has the claim; empty if none that is alive has.
func (c claim) holder(ctx context.Context) (id types.UID, err error) {
	err = c.ofFile(ctx, func(f *os.File) error {
		id, err = holderIn(f)
		return err
	})
	return id, err
}

// ofFile is locked for a file that need not be there: then nothing is called.
func (c claim) ofFile(ctx context.Context, use func(*os.File) error) error {
	if err := c.locked(ctx, 0, use); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// locked calls use with the file, which nobody else uses meanwhile. It is opened with these
// flags, too.
func (c claim) locked(ctx context.Context, flags int, use func(*os.File) error) error {
	if flags&os.O_CREATE != 0 {
		if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
			return err
		}
	}
	err := wait.PollUntilContextTimeout(ctx, lockPoll, lockLimit, true, func(context.Context) (bool, error) {
		f, err := os.OpenFile(c.path, os.O_RDWR|unix.O_NOFOLLOW|flags, 0o600)
		if err != nil {
			return false, err
		}
		defer func() { _ = f.Close() }() // which unlocks; it is written without a buffer
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case err != nil:
			return false, err
		case !c.is(f): // it was released meanwhile
			return false, nil
		}
		return true, use(f)
	})
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case wait.Interrupted(err):
		return fmt.Errorf("another installer has kept %s locked for %s: is its pod frozen?", c.path, lockLimit)
	default:
		return fmt.Errorf("claiming that this installer looks after the unit: %w", err)
	}
}

// is reports whether f is the file that others see.
func (c claim) is(f *os.File) bool {
	opened, err := f.Stat()
	seen, seenErr := os.Lstat(c.path)
	return err == nil && seenErr == nil && os.SameFile(opened, seen)
}

// write makes the claim ours. It is cut last, so that at no time nobody has it.
func (c claim) write(f *os.File) error {
	content, err := json.Marshal(claimContent{ID: c.id, Renewed: time.Now()})
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(content)))
}

// holderIn returns the installer that has the claim in f; empty if none that is alive has.
func holderIn(f *os.File) (types.UID, error) {
	const most = 4 << 10
	data, err := io.ReadAll(io.NewSectionReader(f, 0, most))
	if err != nil {
		return "", fmt.Errorf("reading which installer looks after the unit: %w", err)
	}
	var content claimContent
	if json.Unmarshal(data, &content) != nil {
		return "", nil //nolint:nilerr // what nobody can read claims nothing
	}
	if age := time.Since(content.Renewed); age > claimAge || age < -claimAge { // the clock may have been set
		return "", nil
	}
	return content.ID, nil
}
