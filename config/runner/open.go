package runner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// absentError says that there is no such file. It is not said of one to which a link leads.
type absentError struct {
	// in is the directory that does not have it.
	in fs.FileInfo
}

func (absentError) Error() string { return "there is no such file" }

// walk goes down a path from a root directory, one name at a time, so that each directory
// that is looked at is the one in which the next name is looked up: nobody can exchange it
// in between.
type walk struct {
	// owner is to whom all has to belong.
	owner uint32
	// dirs leads from the root directory to where the walk is. Each is open.
	dirs []*os.File
}

// step is a name to look up next.
type step struct {
	name string
	// link is the symbolic link whose target has the name; empty: the path itself has it.
	link string
}

// open opens the file at name as a process with that root directory would. It belongs to
// the owner, as do all directories on the way, and nobody else may write any of them: a
// sticky bit does not help, since it lets others create the file. If there is none,
// the error is an absentError.
func open(root, name string, owner uint32) (*os.File, error) {
	top, err := openAt(unix.AT_FDCWD, root, "/", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, fmt.Errorf("the node's root directory %s can't be looked at: %w: a pod needs hostPID and privileged, a runner on the node itself root or --host-root=/", root, err)
	}
	w := &walk{owner: owner, dirs: []*os.File{top}}
	defer w.close()
	if _, err := w.check(top); err != nil {
		return nil, err
	}
	links := 0
	for steps := split(name, ""); len(steps) > 0; {
		next := steps[0]
		steps = steps[1:]
		if next.name == ".." {
			w.up()
			continue
		}
		found, info, err := w.lookUp(next)
		if err != nil {
			return nil, err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := readLink(found)
			links++
			if err == nil && links > maxLinks {
				err = fmt.Errorf("following the links of %s: %s: %w", name, found.Name(), unix.ELOOP)
			}
			if err != nil {
				return nil, err
			}
			if path.IsAbs(target) {
				w.toTop()
			}
			steps = append(split(target, found.Name()), steps...)
		case info.IsDir():
			w.dirs = append(w.dirs, found)
			if _, err := w.check(found); err != nil {
				return nil, err
			}
		case len(steps) > 0:
			return nil, errors.Join(fmt.Errorf("%s is not a directory", found.Name()), found.Close())
		case info.Mode().IsRegular():
			file, err := w.read(next.name, found.Name())
			return file, errors.Join(err, found.Close())
		default:
			return nil, errors.Join(noFile(found.Name()), found.Close())
		}
	}
	return nil, noFile(w.here().Name())
}

func noFile(name string) error { return fmt.Errorf("%s is not a file: remove it, or write one", name) }

// split takes a path apart into the names to look up.
func split(name, link string) []step {
	var steps []step
	for part := range strings.SplitSeq(name, "/") {
		if part != "" && part != "." {
			steps = append(steps, step{part, link})
		}
	}
	return steps
}

func (w *walk) here() *os.File { return w.dirs[len(w.dirs)-1] }

// up goes to the directory above, of which the root directory has none.
func (w *walk) up() {
	if last := len(w.dirs) - 1; last > 0 {
		_ = w.dirs[last].Close() // nothing was written
		w.dirs = w.dirs[:last]
	}
}

func (w *walk) toTop() {
	for len(w.dirs) > 1 {
		w.up()
	}
}

func (w *walk) close() {
	w.toTop()
	_ = w.here().Close() // nothing was written
}

// lookUp opens what has the name, a link itself and not where it leads.
func (w *walk) lookUp(next step) (*os.File, fs.FileInfo, error) {
	place := path.Join(w.here().Name(), next.name)
	found, err := openAt(int(w.here().Fd()), next.name, place, unix.O_PATH|unix.O_NOFOLLOW)
	switch {
	case errors.Is(err, fs.ErrNotExist) && next.link != "":
		return nil, nil, fmt.Errorf("%s is a link that leads nowhere: there is no %s", next.link, place)
	case errors.Is(err, fs.ErrNotExist):
		in, err := w.here().Stat()
		return nil, nil, errors.Join(err, absentError{in})
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", place, err)
	}
	info, err := found.Stat()
	if err != nil {
		return nil, nil, errors.Join(err, found.Close())
	}
	return found, info, nil
}

// read opens a file of the directory for reading. It may have been replaced since it was
// found, so all is looked at again.
func (w *walk) read(name, place string) (*os.File, error) {
	file, err := openAt(int(w.here().Fd()), name, place, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK) // a named pipe must not block
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	info, err := w.check(file)
	if err == nil && !info.Mode().IsRegular() {
		err = noFile(place)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// check makes sure that nobody else may write a file or directory.
func (w *walk) check(opened *os.File) (fs.FileInfo, error) {
	const othersWrite = 0o022
	info, err := opened.Stat()
	if err != nil {
		return nil, err
	}
	name := opened.Name()
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("the owner of %s is not known", name)
	}
	if stat.Uid != w.owner || info.Mode().Perm()&othersWrite != 0 {
		return nil, fmt.Errorf("%s belongs to user %d and has mode %04o, so somebody else could lift the veto: chown root %s && chmod go-w %s",
			name, stat.Uid, info.Mode().Perm(), name, name)
	}
	return info, nil
}

// openAt opens a name in a directory; place is where that is, for people.
func openAt(dir int, name, place string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), place), nil
	}
}

// readLink returns the target of a link that was opened, and closes it.
func readLink(link *os.File) (string, error) {
	defer func() { _ = link.Close() }() // nothing was written
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(link.Fd()), "", target)
	if err != nil {
		return "", fmt.Errorf("following %s: %w", link.Name(), err)
	}
	return string(target[:n]), nil
}
