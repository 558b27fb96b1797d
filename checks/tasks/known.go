package tasks

import (
	"cmp"
	"slices"
	"time"
)

// maxWaiting is how many tasks are remembered.
const maxWaiting = 1000

// known is what is remembered over a restart of the detector.
type known struct {
	// BootID is the kernel's when the tasks were seen.
	BootID string `json:"bootID"`
	// Waiting are those that have waited longest.
	Waiting []waits `json:"waiting,omitempty"`
}

// waits is a task that waits.
type waits struct {
	sleep
	// Since is when it was first seen to wait, in nanoseconds after the boot.
	Since time.Duration `json:"since"`
}

// remember returns what is to be remembered. What the last run has seen for the first time is left
// out: on a healthy node that is another task each time, and no reason to write a file.
func (w *watched) remember(bootID string, now time.Duration) known {
	k := known{BootID: bootID}
	for s, since := range w.since {
		if since < now {
			k.Waiting = append(k.Waiting, waits{s, since})
		}
	}
	slices.SortFunc(k.Waiting, func(a, b waits) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.Started, b.Started))
	})
	k.Waiting = k.Waiting[:min(len(k.Waiting), maxWaiting)]
	return k
}

// recall takes in what was remembered, perhaps only after other runs. Whoever still waits has done
// so all the time: the kernel counts how often a task has slept. After another boot, and with times
// that are yet to come, nothing of it means anything.
func (w *watched) recall(k known, bootID string, now time.Duration) {
	if k.BootID != bootID {
		return
	}
	if w.since == nil {
		w.since = map[sleep]time.Duration{}
	}
	for _, t := range k.Waiting {
		if t.Since < 0 || t.Since > now {
			continue
		}
		if since, seen := w.since[t.sleep]; !seen || t.Since < since {
			w.since[t.sleep] = t.Since
		}
	}
}
