package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// dirPrefix begins the names of directories and control groups. The ID of the process
// that has made them follows.
const dirPrefix = "nodemend-systemd-"

func dirPattern() string { return fmt.Sprintf("%s%d-*", dirPrefix, os.Getpid()) }

// removeLeftovers removes what processes that were killed have left below dir. What
// can't be removed stays for the next time.
func removeLeftovers(dir string, remove func(path string) error) {
	left, _ := filepath.Glob(filepath.Join(dir, dirPrefix+"*")) // the pattern is valid
	for _, path := range left {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(path), dirPrefix+"%d-", &pid); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = remove(path)
		}
	}
}

// removeCgroup removes a control group and those below it. They have no processes.
func removeCgroup(root string) error {
	var groups []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, group := range slices.Backward(groups) {
		err = errors.Join(err, os.Remove(group))
	}
	return err
}
