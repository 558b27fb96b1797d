package hostunits

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may have, as in the kernel.
const maxLinks = 40

// hostRoot is where the host's root directory is seen from here.
type hostRoot string

// path returns where a file of the host is seen from here. Links on the way to it
// mean what they mean on the host: an absolute one does not lead to the files of
// the pod. The file itself may be a link.
func (r hostRoot) path(file string) (string, error) {
	return r.walk(file, func(string) error { return nil })
}

// walk is path that looks at each directory of the host on the way, which may not exist.
func (r hostRoot) walk(file string, look func(dir string) error) (string, error) {
	resolved, rest := "/", components(path.Dir(file))
	if err := look(resolved); err != nil {
		return "", err
	}
	for links := 0; len(rest) > 0; {
		next := path.Join(resolved, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(filepath.Join(string(r), next))
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist): // no link
			resolved = next
			if err := look(resolved); err != nil {
				return "", err
			}
			continue
		case err != nil:
			return "", fmt.Errorf("finding the host's %s: %w", file, err)
		}
		links++
		if links > maxLinks {
			return "", fmt.Errorf("finding the host's %s: too many symbolic links, the last at %s", file, next)
		}
		if path.IsAbs(target) {
			resolved = "/"
		}
		rest = slices.Concat(components(target), rest)
	}
	return filepath.Join(string(r), resolved, path.Base(file)), nil
}

// trust makes sure that nobody but root, to whom the host's root directory belongs, may
// write a directory on the way to the files: else somebody could put others in their place,
// and the unit would run them as root.
func (r hostRoot) trust(files ...string) error {
	top, err := os.Stat(string(r))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		_, err := r.walk(file, func(dir string) error {
			info, err := os.Stat(filepath.Join(string(r), dir))
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			const othersWrite = 0o022
			if owner := ownerOf(info); owner != ownerOf(top) || info.Mode().Perm()&othersWrite != 0 {
				return fmt.Errorf("the host's directory %s belongs to user %d and has mode %04o, so others than root could replace %s: chown root %[1]s && chmod go-w %[1]s",
					dir, owner, info.Mode().Perm(), file)
			}
			return nil
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ownerOf returns the ID of the user to whom a file belongs, -1 if that is not known.
func ownerOf(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(stat.Uid)
	}
	return -1
}

func components(p string) []string {
	return strings.FieldsFunc(p, func(c rune) bool { return c == '/' })
}
