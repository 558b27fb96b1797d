package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
)

// host is one whose /proc is played.
type host struct {
	t      *testing.T
	path   string
	boot   string
	uptime time.Duration
	// started and switches are those of all tasks.
	started, switches int
	lookOnly          bool
}

func newHost(t *testing.T) *host {
	return &host{t: t, path: t.TempDir(), boot: "first", uptime: time.Hour, started: 1234, switches: 5}
}

func (h *host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) task(process, thread int, state, in string) {
	h.t.Helper()
	path := fmt.Sprintf("%d/task/%d/", process, thread)
	h.write(path+"stat", fmt.Sprintf("%d (dd) %s 1 1 1 0 -1 4194560 101 0 0 0 0 0 0 0 20 0 1 0 %d 2564096 413 18446744073709551615 1 1 1 0 0 0 0 0 0 1 0 0 17 1 0 0 0 0 0 1 1 1 1 1 1 1 0\n", thread, state, h.started))
	h.write(path+"status", fmt.Sprintf("Name:\tdd\nvoluntary_ctxt_switches:\t%d\nnonvoluntary_ctxt_switches:\t1\n", h.switches))
	h.write(path+"wchan", in)
}

// check is one of a detector that has just started.
func (h *host) check() *Check {
	return New(Options{
		MaxBlocked: 3 * time.Minute, Timeout: time.Second, StateFile: h.file(), LookOnly: h.lookOnly, BootID: h.boot,
		Proc: h.path, Uptime: func() time.Duration { return h.uptime }, Clock: clock.RealClock{},
	})
}

func (h *host) file() string { return filepath.Join(h.path, "state", "tasks.json") }

// finds runs the check.
func (h *host) finds(c *Check, status checks.Status, reason string, words ...string) {
	h.t.Helper()
	got := c.Run(h.t.Context())
	if got.Status != status || got.Reason != reason {
		h.t.Errorf("got %s %s: %s; want %s %s", got.Status, got.Reason, got.Message, status, reason)
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			h.t.Errorf("the message does not have %q: %s", word, got.Message)
		}
	}
}

func TestOnlyThreadsThatWaitInTheKernelAreWatched(t *testing.T) {
	h := newHost(t)
	c := h.check()
	h.finds(c, checks.Unknown, ReasonNotSeen) // without a /proc
	h.write("loadavg", "2.00 1.00 0.50 1/80 9\n")
	h.task(5, 5, "S", "0")
	h.task(5, 6, "R", "0")
	h.task(6, 6, "D", "__refrigerator")
	h.task(7, 7, "D", "kernel_clone")
	h.finds(c, checks.False, ReasonHealthy)
	h.task(5, 6, "D", "folio_wait_bit_common")
	h.finds(c, checks.False, ReasonHealthy)
	h.uptime += 3 * time.Minute
	h.finds(c, checks.True, ReasonBlocked, "dd (process 5, thread 6) has waited in folio_wait_bit_common for at least 3m0s")
	h.write("loadavg", "0.30 1.00 0.50 1/80 9\n") // which no task that waits would let it be
	h.finds(c, checks.False, ReasonHealthy)
}

// waitingHost is one of which a former detector has seen a task wait for two minutes.
func waitingHost(t *testing.T) *host {
	h := newHost(t)
	h.write("loadavg", "2.00 1.00 0.50 1/80 9\n")
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy)
	h.task(5, 6, "D", "folio_wait_bit_common")
	h.finds(c, checks.False, ReasonHealthy)
	h.uptime += 2 * time.Minute
	h.finds(c, checks.Unknown, ReasonWaiting)
	return h
}

