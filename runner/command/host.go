package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

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

// whyNotExecutable looks for the reason that the host's kernel has for refusing to
// execute a file. It returns nil if there is none to be seen.
func whyNotExecutable(hostProc, path string) error {
	there, err := openInHost(hostProc, path, unix.O_PATH)
	if err != nil {
		return err
	}
	defer func() { _ = there.Close() }()
	info, err := there.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fs.ErrPermission
	}
	file, err := openInHost(hostProc, path, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	head, err := io.ReadAll(io.LimitReader(file, 256))
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(head), "\n")
	interpreter, isScript := strings.CutPrefix(line, "#!")
	if fields := strings.Fields(interpreter); isScript && len(fields) > 0 {
		program, err := openInHost(hostProc, fields[0], unix.O_PATH)
		if err != nil {
			return fmt.Errorf("its interpreter %s: %w", fields[0], err)
		}
		return program.Close()
	}
	return nil
}

// sameOnHost reports whether a pipe of ours has this path on the host, too.
func sameOnHost(hostProc, path string) bool {
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
