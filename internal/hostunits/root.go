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
	resolved, rest := "/", components(path.Dir(file))
	for links := 0; len(rest) > 0; {
		next := path.Join(resolved, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(filepath.Join(string(r), next))
		switch {
		case errors.Is(err, syscall.EINVAL), errors.Is(err, fs.ErrNotExist): // no link
			resolved = next
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

func components(p string) []string {
	return strings.FieldsFunc(p, func(c rune) bool { return c == '/' })
}
