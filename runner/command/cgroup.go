package command

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nodemend/nodemend/internal/cgroup"
)

const (
	// goneWithin is how long killed processes may take to go.
	goneWithin = 3 * time.Second
	// maxTasks is how many processes and threads a command may have at a time.
	maxTasks = 4096
)

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
		mount, _ := cgroup.Mount(file)
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

// directGroup is that of a command that runs directly.
func (r *Remedy) directGroup(name string) cgroup.Group {
	if root := r.cgroupRoot(); root != "" {
		return cgroup.Group(filepath.Join(root, "nodemend", name))
	}
	return ""
}

// unitGroup is that of a transient unit, which has the path that systemd says, or
// the one that services have if it could not be asked.
func (r *Remedy) unitGroup(name, path string) cgroup.Group {
	root := r.cgroupRoot()
	if root == "" {
		return ""
	}
	if path == "" {
		path = "system.slice/" + name
	}
	return cgroup.Group(filepath.Join(root, path))
}

// makeLimited makes a group, in a group of all, and opens its directory. It keeps its
// processes from taking all IDs that the node has. Where the kernel counts processes in no
// cgroup2, as with version 1 of control groups, nothing does.
func makeLimited(g cgroup.Group) (*os.File, error) {
	dir, err := g.Make()
	if err != nil {
		return nil, err
	}
	all := cgroup.Group(filepath.Dir(string(g)))
	_ = cgroup.Group(filepath.Dir(string(all))).Set("cgroup.subtree_control", "+pids")
	_ = all.Set("cgroup.subtree_control", "+pids")
	_ = g.Set("pids.max", strconv.Itoa(maxTasks))
	return dir, nil
}

// removeGroup removes a group that makeLimited has made, and what is left in it.
func removeGroup(ctx context.Context, g cgroup.Group) error {
	if g == "" {
		return nil
	}
	if err := g.Remove(ctx, goneWithin); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(string(g))) // if it was the last
	return nil
}
