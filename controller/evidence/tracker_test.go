package evidence

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// told is what a node tells of a condition: at a second of our clock, with times in seconds of
// the node's clock.
type told struct {
	at                    int
	status                corev1.ConditionStatus
	heartbeat, transition int
}

// steady is a report that comes at once, from a clock that is right.
func steady(at int, status corev1.ConditionStatus, transition int) told {
	return told{at, status, at, transition}
}

func second(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }

// telling returns the n-th version of a node.
func telling(n int, say told) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid", ResourceVersion: strconv.Itoa(n + 1)}}
	if say.status != "" {
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: "Lost", Status: say.status, LastHeartbeatTime: metav1.NewTime(second(say.heartbeat)), LastTransitionTime: metav1.NewTime(second(say.transition)),
		}}
	}
	return node
}

// lost is debounced by 2 minutes.
func lost(hold time.Duration) v1alpha1.ConditionMatch {
	return v1alpha1.ConditionMatch{
		Type: "Lost", Status: corev1.ConditionTrue, For: v1alpha1.Duration{Duration: hold}, Debounce: v1alpha1.Duration{Duration: 2 * time.Minute},
	}
}

const (
	yes = corev1.ConditionTrue
	no  = corev1.ConditionFalse
)

func TestWhatCountsAsHeld(t *testing.T) {
	const never = -1
	for name, tt := range map[string]struct {
		tells []told
		at    int // 0: with the last report
		held  int
		since int
	}{
		"from the first report":                   {[]told{steady(10, yes, -900)}, 0, 10, 10},
		"whatever the node's clock says":          {[]told{{10, yes, 5000, 4000}}, 0, 10, 10},
		"an alternating reason does not end it":   {[]told{steady(0, yes, 0), steady(30, yes, 30), steady(60, yes, 60), steady(90, yes, 90)}, 0, 0, 0},
		"a short contrary status does not end it": {[]told{steady(0, yes, 0), steady(60, no, 60), steady(179, yes, 179)}, 0, 0, 179},
		"nor do many":                                     {[]told{steady(0, yes, 0), steady(60, no, 60), steady(100, yes, 100), steady(120, no, 120), steady(200, yes, 200)}, 0, 0, 200},
		"a long one does":                                 {[]told{steady(0, yes, 0), steady(60, no, 60), steady(120, no, 60), steady(180, yes, 180)}, 0, 180, 180},
		"while it lasts, too":                             {[]told{steady(0, yes, 0), steady(60, no, 60)}, 180, never, 60},
		"not before":                                      {[]told{steady(0, yes, 0), steady(60, no, 60)}, 179, 0, 60},
		"two contrary ones are one piece":                 {[]told{steady(0, yes, 0), steady(60, no, 60), steady(120, corev1.ConditionUnknown, 120), steady(180, yes, 180)}, 0, 180, 180},
		"a condition that is gone is contrary":            {[]told{steady(0, yes, 0), {at: 30}, {at: 100}, steady(150, yes, 150)}, 0, 150, 150},
		"it may be gone for a short time":                 {[]told{steady(0, yes, 0), {at: 30}, steady(60, yes, 60)}, 0, 0, 60},
		"a node that never had it":                        {[]told{{at: 5}}, 0, never, 5},
		"a late burst ends it by the node's clock":        {[]told{{0, yes, -140, -140}, {100, no, -30, -30}, {100, no, 30, -30}, {101, yes, 95, 95}}, 0, 101, 101},
		"a lost piece may have been contrary":             {[]told{steady(0, yes, 0), steady(121, yes, 121)}, 0, 121, 121},
		"not if it was shorter than debounce":             {[]told{steady(0, yes, 0), steady(120, yes, 120)}, 0, 0, 0},
		"nor if nothing has turned":                       {[]told{steady(0, yes, -60), steady(300, yes, -60), steady(600, yes, -60)}, 0, 0, 0},
		"unless nobody reported for long":                 {[]told{steady(0, yes, -60), steady(421, yes, -60)}, 0, 421, 421},
		"a lost piece by the node's clock alone":          {[]told{steady(0, yes, 0), {20, yes, 300, 300}}, 0, 20, 20},
		"a node's clock that was set back proves nothing": {[]told{steady(100, yes, 100), {130, yes, 70, 70}}, 0, 130, 130},
		"what is healthy is counted in one piece":         {[]told{steady(0, no, 0), steady(30, no, 30), steady(60, yes, 60), steady(61, no, 61), steady(90, no, 90)}, 0, 60, 61},
	} {
		t.Run(name, func(t *testing.T) {
			var tracker Tracker
			m := lost(0)
			var seen Seen
			for i, say := range tt.tells {
				tracker.Observe(telling(i, say), second(say.at))
				seen = tracker.Seen(telling(i, say), &m, second(say.at))
				tt.at = max(tt.at, say.at)
			}
			if last := len(tt.tells) - 1; tt.at > tt.tells[last].at {
				seen = tracker.Seen(telling(last, tt.tells[last]), &m, second(tt.at))
			}
			want := Seen{Held: second(tt.held), Status: tt.tells[len(tt.tells)-1].status, Since: second(tt.since)}
			if tt.held == never {
				want.Held = time.Time{}
			}
			if !seen.Held.Equal(want.Held) || seen.Status != want.Status || !seen.Since.Equal(want.Since) {
				t.Errorf("got held %s, %q since %s; want %s, %q since %s", seen.Held, seen.Status, seen.Since, want.Held, want.Status, want.Since)
			}
		})
	}
}

