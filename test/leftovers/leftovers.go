// Package leftovers knows what tests leave behind that were killed, by names that begin
// with a prefix and the ID of the process that has made them.
package leftovers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// OwnerIsDead reports whether the process is dead that has made what is at path.
func OwnerIsDead(path, prefix string) bool {
	var pid int
	_, err := fmt.Sscanf(filepath.Base(path), prefix+"%d-", &pid)
	return err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// RemoveCgroup removes a control group and those below it. They have no processes.
func RemoveCgroup(root string) error {
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
