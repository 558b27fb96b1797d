package exporter

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	runtime  corev1.NodeConditionType = "ContainerRuntimeUnhealthy"
	hardware corev1.NodeConditionType = "HardwareFailure"

	yes     = corev1.ConditionTrue
	no      = corev1.ConditionFalse
	unknown = corev1.ConditionUnknown
)

// epoch is when a test begins; lastWeek is before the detector was started.
var (
	epoch    = time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)
	lastWeek = epoch.Add(-7 * 24 * time.Hour)
)

// world is a state with a clock and a Node that always answers, unless a test
// calls the state itself.
type world struct {
	t   *testing.T
	now time.Time
	// has is what the Node has.
	has map[corev1.NodeConditionType]corev1.NodeCondition
	// foreign is what was noticed of other writers.
	foreign []foreignWrite
	*state
}

func newWorld(t *testing.T) *world { return newWorldWith(t, Options{}) }

func newWorldWith(t *testing.T, options Options) *world {
	options.Heartbeat, options.ProblemHeartbeat = 5*time.Minute, 30*time.Second
	options.Rand = func() float64 { return 0.5 } // no jitter
	options.Clock = clocktesting.NewFakeClock(epoch)
	w := &world{t: t, now: epoch, state: newState(options), has: map[corev1.NodeConditionType]corev1.NodeCondition{}}
	w.beating = true // the first heartbeat is not spread
	return w
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) see(conditionType corev1.NodeConditionType, status corev1.ConditionStatus) {
	w.observe(observation{conditionType: conditionType, status: status, reason: "Reason" + string(status), at: w.now})
}

// node sets the Node's conditions and lets it be read.
func (w *world) node(conditions ...corev1.NodeCondition) {
	w.put(conditions...)
	w.read()
}

func (w *world) put(conditions ...corev1.NodeCondition) {
	for _, c := range conditions {
		w.has[c.Type] = c
	}
}

func (w *world) read() {
	w.foreign = append(w.foreign, w.seed("node-1", slices.Collect(maps.Values(w.has)), w.now)...)
}

// written is what is written now; nil if nothing is due.
func (w *world) written() []corev1.NodeCondition {
	w.t.Helper()
	next := w.plan(w.now)
	if next.read {
		w.read()
		next = w.plan(w.now)
	}
	if next.patch == nil {
		return nil
	}
	if next.patch.uid != w.uid {
		w.t.Errorf("patch is for UID %q, want %q", next.patch.uid, w.uid)
	}
	w.put(next.patch.conditions...)
	w.acknowledge(next.patch, w.now)
	return next.patch.conditions
}

func (w *world) expect(want ...corev1.NodeCondition) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.written()); diff != "" {
		w.t.Errorf("at %s, written (-want +got):\n%s", w.now.Sub(epoch), diff)
	}
}

// a is a condition that was observed and last changed at the given times.
func a(conditionType corev1.NodeConditionType, status corev1.ConditionStatus, observed, since time.Time) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type: conditionType, Status: status, Reason: "Reason" + string(status),
		LastHeartbeatTime: metav1.NewTime(observed), LastTransitionTime: metav1.NewTime(since),
	}
}

