package exhaustion

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// processes reads how many processes and threads there are.
func processes(host host) ([]use, error) {
	text, err := os.ReadFile(filepath.Join(host.proc, "loadavg"))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(text)) // 0.20 0.18 0.12 1/80 11206
	if len(fields) < 5 {
		return nil, fmt.Errorf("/proc/loadavg is %q", text)
	}
	_, all, _ := strings.Cut(fields[3], "/")
	used, err := strconv.ParseUint(all, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("/proc/loadavg is %q: %w", text, err)
	}
	var uses []use
	for _, name := range []string{"kernel.pid_max", "kernel.threads-max"} {
		limit, err := host.numbers(name, 1)
		if err != nil {
			return nil, err
		}
		uses = append(uses, use{reason: ReasonProcesses, what: "processes and threads", used: used, limit: uint64(limit[0]), by: name})
	}
	return uses, nil
}

// looksAtAll is how many runs it takes until all processes are looked at again for new
// ones of the programs.
const looksAtAll = 10

// programs are what the check knows of the processes of some programs.
type programs struct {
	names []string
	// known are the processes that were found last, and runs how many runs ago that was.
	known []procfs.Proc
	runs  int
}

// uses reads how much the programs use of their own limits. One that ends meanwhile is left
// out.
func (p *programs) uses(host host) (uses []use, err error) {
	if p.runs%looksAtAll == 0 || !p.alive() {
		if p.known, err = p.find(host); err != nil {
			return nil, err
		}
		p.runs = 0
	}
	p.runs++
	var errs []error
	for _, process := range p.known {
		files, err := openFiles(process)
		if err == nil {
			uses = append(uses, files)
			var tasks []use
			tasks, err = tasksOf(host, process)
			uses = append(uses, tasks...)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, err)
		}
	}
	return uses, errors.Join(errs...)
}

// alive is whether all known processes are still those of the programs.
func (p *programs) alive() bool {
	return !slices.ContainsFunc(p.known, func(process procfs.Proc) bool { return !p.has(process) })
}

func (p *programs) has(process procfs.Proc) bool {
	name, err := process.Comm()
	return err == nil && slices.Contains(p.names, name)
}

func (p *programs) find(host host) ([]procfs.Proc, error) {
	if len(p.names) == 0 {
		return nil, nil
	}
	all, err := host.AllProcs()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(process procfs.Proc) bool { return !p.has(process) || !ofHost(host, process) }), nil
}

// ofHost reports whether a process is one of the host's own, and of root. Anybody may call a
// process of a pod, or of their own, as they like.
func ofHost(host host, process procfs.Proc) bool {
	namespace := func(process string) string {
		name, _ := os.Readlink(filepath.Join(host.proc, process, "ns", "pid"))
		return name
	}
	if namespace(strconv.Itoa(process.PID)) != namespace("1") {
		return false
	}
	status, err := process.NewStatus()
	return err == nil && status.UIDs[0] == 0 && status.UIDs[1] == 0
}

func nameOf(process procfs.Proc) (string, error) {
	name, err := process.Comm()
	return fmt.Sprintf("%s (process %d)", name, process.PID), err
}

func openFiles(process procfs.Proc) (use, error) {
	name, err := nameOf(process)
	if err != nil {
		return use{}, err
	}
	limits, err := process.Limits()
	if err != nil {
		return use{}, err
	}
	open, err := process.FileDescriptorsLen()
	return use{reason: ReasonOpenFiles, who: name, what: "open files", used: uint64(open), limit: limits.OpenFiles, by: "LimitNOFILE of its unit"}, err
}

// tasksOf reads the limit of tasks of the process's control group, and of those that it is
// in: that of a unit or of its slice.
func tasksOf(host host, process procfs.Proc) (uses []use, err error) {
	groups, err := process.Cgroups()
	if err != nil {
		return nil, err
	}
	mount := filepath.Join(filepath.Join(host.proc, "1"), "root", "sys", "fs", "cgroup")
	for _, g := range groups {
		hierarchy := mount
		switch {
		case slices.Contains(g.Controllers, "pids"):
			hierarchy = filepath.Join(mount, "pids")
		case g.HierarchyID != 0 || len(groups) > 1:
			continue // has no limit of tasks
		}
		for path := filepath.Clean("/" + g.Path); path != "/"; path = filepath.Dir(path) {
			used, limit, err := pids(filepath.Join(hierarchy, path))
			if errors.Is(err, fs.ErrNotExist) {
				continue // the controller is not on
			}
			if err != nil {
				return nil, err
			}
			uses = append(uses, use{reason: ReasonTasks, who: filepath.Base(path), what: "tasks", used: used, limit: limit, by: "TasksMax"})
		}
	}
	return uses, nil
}

// pids reads a control group; a limit of zero is none.
func pids(group string) (used, limit uint64, err error) {
	var numbers [2]uint64
	for i, name := range []string{"pids.current", "pids.max"} {
		text, err := os.ReadFile(filepath.Join(group, name))
		if err != nil {
			return 0, 0, err
		}
		if value := strings.TrimSpace(string(text)); value != "max" {
			if numbers[i], err = strconv.ParseUint(value, 10, 64); err != nil {
				return 0, 0, fmt.Errorf("%s: %w", filepath.Join(group, name), err)
			}
		}
	}
	return numbers[0], numbers[1], nil
}
