package tasks

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks"
)

func TestATaskIsBlockedThatIsNotWokenUpForLongEnough(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	dd := task{process: 7, thread: 7, name: "dd", started: 5, switches: 10, in: "folio_wait_bit_common"}
	woken, other := dd, dd
	woken.switches++
	other.started++
	thread := task{process: 8, thread: 9, name: "containerd", started: 5}
	type look struct {
		second  int
		waiting []task
		want    string
	}
	for name, looks := range map[string][]look{
		"blocked": {
			{0, nil, "False NoTaskBlocked"},
			{30, []task{dd}, "False NoTaskBlocked"}, // at most for as long as an interval
			{60, []task{dd}, "Unknown TasksWaiting"},
			{209, []task{dd}, "Unknown TasksWaiting"},
			{210, []task{dd}, "True TasksBlocked"},
			{240, nil, "False NoTaskBlocked"},
		},
		"woken up in between":  {{0, nil, "False NoTaskBlocked"}, {30, []task{dd}, "False NoTaskBlocked"}, {300, []task{woken}, "False NoTaskBlocked"}},
		"another one":          {{0, nil, "False NoTaskBlocked"}, {30, []task{dd}, "False NoTaskBlocked"}, {300, []task{other}, "False NoTaskBlocked"}},
		"a gap":                {{0, nil, "False NoTaskBlocked"}, {30, []task{dd}, "False NoTaskBlocked"}, {60, nil, "False NoTaskBlocked"}, {300, []task{dd}, "False NoTaskBlocked"}},
		"at the start":         {{0, []task{dd}, "Unknown TasksWaiting"}, {180, []task{dd}, "True TasksBlocked"}},
		"one of several":       {{0, []task{dd, thread}, "Unknown TasksWaiting"}, {180, []task{woken, thread}, "True TasksBlocked"}},
		"all are woken up now": {{0, []task{dd}, "Unknown TasksWaiting"}, {180, []task{woken}, "False NoTaskBlocked"}},
	} {
		t.Run(name, func(t *testing.T) {
			var w watched
			for _, l := range looks {
				got := w.judge(l.waiting, noon.Add(time.Duration(l.second)*time.Second), 3*time.Minute)
				if s := fmt.Sprint(got.Status, " ", got.Reason); s != l.want {
					t.Errorf("after %d s: %s (%s), want %s", l.second, s, got.Message, l.want)
				}
			}
		})
	}
}

func TestAMessageNamesTheTasksThatHaveWaitedLongest(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var w watched
	old := task{process: 8, thread: 90, name: "containerd", in: "nfs_wait_bit_killable"}
	w.judge([]task{old}, noon, time.Minute)
	all := []task{{process: 1, thread: 1, name: "a"}, old}
	w.judge(all, noon.Add(time.Minute), time.Minute)
	for i := range 5 {
		all = append(all, task{process: 10 + i, thread: 10 + i, name: "b"})
	}
	w.judge(all, noon.Add(2*time.Minute), time.Minute)
	want := "containerd (process 8, thread 90) has waited in nfs_wait_bit_killable for at least 3m0s; a (process 1) has waited for at least 2m0s; " +
		"b (process 10) has waited for at least 1m0s; b (process 11) has waited for at least 1m0s; b (process 12) has waited for at least 1m0s; and 2 more"
	if got := w.judge(all, noon.Add(3*time.Minute), time.Minute); got != checks.Problem(ReasonBlocked, want) {
		t.Errorf("got  %+v\nwant %s", got, want)
	}
}

// host is one whose /proc is played.
type host struct {
	t    *testing.T
	path string
}

func (h host) write(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.path, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h host) task(process, thread int, state, in string) {
	path := fmt.Sprintf("%d/task/%d/", process, thread)
	h.write(path+"stat", fmt.Sprintf("%d (dd) %s 1 1 1 0 -1 4194560 101 0 0 0 0 0 0 0 20 0 1 0 1234 2564096 413 18446744073709551615 1 1 1 0 0 0 0 0 0 1 0 0 17 1 0 0 0 0 0 1 1 1 1 1 1 1 0\n", thread, state))
	h.write(path+"status", "Name:\tdd\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t1\n")
	h.write(path+"wchan", in)
}

func TestOnlyThreadsThatWaitInTheKernelAreWatched(t *testing.T) {
	h := host{t, t.TempDir()}
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	c := New(Options{MaxBlocked: 3 * time.Minute, Timeout: time.Second, Proc: h.path, Clock: clock})
	run := func(want checks.Result) {
		t.Helper()
		if got := c.Run(t.Context()); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	healthy := checks.Healthy(ReasonHealthy, "no task waits in the kernel without being woken up")
	if got := c.Run(t.Context()); got.Status != checks.Unknown || got.Reason != ReasonNotSeen {
		t.Errorf("without a /proc: %+v", got)
	}
	h.write("loadavg", "2.00 1.00 0.50 1/80 9\n")
	h.task(5, 5, "S", "0")
	h.task(5, 6, "R", "0")
	h.task(6, 6, "D", "__refrigerator")
	h.task(7, 7, "D", "kernel_clone")
	run(healthy)
	h.task(5, 6, "D", "folio_wait_bit_common")
	run(healthy)
	clock.SetTime(clock.Now().Add(3 * time.Minute))
	run(checks.Problem(ReasonBlocked, "dd (process 5, thread 6) has waited in folio_wait_bit_common for at least 3m0s"))
	h.write("loadavg", "0.30 1.00 0.50 1/80 9\n") // which no task that waits would let it be
	run(healthy)
}