func TestTheFirstWriteAfterAStart(t *testing.T) {
	stored := func(status corev1.ConditionStatus) corev1.NodeCondition {
		return a(runtime, status, lastWeek, lastWeek)
	}
	seconds := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }
	for name, tc := range map[string]struct {
		// seen is observed one second apart, beginning at epoch.
		seen []corev1.ConditionStatus
		// readAfter is how many of them come before the Node was read.
		readAfter int
		node      []corev1.NodeCondition
		want      []corev1.NodeCondition
	}{
		"nothing before the first run": {
			node: []corev1.NodeCondition{stored(yes)},
		},
		"a problem that goes on keeps its transition": {
			seen: []corev1.ConditionStatus{yes}, node: []corev1.NodeCondition{stored(yes)},
			want: []corev1.NodeCondition{a(runtime, yes, epoch, lastWeek)},
		},
		"health that goes on keeps its transition": {
			seen: []corev1.ConditionStatus{no}, node: []corev1.NodeCondition{stored(no)},
			want: []corev1.NodeCondition{a(runtime, no, epoch, lastWeek)},
		},
		"a first run that differs is a transition": {
			seen: []corev1.ConditionStatus{no}, node: []corev1.NodeCondition{stored(yes)},
			want: []corev1.NodeCondition{a(runtime, no, epoch, epoch)},
		},
		"unknown is a status of its own": {
			seen: []corev1.ConditionStatus{unknown}, node: []corev1.NodeCondition{stored(yes)},
			want: []corev1.NodeCondition{a(runtime, unknown, epoch, epoch)},
		},
		"a node without the condition": {
			seen: []corev1.ConditionStatus{no},
			want: []corev1.NodeCondition{a(runtime, no, epoch, epoch)},
		},
		"conditions that were not checked are left alone": {
			seen: []corev1.ConditionStatus{yes}, node: []corev1.NodeCondition{stored(yes), a(hardware, yes, lastWeek, lastWeek), a("Ready", yes, lastWeek, lastWeek)},
			want: []corev1.NodeCondition{a(runtime, yes, epoch, lastWeek)},
		},
		"API away, same status all the time": {
			seen: []corev1.ConditionStatus{yes, yes, yes}, readAfter: 3, node: []corev1.NodeCondition{stored(yes)},
			want: []corev1.NodeCondition{a(runtime, yes, seconds(2), lastWeek)},
		},
		"API away, differing since the first run": {
			seen: []corev1.ConditionStatus{no, no, no}, readAfter: 3, node: []corev1.NodeCondition{stored(yes)},
			want: []corev1.NodeCondition{a(runtime, no, seconds(2), epoch)},
		},
		"API away, changed meanwhile": {
			seen: []corev1.ConditionStatus{yes, no, no}, readAfter: 3, node: []corev1.NodeCondition{stored(yes)},
			want: []corev1.NodeCondition{a(runtime, no, seconds(2), seconds(1))},
		},
		"API away, changed there and back": {
			seen: []corev1.ConditionStatus{yes, no, yes}, readAfter: 3, node: []corev1.NodeCondition{stored(yes)},
			want: []corev1.NodeCondition{a(runtime, yes, seconds(2), seconds(2))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.readAfter == 0 {
				w.node(tc.node...)
			}
			for i, status := range tc.seen {
				w.now = seconds(i)
				w.see(runtime, status)
				if tc.readAfter == i+1 {
					w.node(tc.node...)
				}
			}
			w.expect(tc.want...)
		})
	}
}

func TestTheNodeIsReadBeforeAnythingElse(t *testing.T) {
	w := newWorld(t)
	w.see(runtime, yes)
	w.see(hardware, no)
	if next := w.plan(w.now); !next.read || next.patch != nil {
		t.Errorf("planned %+v, want a read", next)
	}
}

func TestHeartbeats(t *testing.T) {
	const interval = 10 * time.Second // of the check
	for name, tc := range map[string]struct {
		status corev1.ConditionStatus
		since  time.Time
		// want are the times of the writes after the first in the first 15 minutes.
		want []time.Duration
	}{
		"healthy for long": {no, lastWeek, []time.Duration{5 * time.Minute, 10 * time.Minute, 15 * time.Minute}},
		"a problem":        {yes, lastWeek, every(30*time.Second, 15*time.Minute)},
		"unknown":          {unknown, lastWeek, every(30*time.Second, 15*time.Minute)},
		"healthy again": {no, epoch.Add(-5 * time.Minute),
			append(every(30*time.Second, 5*time.Minute), 10*time.Minute, 15*time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node(a(runtime, tc.status, lastWeek, tc.since))
			w.see(runtime, tc.status)
			w.expect(a(runtime, tc.status, epoch, tc.since))
			var got []time.Duration
			for w.now.Before(epoch.Add(15 * time.Minute)) {
				w.pass(interval)
				w.see(runtime, tc.status)
				for _, c := range w.written() {
					got = append(got, w.now.Sub(epoch))
					if diff := cmp.Diff(a(runtime, tc.status, w.now, tc.since), c); diff != "" {
						t.Errorf("heartbeat (-want +got):\n%s", diff)
					}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("times of heartbeats (-want +got):\n%s", diff)
			}
		})
	}
}

func every(interval, until time.Duration) (times []time.Duration) {
	for d := interval; d <= until; d += interval {
		times = append(times, d)
	}
	return times
}

func TestOnlyTheHeartbeatOfAHangingCheckStops(t *testing.T) {
	w := newWorld(t)
	w.node()
	w.see(runtime, yes)
	w.see(hardware, no)
	w.expect(a(runtime, yes, epoch, epoch), a(hardware, no, epoch, epoch))

	w.pass(30 * time.Second)
	w.expect() // nothing ran: nothing to say

	w.pass(time.Second)
	w.see(hardware, no)
	w.expect(a(hardware, no, w.now, epoch))

	w.pass(30 * time.Second)
	w.see(hardware, no)
	w.see(runtime, yes)
	w.expect(a(runtime, yes, w.now, epoch), a(hardware, no, w.now, epoch))
}

func TestChangesAreWrittenAtOnceSomeSecondsAfterTheLastUnlessOnlyTheMessageHasChanged(t *testing.T) {
	first := observation{conditionType: runtime, status: no, reason: "Fine", message: "3 ms"}
	for name, tc := range map[string]struct {
		change   func(*observation)
		want     time.Duration // until written
		newSince bool
	}{
		"status":  {func(o *observation) { o.status = yes }, 0, true},
		"reason":  {func(o *observation) { o.reason = "Better" }, 4 * time.Second, false},
		"message": {func(o *observation) { o.message = "4 ms" }, 29 * time.Second, false},
		"nothing": {func(*observation) {}, 29 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node()
			first.at = w.now
			w.observe(first)
			w.written()

			w.pass(time.Second)
			second := first
			second.at = w.now
			tc.change(&second)
			w.observe(second)
			if next := w.plan(w.now); next.wait != tc.want {
				t.Errorf("planned %+v, want to wait for %s", next, tc.want)
			}
			w.pass(tc.want)
			since := epoch
			if tc.newSince {
				since = second.at
			}
			w.expect(corev1.NodeCondition{
				Type: runtime, Status: second.status, Reason: second.reason, Message: second.message,
				LastHeartbeatTime: metav1.NewTime(second.at), LastTransitionTime: metav1.NewTime(since),
			})
		})
	}
}

