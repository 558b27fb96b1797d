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
)

// lockPoll is how often a held lock is tried.
const lockPoll = 200 * time.Millisecond

// Lock waits until this process is the only runner of the node, as far as they use
// the same directory, which is made if it is not there. Before it waits it calls
// waiting. Closing the file, or the end of the process, gives the lock back.
//
// A process ends when the last of its threads does, which one that hangs in the kernel does
// not: on a dead disk, for ever. So a process that was killed loses the lock, too.
func Lock(ctx context.Context, dir string, waiting func()) (*os.File, error) {
	return lockIn(ctx, dir, "/proc", waiting)
}

// lockIn looks for processes in proc.
func lockIn(ctx context.Context, dir, proc string, waiting func()) (lock *os.File, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the runner's lock: %w", err)
	}
	self, err := itself()
	if err != nil {
		return nil, fmt.Errorf("finding out for the runner's lock which process this is: %w", err)
	}
	told := false
	err = wait.PollUntilContextCancel(ctx, lockPoll, true, func(context.Context) (bool, error) {
		lock, err = tryLock(dir, proc, self)
		if lock == nil && err == nil && !told {
			told = true
			waiting()
		}
		return lock != nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", lockFile(dir), err)
	}
	return lock, nil
}

func lockFile(dir string) string { return filepath.Join(dir, "lock") }

// tryLock returns the lock, or nil if another process has it. One process at a time tries: so
// the file always names the process that has locked it, and is replaced by one of those who find
// that this process was killed.
func tryLock(dir, proc string, self holder) (*os.File, error) {
	one, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = one.Close() }() // nothing was written to it
	if locked, err := flock(one); !locked {
		return nil, err
	}
	file, err := os.OpenFile(lockFile(dir), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	locked, err := flock(file)
	if err == nil && locked {
		err = self.write(file)
	}
	if err == nil && locked {
		return file, nil
	}
	killed := err == nil && holderIn(file).killed(proc, self.Namespace)
	if err = errors.Join(err, file.Close()); err != nil || !killed {
		return nil, err
	}
	return replaceLock(dir, self)
}

// replaceLock puts another file in the place of one that a killed process has locked. Whoever
// locks the old one later has nothing.
func replaceLock(dir string, self holder) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".lock-*")
	if err != nil {
		return nil, err
	}
	locked, err := flock(file)
	if err == nil && !locked {
		err = fmt.Errorf("%s was locked by another process", file.Name())
	}
	if err == nil {
		err = self.write(file)
	}
	if err == nil {
		err = os.Rename(file.Name(), lockFile(dir))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return file, nil
}

// flock locks a file, unless another process has.
func flock(file *os.File) (locked bool, err error) {
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
