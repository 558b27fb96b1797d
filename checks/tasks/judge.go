package tasks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/checks"
)

// Reasons of the condition.
const (
	// ReasonBlocked: a task has waited for MaxBlocked without being woken up.
	ReasonBlocked = "TasksBlocked"
	// ReasonWaiting, with Unknown: a task waits, and was not watched for long enough.
	ReasonWaiting = "TasksWaiting"
	// ReasonNotSeen, with Unknown: the tasks could not be looked at.
	ReasonNotSeen = "TasksNotSeen"
	// ReasonHealthy: no task waits without being woken up.
	ReasonHealthy = "NoTaskBlocked"
)

// task is a thread that waits in the kernel (state D).
type task struct {
	process, thread int
	name            string
	// started tells it from another one of the same number, in ticks after the boot.
	started uint64
	// switches is how often it has been put to sleep: the same number is the same sleep.
	switches uint64
	// in is the kernel's function that waits; empty if the kernel does not tell.
	in string
}

// meant is whether a task waits in that function because somebody wants it to: it is frozen
// (cgroup v1), or waits for a child that shares its memory (vfork), which the compiler has made
// a part of the function that forks.
func meant(in string) bool {
	return strings.Contains(in, "vfork") || slices.Contains([]string{"__refrigerator", "kernel_clone", "_do_fork", "do_fork"}, in)
}

// sleep is one of a task. Until the node boots no other one is the same.
type sleep struct {
	Process  int    `json:"process"`
	Thread   int    `json:"thread"`
	Started  uint64 `json:"started"`
	Switches uint64 `json:"switches"`
}

func (t task) sleep() sleep { return sleep{t.process, t.thread, t.started, t.switches} }

// watched are the tasks that the last run has seen waiting, and since when, after the boot.
type watched struct {
	since map[sleep]time.Duration
	// looked is whether there was a last run.
	looked bool
}

// judge tells whether one of those that wait now has done so for too long.
func (w *watched) judge(waiting []task, now, most time.Duration) checks.Result {
	since := map[sleep]time.Duration{}
	var young, old []task
	for _, t := range waiting {
		first, watched := w.since[t.sleep()]
		if !watched {
			first = now
		}
		since[t.sleep()] = first
		switch {
		case watched && now-first >= most:
			old = append(old, t)
		case watched, !w.looked: // before the first run it may have waited for hours
			young = append(young, t)
		}
	}
	w.since, w.looked = since, true
	switch {
	case len(old) > 0:
		return checks.Problem(ReasonBlocked, describe(old, since, now))
	case len(young) > 0:
		return checks.CannotTell(ReasonWaiting, describe(young, since, now))
	default:
		return checks.Healthy(ReasonHealthy, "no task waits in the kernel without being woken up")
	}
}

// describe names tasks, those that have waited longest first.
func describe(tasks []task, since map[sleep]time.Duration, now time.Duration) string {
	slices.SortFunc(tasks, func(a, b task) int {
		return cmp.Or(cmp.Compare(since[a.sleep()], since[b.sleep()]), a.thread-b.thread)
	})
	var texts []string
	for _, t := range tasks {
		text := fmt.Sprintf("%s (process %d", t.name, t.process)
		if t.thread != t.process {
			text += fmt.Sprintf(", thread %d", t.thread)
		}
		text += ") has waited"
		if t.in != "" {
			text += " in " + t.in
		}
		texts = append(texts, fmt.Sprintf("%s for at least %s", text, (now-since[t.sleep()]).Round(time.Second)))
	}
	return checks.Listed(texts)
}