func TestAControllerThatStartsCountsAnew(t *testing.T) {
	m := lost(0)
	var before, after Tracker
	for i := range 10 {
		before.Seen(telling(i, steady(60*i, yes, 60*i)), &m, second(60*i))
	}
	last := telling(10, steady(600, yes, 600))
	if seen := before.Seen(last, &m, second(600)); !seen.Held.Equal(second(0)) {
		t.Errorf("the one that has seen all counts from %s", seen.Held)
	}
	if seen := after.Seen(last, &m, second(600)); !seen.Held.Equal(second(600)) {
		t.Errorf("one that starts counts from %s", seen.Held)
	}
}

func TestAnOlderVersionOfANodeTeachesNothing(t *testing.T) {
	m := lost(0)
	var tracker Tracker
	tracker.Seen(telling(5, steady(0, yes, 0)), &m, second(0))
	for _, version := range []int{5, 4, 1} {
		tracker.Observe(telling(version, steady(10, no, 10)), second(200))
	}
	if seen := tracker.Seen(telling(3, steady(10, no, 10)), &m, second(300)); seen.Status != yes || !seen.Held.Equal(second(0)) {
		t.Errorf("got %+v", seen)
	}
	other := lost(0)
	other.Status = no
	if seen := tracker.Seen(telling(3, steady(10, no, 10)), &other, second(300)); seen != (Seen{}) {
		t.Errorf("of an entry that nobody has asked for it knows %+v", seen)
	}
}

func TestOnlyWhatMatchesIsRemembered(t *testing.T) {
	m := lost(0)
	var tracker Tracker
	tracker.Observe(telling(0, steady(0, yes, 0)), second(0))
	if len(tracker.nodes) != 0 {
		t.Error("a node is remembered that nobody has asked for")
	}
	tracker.Seen(telling(1, steady(10, yes, 0)), &m, second(10))
	hour := int(askedFor / time.Second)
	tracker.Observe(telling(2, steady(20, no, 20)), second(20))
	tracker.Observe(telling(3, steady(10+hour, no, 20)), second(10+hour))
	if len(tracker.nodes) != 1 {
		t.Error("it is forgotten while a remediation may be open")
	}
	tracker.Observe(telling(4, steady(11+hour, no, 20)), second(11+hour))
	if len(tracker.nodes) != 0 {
		t.Error("a healthy condition is remembered for which nobody asks")
	}
	tracker.Seen(telling(5, steady(20+hour, yes, 0)), &m, second(20+hour))
	tracker.Observe(telling(6, steady(20+3*hour, yes, 0)), second(20+3*hour))
	if len(tracker.nodes) != 1 {
		t.Error("one that matches is forgotten")
	}
	tracker.Forget(telling(7, told{}))
	if len(tracker.nodes) != 0 {
		t.Error("a node is remembered that is gone")
	}
}

