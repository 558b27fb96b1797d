package node

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// mount is where a hierarchy of control groups is mounted.
type mount struct {
	// dir is where it is mounted outside.
	dir string
	// controllers as in /proc/self/cgroup: "cpu,cpuacct", "name=systemd", or "" for
	// version 2.
	controllers string
	// own is the directory of this process's group.
	own string
}

// group is the node's in one hierarchy.
type group struct {
	mount
	dir string
}

// cgroupMounts returns all hierarchies that are mounted. That of version 2 is the only
// one, or one beside those of version 1.
func cgroupMounts() ([]mount, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var mounts []mount
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if dir := mountedAt(string(info), fields[1]); dir != "" {
			mounts = append(mounts, mount{dir: dir, controllers: fields[1], own: filepath.Join(dir, fields[2])})
		}
	}
	if !slices.ContainsFunc(mounts, mount.v2) {
		return nil, fmt.Errorf("%w: control groups of version 2 are not mounted", ErrUnavailable)
	}
	return mounts, nil
}

// mountedAt returns where mountinfo says that the hierarchy of these controllers is
// mounted, or "".
func mountedAt(mountinfo, controllers string) string {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if len(place) < 5 || len(kind) < 3 {
			continue
		}
		options := strings.Split(kind[2], ",")
		missing := func(controller string) bool { return !slices.Contains(options, controller) }
		if controllers == "" && kind[0] == "cgroup2" ||
			controllers != "" && kind[0] == "cgroup" && !slices.ContainsFunc(strings.Split(controllers, ","), missing) {
			return place[4]
		}
	}
	return ""
}

func (m mount) v2() bool { return m.controllers == "" }

// pure reports whether there is only version 2.
func pure[M interface{ v2() bool }](mounts []M) bool { return len(mounts) == 1 && mounts[0].v2() }

// makeGroups makes a control group of this name in every hierarchy: below this
// process's own, whose limits it shares, or at the top where only that may have groups
// and processes at the same time.
func makeGroups(mounts []mount, name string) (groups []group, err error) {
	for _, m := range mounts {
		parent := m.own
		if pure(mounts) {
			parent = m.dir
			for _, controller := range []string{"cpu", "cpuset", "io", "memory", "pids"} {
				_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+controller), 0o644) // it may be there
			}
		}
		g := group{m, filepath.Join(parent, name)}
		if err := os.Mkdir(g.dir, 0o755); err != nil {
			return groups, fmt.Errorf("%w: no control group can be made: %w", ErrUnavailable, err)
		}
		groups = append(groups, g)
		if m.controllers != "cpuset" {
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // a new group has none
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil {
				return groups, err
			}
			if err := os.WriteFile(filepath.Join(g.dir, file), value, 0o644); err != nil {
				return groups, err
			}
		}
	}
	return groups, nil
}

// mountScript returns the commands that mount the groups inside as a host has its own.
func mountScript(groups []group) string {
	if pure(groups) {
		return `mount -n -t cgroup2 cgroup2 "$node/sys/fs/cgroup"` + "\n"
	}
	script := &strings.Builder{}
	add := func(name, kind, options string) {
		fmt.Fprintf(script, "mkdir \"$node/sys/fs/cgroup/%s\"\nmount -n -t %s %s %s \"$node/sys/fs/cgroup/%[1]s\"\n", name, kind, options, kind)
	}
	script.WriteString(`mount -n -t tmpfs -o mode=755 tmpfs "$node/sys/fs/cgroup"` + "\n")
	for _, g := range groups {
		name, named := strings.CutPrefix(g.controllers, "name=")
		switch {
		case g.v2():
			add("unified", "cgroup2", "")
			continue
		case named:
			add(name, "cgroup", "-o none,"+g.controllers)
			continue
		}
		add(name, "cgroup", "-o "+name)
		if controllers := strings.Split(name, ","); len(controllers) > 1 {
			for _, c := range controllers {
				fmt.Fprintf(script, "ln -s %s \"$node/sys/fs/cgroup/%s\"\n", name, c)
			}
		}
	}
	// Else systemd would mount what the host does not use, and change the host so.
	script.WriteString(`mount -n -o remount,ro "$node/sys/fs/cgroup"` + "\n")
	return script.String()
}

// kill kills PID 1 and thereby all inside, and waits until they are gone.
func (n *Node) kill() {
	if n.init.HasExited() {
		return
	}
	_ = n.init.Signal(syscall.SIGKILL) // at worst it has just ended
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		for _, g := range n.groups {
			if g.controllers == "freezer" {
				thaw(g.dir)
			}
		}
		select {
		case <-n.init.Exited:
			return
		case <-tick.C:
		}
	}
}

// thaw lets frozen processes go on, and so die: runc freezes those of a container for
// a moment whenever it changes its limits.
func thaw(root string) {
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			_ = os.WriteFile(filepath.Join(path, "freezer.state"), []byte("THAWED"), 0o644)
		}
		return nil // a group that has gone has nothing to thaw
	})
}