func TestAfterARestartItIsKnownSinceWhenATaskWaits(t *testing.T) {
	h := waitingHost(t)
	h.finds(h.check(), checks.Unknown, ReasonWaiting, "for at least 2m0s")
	h.uptime += time.Minute
	h.finds(h.check(), checks.True, ReasonBlocked, "for at least 3m0s")
	h.finds(h.check(), checks.True, ReasonBlocked, "for at least 3m0s")
	h.task(5, 6, "S", "0")
	h.finds(h.check(), checks.False, ReasonHealthy)
	h.task(5, 6, "D", "folio_wait_bit_common") // the same sleep was over
	h.finds(h.check(), checks.Unknown, ReasonWaiting, "for at least 0s")
}

func TestWhatIsRememberedIsOfTheSameSleepInTheSameBoot(t *testing.T) {
	for name, changes := range map[string]func(*host){
		"another boot":               func(h *host) { h.boot = "second" },
		"another task of the number": func(h *host) { h.started++ },
		"it was woken up in between": func(h *host) { h.switches++ },
		"the times are yet to come":  func(h *host) { h.uptime = time.Minute },
		"a file that is damaged":     func(h *host) { h.write("state/tasks.json", `{"bootID": "fir`) },
		"one of something else":      func(h *host) { h.write("state/tasks.json", "[]") },
		"one with times before the boot": func(h *host) {
			h.write("state/tasks.json", `{"bootID":"first","waiting":[{"process":5,"thread":6,"started":1234,"switches":6,"since":-1}]}`)
		},
		"none": func(h *host) { _ = os.Remove(h.file()) },
	} {
		t.Run(name, func(t *testing.T) {
			h := waitingHost(t)
			h.uptime += time.Hour
			changes(h)
			h.task(5, 6, "D", "folio_wait_bit_common")
			c := h.check()
			h.finds(c, checks.Unknown, ReasonWaiting, "for at least 0s")
			h.uptime += 3 * time.Minute
			h.finds(c, checks.True, ReasonBlocked, "for at least 3m0s")
			h.finds(h.check(), checks.True, ReasonBlocked, "for at least 3m0s") // whatever the file had
		})
	}
}

// A file system that is shown to this process otherwise than to the former one, say.
func TestATaskIsTheSameWhateverIsToldOfWhatItWaitsIn(t *testing.T) {
	h := waitingHost(t)
	h.uptime += time.Minute
	h.task(5, 6, "D", "0")
	h.finds(h.check(), checks.True, ReasonBlocked)
}

func TestAHealthyNodeIsNoReasonToWrite(t *testing.T) {
	h := newHost(t)
	h.write("loadavg", "2.00 1.00 0.50 1/80 9\n")
	c := h.check()
	h.finds(c, checks.False, ReasonHealthy)
	before, err := os.Stat(h.file())
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		h.switches++ // each time another sleep
		h.uptime += time.Minute
		h.task(5, 6, "D", "folio_wait_bit_common")
		h.finds(c, checks.False, ReasonHealthy)
	}
	if after, err := os.Stat(h.file()); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was written anew: %v", err)
	}
}

func TestManyTasksTakeLittleRoom(t *testing.T) {
	w := watched{since: map[sleep]time.Duration{}}
	for n := range 5000 {
		w.since[sleep{Process: n}] = time.Duration(n)
	}
	k := w.remember("first", time.Hour)
	if len(k.Waiting) != maxWaiting || k.Waiting[0].Process != 0 || k.Waiting[maxWaiting-1].Process != maxWaiting-1 {
		t.Errorf("%d tasks are remembered, from %+v", len(k.Waiting), k.Waiting[0])
	}
}

func TestAPersonsLookChangesNothing(t *testing.T) {
	h := waitingHost(t)
	h.uptime += time.Minute
	h.lookOnly = true
	h.finds(h.check(), checks.True, ReasonBlocked, "for at least 3m0s")
	h.task(5, 6, "S", "0")
	h.finds(h.check(), checks.False, ReasonHealthy)
	h.lookOnly = false
	h.task(5, 6, "D", "folio_wait_bit_common")
	h.finds(h.check(), checks.True, ReasonBlocked, "for at least 3m0s")
}
