package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/bounded"
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

// within returns what f returns, or nothing if the host's file systems, of which one may be what
// is broken, take longer than hostTime to answer.
func within[T any](f func() T) T {
	value, _ := bounded.Within(clock.RealClock{}, hostTime, f)
	return value
}

// sameOnHost reports whether a pipe of ours has this path on the host, too. An error says that
// nobody can know.
func sameOnHost(hostProc, path string) (bool, error) {
	type answer struct {
		same bool
		err  error
	}
	got, err := bounded.Within(clock.RealClock{}, hostTime, func() answer {
		same, err := hasSame(hostProc, path)
		return answer{same, err}
	})
	if err = errors.Join(err, got.err); err != nil {
		return false, fmt.Errorf("looking for %s on the host: %w", path, err)
	}
	return got.same, nil
}

func hasSame(hostProc, path string) (bool, error) {
	ours, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	file, err := openInHost(hostProc, path, unix.O_PATH)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	theirs, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return false, err
	}
	return theirs.Mode() == ours.Mode(), nil
}
