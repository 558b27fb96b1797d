package tasks

import (
	"fmt"
	"testing"
	"time"

	"github.com/nodemend/nodemend/checks"
)

func TestATaskIsBlockedThatIsNotWokenUpForLongEnough(t *testing.T) {
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
				got := w.judge(l.waiting, time.Hour+time.Duration(l.second)*time.Second, 3*time.Minute)
				if s := fmt.Sprint(got.Status, " ", got.Reason); s != l.want {
					t.Errorf("after %d s: %s (%s), want %s", l.second, s, got.Message, l.want)
				}
			}
		})
	}
}

func TestAMessageNamesTheTasksThatHaveWaitedLongest(t *testing.T) {
	const noon = time.Hour
	var w watched
	old := task{process: 8, thread: 90, name: "containerd", in: "nfs_wait_bit_killable"}
	w.judge([]task{old}, noon, time.Minute)
	all := []task{{process: 1, thread: 1, name: "a"}, old}
	w.judge(all, noon+time.Minute, time.Minute)
	for i := range 5 {
		all = append(all, task{process: 10 + i, thread: 10 + i, name: "b"})
	}
	w.judge(all, noon+2*time.Minute, time.Minute)
	want := "containerd (process 8, thread 90) has waited in nfs_wait_bit_killable for at least 3m0s; a (process 1) has waited for at least 2m0s; " +
		"b (process 10) has waited for at least 1m0s; b (process 11) has waited for at least 1m0s; b (process 12) has waited for at least 1m0s; and 2 more"
	if got := w.judge(all, noon+3*time.Minute, time.Minute); got != checks.Problem(ReasonBlocked, want) {
		t.Errorf("got  %+v\nwant %s", got, want)
	}
}
