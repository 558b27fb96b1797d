package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodemend/nodemend/internal/cgroup"
)

// goneWithin is how long a run waits for killed processes to go. One that hangs in the
// kernel delays its run by so much, and is killed again after the next ones.
const goneWithin = 500 * time.Millisecond

// Groups start children in a control group (cgroup2) each, below that of this process. By
// it they know what belongs to a child: the kernel keeps every descendant there, whatever
// session, parent or environment it has, until it moves itself or is moved, as systemd-run
// does. They never signal or reap anything else: neither other children of this process
// nor, where it is the first one of a container, what others have left to it.
//
// A group whose processes all have ended by themselves serves the next child: the kubelet
// looks at each that comes and goes below those of its pods. One that was killed does not: see
// probe. A nil Groups starts children without a control group.
type Groups struct {
	own     cgroup.Group // that of this process
	name    string       // the same, as /proc/PID/cgroup tells it
	escaped func(count int)
	within  time.Duration // goneWithin

	mu   sync.Mutex
	free []cgroup.Group // empty ones
	left []cgroup.Group // those whose processes have not gone
}

// NewGroups returns an error where control groups can't be made. escaped is told, at the
// end of each run that has left processes behind outside its process group, how many were
// found and killed.
func NewGroups(escaped func(count int)) (*Groups, error) {
	// Where /proc is that of another PID namespace, processes have other IDs in it.
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(os.Getpid()) {
		return nil, fmt.Errorf("/proc is not that of this process's PID namespace: it calls process %d %q, error %w", os.Getpid(), self, err)
	}
	// No arguments: it starts nothing. Without the call a child can't begin its life in a
	// control group, and moved later it may have children by then.
	if _, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0); errno == unix.ENOSYS {
		return nil, errors.New("the system call clone3 is missing, or forbidden as by systemd's RestrictNamespaces=")
	}
	name, err := nameOf("self")
	if err != nil {
		return nil, err
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = mounts.Close() }() // was only read
	point, root := cgroup.Mount(mounts)
	if point == "" {
		return nil, errors.New("no cgroup2 is mounted")
	}
	below, err := filepath.Rel(root, name)
	if err != nil || !filepath.IsLocal(below) {
		return nil, fmt.Errorf("the control group %s of this process is not below %s, which is mounted on %s", name, root, point)
	}
	g := &Groups{own: cgroup.Group(filepath.Join(point, below)), name: name, escaped: escaped, within: goneWithin}
	if err := g.probe(); err != nil {
		return nil, err
	}
	return g, nil
}

// probe returns an error if the kernel kills what is started in a group. It does, since 6.14,
// if the group of this process was once killed (cgroup.kill) and the new one was not, or the
// other way: cgroup_css_set_fork compares the one's number of kills with the other's.
func (g *Groups) probe() error {
	missing := &exec.Cmd{Path: filepath.Join(string(g.own), "missing")}
	if _, err := g.startIn(missing); !errors.Is(err, os.ErrNotExist) {
		g.Close()
		if err == nil { // it has not got as far as that
			err = fmt.Errorf("a child was killed in it: %w", missing.Wait())
		}
		return fmt.Errorf("trying a control group below %s: %w", g.own, err)
	}
	return nil
}

// Close removes the groups. No child may run any more, but for those that can't be killed.
func (g *Groups) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, group := range g.free {
		_ = os.Remove(string(group)) // fails only if somebody else has put processes there
	}
	g.free = nil
}

// Start is like the function [Start].
func (g *Groups) Start(cmd *exec.Cmd) (*Child, error) {
	if g == nil {
		return Start(cmd)
	}
	grouped := &exec.Cmd{
		Path: cmd.Path, Args: cmd.Args, Env: cmd.Env, Dir: cmd.Dir, WaitDelay: cmd.WaitDelay, Err: cmd.Err,
		Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr,
	}
	if err := readable(cmd.Path, readLimit); err != nil {
		return nil, err
	}
	group, err := g.startIn(grouped)
	if err != nil {
		// A group that can't be made, or not be started in, keeps nothing from being started.
		return Start(cmd)
	}
	return &Child{cmd: grouped, groups: g, group: group}, nil
}

func (g *Groups) startIn(cmd *exec.Cmd) (cgroup.Group, error) {
	group, err := g.take()
	if err != nil {
		return "", err
	}
	dir, err := os.Open(string(group))
	if err == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: int(dir.Fd())}
		err = cmd.Start()
		_ = dir.Close()
	}
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.free = append(g.free, group) // nothing was started in it
		return "", err
	}
	return group, nil
}

// take returns an empty group.
func (g *Groups) take() (cgroup.Group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := len(g.free) - 1; last >= 0 {
		group := g.free[last]
		g.free = g.free[:last]
		return group, nil
	}
	dir, err := os.MkdirTemp(string(g.own), "nodemend-run-")
	if err != nil {
		return "", fmt.Errorf("making a control group: %w", err)
	}
	return cgroup.Group(dir), nil
}

// kill kills all of a group, tells of what is not in the process group, and reports whether
// there was anything to kill.
func (g *Groups) kill(group cgroup.Group, processGroup int) bool {
	if g == nil || !group.Populated() {
		return false
	}
	escaped := 0
	for _, pid := range group.PIDs() {
		if of, err := unix.Getpgid(pid); err == nil && of != processGroup {
			escaped++
		}
	}
	group.Kill()
	if escaped > 0 {
		g.escaped(escaped)
	}
	return true
}

// end reaps what has ended in a group, and what was killed: in groups of earlier children, too.
func (g *Groups) end(ctx context.Context, group cgroup.Group, killed bool) {
	if g == nil {
		return
	}
	clean := !killed && g.gone(group) && group.RemoveBelow() == nil
	if !clean {
		_ = wait.PollUntilContextTimeout(context.WithoutCancel(ctx), 5*time.Millisecond, g.within, true, func(context.Context) (bool, error) {
			return g.gone(group), nil
		})
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if clean {
		g.free = append(g.free, group)
	} else {
		g.left = append(g.left, group)
	}
	g.left = slices.DeleteFunc(g.left, func(group cgroup.Group) bool {
		return g.gone(group) && group.RemoveBelow() == nil && os.Remove(string(group)) == nil
	})
}

// gone kills and reaps what is left of a group, and reports whether nothing is.
func (g *Groups) gone(group cgroup.Group) bool {
	if group.Populated() {
		group.Kill()
		return false
	}
	// Processes that have gone can still be zombies: children of this process if it is
	// their next reaper. Until the last of a group is reaped one of them is.
	name := filepath.Join(g.name, filepath.Base(string(group)))
	for {
		reaped := false
		left := false
		for _, pid := range children() {
			if of, err := nameOf(strconv.Itoa(pid)); err != nil || of != name && !strings.HasPrefix(of, name+"/") {
				continue
			}
			// In this group is nobody whom anybody else waits for, now that the child is reaped.
			if got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); err == nil && got == pid {
				reaped = true
			} else {
				left = true
			}
		}
		if !reaped {
			return !left
		}
	}
}

// nameOf returns the name of a process's group of cgroup2; a zombie is in that of its death.
func nameOf(process string) (string, error) {
	text, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::"); found {
			return strings.TrimSuffix(name, " (deleted)"), nil
		}
	}
	return "", errors.New("no cgroup2 is in use")
}

// children are the IDs of all children of this process; none where the kernel lacks
// CONFIG_PROC_CHILDREN.
func children() (pids []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is good
	for _, file := range files {
		list, _ := os.ReadFile(file) // of a thread that may have ended
		for field := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
