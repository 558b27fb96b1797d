// Package cgroup has control groups of cgroup2: directories that tell and end the
// processes in them, wherever these have got to. See cgroups(7).
package cgroup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// goneEvery is how often it is looked whether killed processes have gone.
const goneEvery = 5 * time.Millisecond

// Group is the directory of a control group; "" where there is none, which is then empty,
// and can't be killed or removed.
type Group string

// Mount finds the mount point of cgroup2 in a mountinfo (proc(5)), or "". root is the group
// that is mounted there.
func Mount(mountinfo io.Reader) (point, root string) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		mount, kind, found := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if found && len(fields) > 4 && strings.HasPrefix(kind, "cgroup2 ") {
			return unescape.Replace(fields[4]), unescape.Replace(fields[3])
		}
	}
	return "", ""
}

// Make makes it and opens its directory.
func (g Group) Make() (*os.File, error) {
	if g == "" {
		return nil, errors.New("no cgroup2 is mounted")
	}
	if err := os.MkdirAll(string(g), 0o755); err != nil {
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	return os.Open(string(g))
}

// Set writes to a file of a control group that is there.
func (g Group) Set(name, value string) error {
	file, err := os.OpenFile(filepath.Join(string(g), name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// Populated reports whether it has processes, also in groups below it. A zombie is none.
func (g Group) Populated() bool {
	if g == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(string(g), "cgroup.events"))
	return err == nil && strings.Contains(string(events), "populated 1")
}

// Kill sends SIGKILL to all its processes, and those of the groups below it.
func (g Group) Kill() {
	if g == "" {
		return
	}
	if g.Set("cgroup.kill", "1") == nil || !g.Populated() {
		return
	}
	// Before Linux 5.14.
	for _, pid := range g.PIDs() {
		if pid > 1 {
			g.killOne(pid)
		}
	}
}

// killOne kills a process if it is in the group, and no other one that has got its ID.
func (g Group) killOne(pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return // it has gone
	}
	if slices.Contains(g.PIDs(), pid) {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // fails only if it has gone
	}
	_ = unix.Close(fd)
}

// PIDs returns its processes, and those of the groups below it; 0 is one that is not in
// the PID namespace of this process.
func (g Group) PIDs() []int {
	var pids []int
	for _, dir := range g.dirs() {
		list, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs")) // perhaps gone by now
		for field := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// dirs returns its directory and those of the groups below it, which come later.
func (g Group) dirs() []string {
	var dirs []string
	if g == "" {
		return nil
	}
	_ = filepath.WalkDir(string(g), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	return dirs
}

// Clear kills its processes until there are none, and reports whether they have gone
// within that time. The end of ctx does not keep it from that.
func (g Group) Clear(ctx context.Context, within time.Duration) bool {
	err := wait.PollUntilContextTimeout(context.WithoutCancel(ctx), goneEvery, within, true, func(context.Context) (bool, error) {
		if !g.Populated() {
			return true, nil
		}
		g.Kill()
		return false, nil
	})
	return err == nil
}

// Remove removes it, with what is left in it and below it: see [Group.Clear].
func (g Group) Remove(ctx context.Context, within time.Duration) error {
	if g == "" {
		return nil
	}
	if !g.Clear(ctx, within) {
		return fmt.Errorf("removing the control group %s: its processes do not go, they hang in a system call (state D)", g)
	}
	return errors.Join(g.RemoveBelow(), removeDir(string(g)))
}

// RemoveBelow removes the groups below it, which must be empty.
func (g Group) RemoveBelow() error {
	for _, dir := range slices.Backward(g.dirs()) {
		if dir == string(g) {
			continue
		}
		if err := removeDir(dir); err != nil {
			return err
		}
	}
	return nil
}

func removeDir(dir string) error {
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the control group: %w", err)
	}
	return nil
}
