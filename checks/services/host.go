package services

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxFile is the most that is read of a file.
const maxFile = 1 << 20

// root is a root directory: the host's, as seen from here.
type root string

// open opens a path as a process with this root would, also where links are absolute. Before
// Linux 5.6 those lead into our own root.
func (r root) open(path string, flags uint64) (*os.File, error) {
	base, err := unix.Open(string(r), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: string(r), Err: err}
	}
	defer func() { _ = unix.Close(base) }() // nothing was done to it
	flags |= unix.O_CLOEXEC
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK // a pipe in the place of a file is not waited for
	}
	fd, err := unix.Openat2(base, path, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
	if errors.Is(err, unix.ENOSYS) {
		fd, err = unix.Open(filepath.Join(string(r), path), int(flags), 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// read returns what is in a file.
func (r root) read(path string) ([]byte, error) {
	file, err := r.open(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // was only read
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return data, err
}

// list returns what is in a folder.
func (r root) list(path string) ([]fs.DirEntry, error) {
	folder, err := r.open(path, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Close() }() // was only read
	return folder.ReadDir(-1)
}

// executable returns whether a path leads to a file that may be executed.
func (r root) executable(path string) (bool, error) {
	file, err := r.open(path, unix.O_PATH)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }() // nothing was done to it
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0, err
}
