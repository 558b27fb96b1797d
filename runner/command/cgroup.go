package command

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
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// goneWithin is how long killed processes may take to go.
	goneWithin = 3 * time.Second
	goneEvery  = 5 * time.Millisecond
	// maxTasks is how many processes and threads a command may have at a time.
	maxTasks = 4096
)

// group is a directory of the host's cgroup2; "" where there is none, which is then
// empty, and can't be killed or removed.
type group string

// cgroupRoot returns where the host's cgroup2 is mounted, as the runner sees it, or
// "" if it sees none.
func (r *Remedy) cgroupRoot() string {
	if r.opts.Cgroup != "" {
		return r.opts.Cgroup
	}
	return within(r.findCgroup)
}

func (r *Remedy) findCgroup() string {
	for _, host := range []struct{ mounts, root string }{
		{filepath.Join(r.opts.HostProc, "1", "mountinfo"), filepath.Join(r.opts.HostProc, "1", "root")},
		{"/proc/self/mountinfo", "/"},
	} {
		file, err := os.Open(host.mounts)
		if err != nil {
			continue
		}
		mount := cgroupMount(file)
		_ = file.Close()
		if mount == "" {
			continue
		}
		if _, err := os.Stat(filepath.Join(host.root, mount)); err == nil {
			return filepath.Join(host.root, mount)
		}
	}
	return ""
}

// cgroupMount finds the mount point of cgroup2 in a mountinfo (proc(5)), or "".
func cgroupMount(mountinfo io.Reader) string {
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		mount, kind, found := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(mount)
		if found && len(fields) > 4 && strings.HasPrefix(kind, "cgroup2 ") {
			return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(fields[4])
		}
	}
	return ""
}

// directGroup is that of a command that runs directly.
func (r *Remedy) directGroup(name string) group {
	if root := r.cgroupRoot(); root != "" {
		return group(filepath.Join(root, "nodemend", name))
	}
	return ""
}

// unitGroup is that of a transient unit, which has the path that systemd says, or
// the one that services have if it could not be asked.
func (r *Remedy) unitGroup(name, path string) group {
	root := r.cgroupRoot()
	if root == "" {
		return ""
	}
	if path == "" {
		path = "system.slice/" + name
	}
	return group(filepath.Join(root, path))
}

// make makes it and opens its directory.
func (g group) make() (*os.File, error) {
	if g == "" {
		return nil, errors.New("no cgroup2 is mounted")
	}
	if err := os.MkdirAll(string(g), 0o755); err != nil {
		return nil, fmt.Errorf("making a control group: %w", err)
	}
	g.limit()
	return os.Open(string(g))
}

// limit keeps its processes from taking all IDs that the node has. Where the kernel counts
// processes in no cgroup2, as with version 1 of control groups, nothing does.
func (g group) limit() {
	all := filepath.Dir(string(g))
	_ = setting(filepath.Dir(all), "cgroup.subtree_control", "+pids")
	_ = setting(all, "cgroup.subtree_control", "+pids")
	_ = setting(string(g), "pids.max", strconv.Itoa(maxTasks))
}

// setting writes to a file of a control group that is there.
func setting(dir, name, value string) error {
	file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}

// populated reports whether it has processes, also in groups below it.
func (g group) populated() bool {
	if g == "" {
		return false
	}
	events, err := os.ReadFile(filepath.Join(string(g), "cgroup.events"))
	return err == nil && strings.Contains(string(events), "populated 1")
}

// kill sends SIGKILL to all its processes, and those of the groups below it.
func (g group) kill() {
	if g == "" {
		return
	}
	if setting(string(g), "cgroup.kill", "1") == nil || !g.populated() {
		return
	}
	// Before Linux 5.14.
	for _, pid := range g.pids() {
		if pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// pids returns its processes, and those of the groups below it; 0 is one that is not in
// the runner's PID namespace.
func (g group) pids() []int {
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
func (g group) dirs() []string {
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

// clear kills its processes until there are none, and reports whether they have gone
// within a few seconds. The end of ctx does not keep it from that.
func (g group) clear(ctx context.Context) bool {
	err := wait.PollUntilContextTimeout(context.WithoutCancel(ctx), goneEvery, goneWithin, true, func(context.Context) (bool, error) {
		if !g.populated() {
			return true, nil
		}
		g.kill()
		return false, nil
	})
	return err == nil
}

// remove removes it, with what is left in it and below it.
func (g group) remove(ctx context.Context) error {
	if g == "" {
		return nil
	}
	if !g.clear(ctx) {
		return fmt.Errorf("removing the control group %s: its processes do not go, they hang in a system call (state D)", g)
	}
	for _, dir := range slices.Backward(g.dirs()) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the command's control group: %w", err)
		}
	}
	_ = os.Remove(filepath.Dir(string(g))) // if it was the last
	return nil
}
