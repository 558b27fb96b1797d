package customplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// Orphans ends what plugins leave behind outside their process groups: processes that lose
// their parent become children of this process, which kills them once the run is over that
// they may be of, and reaps them. There is one in a process. A nil one does nothing.
//
// Each plugin has a session of its own. So a child of another session than this process is a
// plugin or an orphan, and one of this session belongs to who has started it.
type Orphans struct {
	killed prometheus.Counter
	// woken asks for a look at the children.
	woken chan struct{}

	mu       sync.Mutex
	starting int          // plugins that are being started, whose IDs are not known yet
	missed   bool         // a look was not possible because of that
	plugins  map[int]bool // those that have not been reaped, by their ID
	// runs are numbered in the order of their beginning; open are those not over.
	next int
	open map[int]bool
	// orphans are those seen last, by their ID.
	orphans map[int]*orphan
}

type orphan struct {
	before int // it is of a run with a lower number
	killed bool
}

// AdoptOrphans makes this process the parent of what its descendants leave behind, until
// Close. It fails if the kernel can't say which children there are.
func AdoptOrphans(registerer prometheus.Registerer) (*Orphans, error) {
	if _, err := os.ReadFile("/proc/thread-self/children"); err != nil {
		return nil, fmt.Errorf("looking for children of this process: %w; the kernel needs CONFIG_PROC_CHILDREN", err)
	}
	o := &Orphans{
		killed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nodemend_plugin_orphans_killed_total",
			Help: "Processes that custom plugins have left behind outside their process groups, and that were killed.",
		}),
		woken:   make(chan struct{}, 1),
		plugins: map[int]bool{}, open: map[int]bool{}, orphans: map[int]*orphan{},
	}
	if err := registerer.Register(o.killed); err != nil {
		return nil, fmt.Errorf("registering the metric of orphans: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("becoming the parent of orphans: %w", err)
	}
	return o, nil
}

// Run looks at the children whenever one has died or a run is over, until ctx ends.
func (o *Orphans) Run(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	for {
		o.look(ctx)
		select {
		case <-died:
		case <-o.woken:
		case <-ctx.Done():
			return
		}
	}
}

// Close kills what is left. No plugin may run any more, but for those that can't be killed.
func (o *Orphans) Close(ctx context.Context) {
	o.mu.Lock()
	clear(o.open)
	o.mu.Unlock()
	o.look(ctx)
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) // it has succeeded before
}

// pluginRun is one run of a plugin as Orphans sees it.
type pluginRun struct {
	*Orphans
	number, pid int
}

// start calls begin, which starts a plugin and returns its ID.
func (o *Orphans) start(begin func() (pid int, err error)) (pluginRun, error) {
	if o == nil {
		_, err := begin()
		return pluginRun{}, err
	}
	o.mu.Lock()
	o.starting++
	run := pluginRun{Orphans: o, number: o.next}
	o.next++
	o.open[run.number] = true
	o.mu.Unlock()

	pid, err := begin()

	o.mu.Lock()
	defer o.mu.Unlock()
	o.starting--
	if o.missed {
		o.missed = false
		o.wake()
	}
	if err != nil {
		delete(o.open, run.number)
		return run, err
	}
	run.pid = pid
	o.plugins[pid] = true
	return run, nil
}

// over says that the plugin has ended or was killed: so are its orphans to be.
func (r pluginRun) over() {
	if r.Orphans == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, r.number)
	r.wake()
}

// reaped says that nobody waits for the plugin any more.
func (r pluginRun) reaped() {
	if r.Orphans == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.plugins, r.pid)
	r.wake()
}

func (o *Orphans) wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

// look reaps orphans that are dead and kills those that are due.
func (o *Orphans) look(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.starting > 0 { // one of the children may be a plugin
		o.missed = true
		return
	}
	last := o.orphans
	o.orphans = map[int]*orphan{}
	for _, pid := range children() {
		ours, strange := o.classify(pid)
		if ours || reap(pid) {
			continue
		}
		found := last[pid]
		if found == nil {
			found = &orphan{before: o.next}
		}
		o.orphans[pid] = found
		if !strange || found.killed || !o.allOver(found.before) {
			continue
		}
		klog.FromContext(ctx).V(1).Info("Process that a plugin has left behind is killed", "pid", pid, "name", nameOf(pid))
		if err := syscall.Kill(pid, syscall.SIGKILL); err == nil {
			found.killed = true
			o.killed.Inc()
		}
	}
}

// classify says of a child whether somebody here waits for it, and whether it is of another
// session.
func (o *Orphans) classify(pid int) (ours, strange bool) {
	group, err := unix.Getpgid(pid)
	session, err2 := unix.Getsid(pid)
	own, err3 := unix.Getsid(0)
	if errors.Join(err, err2, err3) != nil || o.plugins[pid] || o.plugins[group] {
		return true, false
	}
	// A child of our own leads a group or is of ours.
	return session == own && (group == pid || group == unix.Getpgrp()), session != own
}

// allOver reports whether no run is open that has a lower number.
func (o *Orphans) allOver(before int) bool {
	for number := range o.open {
		if number < before {
			return false
		}
	}
	return true
}

// reap reports whether the process was dead.
func reap(pid int) bool {
	for {
		reaped, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		if !errors.Is(err, syscall.EINTR) {
			return reaped == pid
		}
	}
}

// children are the IDs of all children of this process.
func children() (pids []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is good
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil { // that thread has ended
			continue
		}
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

func nameOf(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // it may be gone
	return strings.TrimSpace(string(name))
}
