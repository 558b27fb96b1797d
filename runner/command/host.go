package command

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// hostTime is how long the host's file systems may take to answer.
const hostTime = 2 * time.Second

// openInHost opens a path as the host's process 1 would, also where its symbolic
// links are absolute.
func openInHost(hostProc, path string, flags uint64) (*os.File, error) {
	root, err := unix.Open(filepath.Join(hostProc, "1", "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the host's root directory: %w", err)
	}
	defer func() { _ = unix.Close(root) }()
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// within returns what f returns, or false if f takes longer: then nobody waits for it
// any more. That is for what touches the host's file systems, one of which may be what
// is broken.
func within[T any](patience time.Duration, f func() T) (value T, ok bool) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case value = <-done:
		return value, true
	case <-enough.C:
		return value, false
	}
}

// sameOnHost reports whether a pipe of ours has this path on the host, too.
func sameOnHost(hostProc, path string) bool {
	same, _ := within(hostTime, func() bool { return hasSame(hostProc, path) })
	return same
}

func hasSame(hostProc, path string) bool {
	ours, err := os.Lstat(path)
	if err != nil {
		return false
	}
	file, err := openInHost(hostProc, path, unix.O_PATH)
	if err != nil {
		return false
	}
	theirs, err := file.Stat()
	return errors.Join(err, file.Close()) == nil && theirs.Mode() == ours.Mode()
}
