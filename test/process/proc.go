package process

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// OwnProc makes a directory in dir, unless it is there, that plays a proc file system
// in which process 1 is whoever looks: a runner that is given it takes the place
// where it runs for the node's.
func OwnProc(dir string) (string, error) {
	proc := filepath.Join(dir, "proc")
	if err := os.MkdirAll(proc, 0o700); err != nil {
		return "", err
	}
	if err := os.Symlink("/proc/self", filepath.Join(proc, "1")); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return proc, nil
}
