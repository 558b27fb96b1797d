package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links Linux follows in one path.
const maxLinks = 40

// resolve returns where an absolute path leads below root once all symbolic links
// are followed, as a process with that root directory would. What does not exist
// stays as it is written. The kernel's own links in /proc are refused: where they
// lead depends on who asks.
func resolve(root, name string) (string, error) {
	if !path.IsAbs(name) {
		return "", fmt.Errorf("%q is not an absolute path", name)
	}
	done, rest, links := "/", strings.Split(name, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == ".." {
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, part)
		if next == done {
			continue // "" or "."
		}
		target, err := os.Readlink(root + next)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			done = next // no link
			continue
		}
		if err == nil {
			err = followable(root + done)
		}
		links++
		if err == nil && links > maxLinks {
			err = unix.ELOOP
		}
		if err != nil {
			return "", fmt.Errorf("following the links of %s: %s: %w", name, next, err)
		}
		if path.IsAbs(target) {
			done = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return done, nil
}

// followable refuses links in a directory of procfs.
func followable(dir string) error {
	var in unix.Statfs_t
	if err := unix.Statfs(dir, &in); err != nil {
		return err
	}
	if in.Type == unix.PROC_SUPER_MAGIC {
		return errors.New("links in /proc are not accepted: write where it leads")
	}
	return nil
}
