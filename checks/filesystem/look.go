package filesystem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodemend/nodemend/internal/bounded"
)

// look is one look at a disk, which may never return.
type look struct {
	*bounded.Started[found]
	began time.Time
}

// found is what a look has found.
type found struct {
	err error
	// space and inodes of a file system.
	space, inodes share
	// refuses is whether it lets nobody create a file.
	refuses bool
}

// share is how much there is of something: of space in bytes.
type share struct{ available, all uint64 }

// errHidden is the error of a file system on whose mount points others are mounted.
var errHidden = errors.New("something else is mounted over it")

// examine asks a file system below root how full it is, and reads its first folder.
func examine(root string, f fileSystem) (result found) {
	for _, point := range f.points {
		result = examineAt(filepath.Join(root, point), f.device)
		if result.err == nil && f.mayRefuse() {
			result.refuses, result.err = refuses(root, point)
		}
		if !errors.Is(result.err, errHidden) {
			return result
		}
	}
	return result
}

func examineAt(path string, d device) found {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return found{err: &fs.PathError{Op: "open", Path: path, Err: err}}
	}
	defer func() { _ = unix.Close(fd) }() // nothing was done to it
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return found{err: &fs.PathError{Op: "stat", Path: path, Err: err}}
	}
	// btrfs numbers each of its subvolumes.
	if d.major != 0 && (unix.Major(s.Dev) != uint32(d.major) || unix.Minor(s.Dev) != uint32(d.minor)) {
		return found{err: errHidden}
	}
	var of unix.Statfs_t
	if err := unix.Fstatfs(fd, &of); err != nil {
		return found{err: &fs.PathError{Op: "statfs", Path: path, Err: err}}
	}
	size := uint64(of.Frsize)
	if size == 0 {
		size = uint64(of.Bsize)
	}
	result := found{space: share{of.Bavail * size, of.Blocks * size}, inodes: share{of.Ffree, of.Files}}
	if s.Mode&unix.S_IFMT == unix.S_IFDIR {
		result.err = readFolder(fd, path)
	}
	return result
}

// readFolder reads the beginning of a folder. An xfs that was shut down answers
// everything else from its memory.
func readFolder(fd int, path string) error {
	folder, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOATIME|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer func() { _ = unix.Close(folder) }() // was only read
	if _, err := unix.ReadDirent(folder, make([]byte, 4096)); err != nil {
		return &fs.PathError{Op: "readdir", Path: path, Err: err}
	}
	return nil
}

// refuses tries to create a file without a name, of which nothing stays. An error is one of the
// disk; that none can be created for another reason proves nothing.
func refuses(root, folder string) (bool, error) {
	fd, err := createIn(root, folder)
	if err == nil {
		_ = unix.Close(fd) // nothing was written to it
	}
	if failed(err) {
		return false, &fs.PathError{Op: "create a file in", Path: folder, Err: err}
	}
	return errors.Is(err, unix.EROFS), nil
}

// write writes a block in a folder below root and waits until the disk has it. The file has no
// name: nothing stays of it, and nobody can put something else in its place.
func write(root, folder string) found {
	fd, err := createIn(root, folder)
	if err != nil {
		return found{err: &fs.PathError{Op: "create a file in", Path: folder, Err: err}}
	}
	file := os.NewFile(uintptr(fd), folder)
	_, err = file.Write(make([]byte, 4096))
	if err == nil {
		err = file.Sync()
	}
	return found{err: errors.Join(err, file.Close())}
}

// createIn creates a file without a name. Links lead to what they lead to for who has that root,
// but for kernels before 5.6.
func createIn(root, folder string) (fd int, err error) {
	const flags, mode = unix.O_TMPFILE | unix.O_WRONLY | unix.O_CLOEXEC, 0o600
	base, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(base) }() // nothing was done to it
	fd, err = unix.Openat2(base, folder, &unix.OpenHow{Flags: flags, Mode: mode, Resolve: unix.RESOLVE_IN_ROOT})
	if errors.Is(err, unix.ENOSYS) {
		return unix.Open(filepath.Join(root, folder), flags, mode)
	}
	return fd, err
}

// describe returns an error without the folder in which the host's files are seen.
func describe(err error) string {
	var errno unix.Errno
	var at *fs.PathError
	if errors.As(err, &errno) && errors.As(err, &at) {
		return fmt.Sprintf("%s: %v", at.Op, errno)
	}
	return err.Error()
}