// A heartbeat of a fleet costs nothing, and one of a tracked node no memory.
func TestAHeartbeatAllocatesNothing(t *testing.T) {
	m := lost(0)
	var tracker Tracker
	tracker.Seen(telling(0, steady(0, yes, 0)), &m, second(0))
	versions := []*corev1.Node{telling(1, steady(30, yes, 0)), telling(2, steady(60, yes, 0))}
	other := telling(1, steady(0, no, 0))
	other.UID = "other"
	i := 0
	if n := testing.AllocsPerRun(100, func() {
		i++
		versions[i%2].ResourceVersion = strconv.Itoa(10)
		tracker.nodes["uid"].version = "9"
		tracker.Observe(versions[i%2], second(30))
		tracker.Observe(other, second(30))
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWhatADebouncedConditionProves(t *testing.T) {
	report := func(status corev1.ConditionStatus) *corev1.Node {
		return telling(0, told{0, status, 0, -3}) // turned 3 s ago, as it says
	}
	began := second(-1800)
	for name, tt := range map[string]struct {
		status corev1.ConditionStatus
		seen   Seen
		state  State
		due    int
	}{
		"a fault that was seen since before":                {yes, Seen{Held: second(-3600), Status: yes, Since: second(-3)}, Faulty, 0},
		"one that has come back and has not held yet":       {yes, Seen{Held: second(-200), Status: yes, Since: second(-200)}, Unconfirmed, 100},
		"one that has come back and has held":               {yes, Seen{Held: second(-300), Status: yes, Since: second(-3)}, Faulty, 0},
		"a fault that is away for a moment":                 {no, Seen{Held: second(-3600), Status: no, Since: second(-3)}, Unconfirmed, 117},
		"one that is away for debounce":                     {no, Seen{Status: no, Since: second(-120)}, Clear, 0},
		"one that is away for less, although all is new":    {no, Seen{Status: no, Since: second(-119)}, Unconfirmed, 1},
		"one whose absence nobody knows of":                 {corev1.ConditionUnknown, Seen{Status: corev1.ConditionUnknown, Since: second(-3600)}, Unconfirmed, 0},
		"a fault of which something newer is known":         {yes, Seen{Held: second(-3600), Status: no, Since: second(-3)}, Unconfirmed, 0},
		"a healthy state of which something newer is known": {no, Seen{Held: second(-3600), Status: yes, Since: second(-3600)}, Unconfirmed, 0},
		"one of which nothing is known":                     {yes, Seen{}, Unconfirmed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := Judge([]v1alpha1.ConditionMatch{lost(5 * time.Minute)}, Input{Node: report(tt.status), Began: began, Seen: []Seen{tt.seen}, Now: now})[0]
			var due time.Time
			if tt.due > 0 {
				due = second(tt.due)
			}
			if f.State != tt.state || !f.Due.Equal(due) || (f.Why == "") != (f.State != Unconfirmed) {
				t.Errorf("got %+v, want state %d, due %s", f, tt.state, due)
			}
			if f.State == Clear && !f.Since.Equal(tt.seen.Since) {
				t.Errorf("clear since %s, want %s", f.Since, tt.seen.Since)
			}
		})
	}
	// Who has seen nothing believes the condition.
	for status, want := range map[corev1.ConditionStatus]State{yes: Unconfirmed, no: Unconfirmed} {
		if f := Judge([]v1alpha1.ConditionMatch{lost(5 * time.Minute)}, Input{Node: report(status), Began: began, Now: now})[0]; f.State != want {
			t.Errorf("%s: got %+v", status, f)
		}
	}
	// No age of a heartbeat is forgiven.
	old := telling(0, told{0, yes, -121, -3600})
	if f := Judge([]v1alpha1.ConditionMatch{lost(0)}, Input{Node: old, Seen: []Seen{{Held: second(-3600), Status: yes, Since: second(-3600)}}, Now: now})[0]; f.State != Unconfirmed {
		t.Errorf("a stale report: got %+v", f)
	}
}
