package thread

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Hold keeps an open file, with the lock on it, in a thread of its own until release is called
// or the process ends. The caller closes the file then.
//
// A process that was killed is there until each of its threads has left the kernel. One that
// waits for a dead disk never does, and what it shares with the others stays open. The thread
// of Hold shares no files, and waits for nothing that could hang, so a kill ends it at once.
// By then no other thread executes an instruction of the program any more: at most the kernel
// ends a call that one of them has made.
func Hold(file *os.File) (release func(), err error) {
	if err := startPoller(); err != nil {
		return nil, err
	}
	id := int(file.Fd())
	held, enough, released := make(chan error), make(chan struct{}), make(chan struct{})
	go Own(func() {
		defer close(released)
		err := unshareFiles()
		if err != nil {
			held <- err
			return
		}
		defer func() { _ = unix.Close(id) }() // a lock is all it was opened for
		err = closeAllBut(id)
		held <- err
		if err == nil {
			<-enough
		}
	})
	if err := <-held; err != nil {
		<-released
		return nil, fmt.Errorf("keeping %s open in a thread of its own: %w", file.Name(), err)
	}
	return sync.OnceFunc(func() {
		close(enough)
		<-released
	}), nil
}

// startPoller has Go open the files that each of its threads may use, which it does with the
// first pipe.
func startPoller() error {
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	_, _ = reader.Close(), writer.Close() // nothing was written
	return nil
}

// unshareFiles gives this thread a copy of the files that it has shared. Many containers that may
// not unshare may close files, with which the kernel can do the same since Linux 5.9.
func unshareFiles() error {
	const none = math.MaxUint32
	err := os.NewSyscallError("close_range", unix.CloseRange(none, none, unix.CLOSE_RANGE_UNSHARE))
	if err == nil {
		return nil
	}
	if unshareErr := unix.Unshare(unix.CLONE_FILES); unshareErr != nil {
		return errors.Join(err, os.NewSyscallError("unshare", unshareErr))
	}
	return nil
}

// closeAllBut closes the files of this thread but one, and those that Go needs in each: what
// only it and the kernel know, which has its poller, and where it writes why it ends the
// process. Anything else would keep pipes and connections of the other threads open, and at the
// end of this one could hang.
func closeAllBut(keep int) error {
	const dir = "/proc/thread-self/fd"
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, file := range files {
		id, err := strconv.Atoi(file.Name())
		if err != nil {
			return fmt.Errorf("%s has an entry %q", dir, file.Name())
		}
		what, err := os.Readlink(filepath.Join(dir, file.Name()))
		if errors.Is(err, fs.ErrNotExist) { // that of the directory itself
			continue
		}
		if err != nil {
			return err
		}
		if id != keep && id != unix.Stderr && !strings.HasPrefix(what, "anon_inode:") {
			_ = unix.Close(id) // closed it is in any case
		}
	}
	return nil
}