func TestAfterFailuresTheLatestStateIsWrittenWithTheTimeItWasObserved(t *testing.T) {
	w := newWorld(t)
	w.node(a(runtime, no, lastWeek, lastWeek))
	w.see(runtime, no)
	w.written()

	w.pass(time.Second)
	w.see(runtime, yes)
	if w.plan(w.now).patch == nil {
		t.Fatal("a change is not written at once")
	}
	w.fail(false, w.now)

	w.pass(100 * time.Millisecond)
	w.see(runtime, no)
	w.expect() // backing off
	w.pass(time.Second - 100*time.Millisecond)
	w.see(runtime, yes)
	w.expect(a(runtime, yes, w.now, w.now))
}

func TestAChangeThereAndBackDuringAWriteIsNotLost(t *testing.T) {
	w := newWorld(t)
	w.node()
	w.see(runtime, yes)
	underWay := w.plan(w.now).patch
	w.pass(time.Second)
	w.see(runtime, no)
	w.pass(time.Second)
	w.see(runtime, yes)
	seen := w.now
	w.acknowledge(underWay, w.now)
	w.pass(time.Second)
	w.expect(a(runtime, yes, seen, seen))
}

func TestARecreatedNodeIsReadAgainAndGetsWhatIsKnown(t *testing.T) {
	for name, tc := range map[string]struct {
		node []corev1.NodeCondition
		want corev1.NodeCondition
	}{
		"without the condition":          {nil, a(runtime, yes, epoch, lastWeek)},
		"with another status":            {[]corev1.NodeCondition{a(runtime, no, epoch, epoch)}, a(runtime, yes, epoch, lastWeek)},
		"with a transition of its own":   {[]corev1.NodeCondition{a(runtime, yes, epoch, epoch.Add(-time.Hour))}, a(runtime, yes, epoch, epoch.Add(-time.Hour))},
		"with the condition as it is":    {[]corev1.NodeCondition{a(runtime, yes, epoch, lastWeek)}, a(runtime, yes, epoch, lastWeek)},
		"with conditions of other parts": {[]corev1.NodeCondition{a("Ready", yes, epoch, epoch)}, a(runtime, yes, epoch, lastWeek)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node(a(runtime, yes, lastWeek, lastWeek))
			w.see(runtime, yes)
			w.fail(true, w.now)
			if next := w.plan(w.now); next.read || next.patch != nil || next.wait != 750*time.Millisecond {
				t.Errorf("planned %+v, want to wait", next)
			}
			w.pass(time.Second)
			if !w.plan(w.now).read {
				t.Error("the node is not read again")
			}
			w.seed(types.UID("node-2"), tc.node, w.now)
			w.expect(tc.want)
		})
	}
}

