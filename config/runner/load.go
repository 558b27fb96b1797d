package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Load reads the file at path. If there is none, nothing is denied: the result is
// nil. A file that others than root may write or replace is an error, as is every
// mistake in it; then nothing should be executed.
func Load(path string) (*Veto, error) {
	const root = 0
	return load(path, root)
}

// load is Load for files of a user.
func load(path string, owner uint32) (*Veto, error) {
	dir, err := os.Stat(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = ownedBy(owner, filepath.Dir(path), dir)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the node's veto: %w", err)
	}
	data, err := read(path, owner)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the node's veto: %w", err)
	}
	return Parse(path, data)
}

func read(path string, owner uint32) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a named pipe must not block
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file: remove it, or write one", path)
	}
	if err := ownedBy(owner, path, info); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}

// ownedBy makes sure that nobody else may write a file or directory.
func ownedBy(owner uint32, path string, info fs.FileInfo) error {
	const othersWrite = 0o022
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("the owner of %s is not known", path)
	}
	if stat.Uid != owner || info.Mode().Perm()&othersWrite != 0 {
		return fmt.Errorf("%s belongs to user %d and has mode %04o, so somebody else could lift the veto: chown root %s && chmod go-w %s",
			path, stat.Uid, info.Mode().Perm(), path, path)
	}
	return nil
}
