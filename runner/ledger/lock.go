package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/internal/thread"
)

// lockPoll is how often a held lock is tried.
const lockPoll = 200 * time.Millisecond

// Lock waits until this process is the only runner of the node, as far as they use
// the same directory, which is made if it is not there. Before it waits it calls
// waiting. The lock is given back by release, and when the process is killed or exits: even if
// threads of it hang in the kernel, for ever as on a dead disk. They execute nothing any more.
// What was a side effect of their last call in the kernel has its order in the ledger.
func Lock(ctx context.Context, dir string, waiting func()) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the runner's lock: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the runner's lock: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written to it
	told := false
	err = wait.PollUntilContextCancel(ctx, lockPoll, true, func(context.Context) (bool, error) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			if !told {
				told = true
				waiting()
			}
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", f.Name(), err)
	}
	return thread.Hold(f)
}