func TestRetriesSlowDownAndAreSpreadOut(t *testing.T) {
	always := func(x float64) func() float64 { return func() float64 { return x } }
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 6: 30 * time.Second, 1000: 30 * time.Second} {
		if got := backoff(failures, always(0)); got != want {
			t.Errorf("after %d failures at most %s, want %s", failures, got, want)
		}
		if got := backoff(failures, always(1)); got != want/2 {
			t.Errorf("after %d failures at least %s, want %s", failures, got, want/2)
		}
	}
	for x, want := range map[float64]time.Duration{0: 270 * time.Second, .5: 300 * time.Second, 1: 330 * time.Second} {
		if got := jitter(5*time.Minute, always(x)).Round(time.Millisecond); got != want {
			t.Errorf("jitter at %g is %s, want %s", x, got, want)
		}
	}
}

func TestTimesAreRoundedDown(t *testing.T) {
	w := newWorld(t)
	w.node()
	w.pass(999 * time.Millisecond)
	w.see(runtime, yes)
	w.expect(a(runtime, yes, epoch, epoch))
}

func TestTimesAreThoseOfTheServersClock(t *testing.T) {
	w := newWorld(t)
	w.see(runtime, yes) // before the difference is known
	w.correct(-time.Hour, false, w.now)
	w.answered = true
	w.node()
	w.expect(a(runtime, yes, epoch.Add(-time.Hour), epoch.Add(-time.Hour)))

	w.pass(time.Minute)
	w.correct(-2*time.Hour, false, w.now) // what has been written stays
	w.see(runtime, yes)
	w.expect(a(runtime, yes, w.now.Add(-2*time.Hour), epoch.Add(-time.Hour)))
	w.pass(time.Minute)
	w.see(runtime, no)
	w.expect(a(runtime, no, w.now.Add(-2*time.Hour), w.now.Add(-2*time.Hour)))
}

func TestOnePatchAnIntervalWheneverChecksRun(t *testing.T) {
	const plugin = corev1.NodeConditionType("PluginProblem")
	type check struct{ every, offset int } // in seconds
	for name, tc := range map[string]struct {
		status corev1.ConditionStatus // of the plugin
		checks map[corev1.NodeConditionType]check
		most   int // patches in an hour
		age    time.Duration
	}{
		"a problem, one phase":      {yes, map[corev1.NodeConditionType]check{runtime: {30, 0}, plugin: {30, 0}}, 121, time.Minute},
		"a problem, three phases":   {yes, map[corev1.NodeConditionType]check{runtime: {30, 0}, hardware: {30, 10}, plugin: {30, 20}}, 121, time.Minute},
		"a problem, checks differ":  {yes, map[corev1.NodeConditionType]check{runtime: {10, 0}, hardware: {57, 10}, plugin: {54, 20}}, 121, 90 * time.Second},
		"a problem that is slow":    {yes, map[corev1.NodeConditionType]check{runtime: {10, 0}, hardware: {290, 10}, plugin: {85, 20}}, 165, 90 * time.Second},
		"healthy, checks differ":    {no, map[corev1.NodeConditionType]check{runtime: {10, 0}, plugin: {30, 20}}, 13, 6 * time.Minute},
		"healthy, checks are slow":  {no, map[corev1.NodeConditionType]check{runtime: {10, 0}, plugin: {290, 10}}, 13, 6 * time.Minute},
		"healthy, slow, two phases": {no, map[corev1.NodeConditionType]check{plugin: {290, 140}, hardware: {290, 10}}, 26, 6 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for conditionType := range tc.checks {
				w.put(a(conditionType, map[bool]corev1.ConditionStatus{true: tc.status, false: no}[conditionType == plugin], epoch, lastWeek))
			}
			w.read()
			patches := 0
			for second := range 3600 + 300 {
				w.now = epoch.Add(time.Duration(second) * time.Second)
				for conditionType, c := range tc.checks {
					if second%c.every == c.offset%c.every {
						w.see(conditionType, w.has[conditionType].Status)
					}
				}
				written := w.written()
				if second < 300 { // until all have run
					continue
				}
				if written != nil {
					patches++
				}
				if age := w.now.Sub(w.has[plugin].LastHeartbeatTime.Time); age > tc.age {
					t.Fatalf("after %d s the Node has a heartbeat of %s ago", second, age)
				}
			}
			if patches > tc.most {
				t.Errorf("%d patches in an hour, want %d at most", patches, tc.most)
			}
		})
	}
}
