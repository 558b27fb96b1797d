package exporter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/checks/statefile"
)

// statuses writes T, F and U for True, False and Unknown.
func statuses(letters string) (s []corev1.ConditionStatus) {
	for _, letter := range letters {
		s = append(s, map[rune]corev1.ConditionStatus{'T': yes, 'F': no, 'U': unknown}[letter])
	}
	return s
}

func TestEnoughRunsInARowMustAgree(t *testing.T) {
	at := func(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }
	// read only after the runs, the Node can't confirm the first of them
	const differs = "a run that differs confirms nothing"
	for name, tc := range map[string]struct {
		node string // what the Node had, since last week; empty: nothing
		runs string // one a second
		want *corev1.NodeCondition
	}{
		"health on a new node at once":           {"", "F", new(a(runtime, no, at(0), at(0)))},
		"a problem on a new node not at once":    {"", "TT", nil},
		"a problem on a new node after enough":   {"", "TTT", new(a(runtime, yes, at(2), at(2)))},
		"a problem after enough":                 {"F", "TTTT", new(a(runtime, yes, at(3), at(2)))},
		"a problem that is not seen enough":      {"F", "FTT", new(a(runtime, no, at(0), lastWeek))},
		"failing to tell counts like a problem":  {"F", "UUU", new(a(runtime, unknown, at(2), at(2)))},
		"a problem and failing to tell differ":   {"F", "TUTU", nil},
		"flapping is never a problem":            {"F", "TTFTTFTT", new(a(runtime, no, at(5), lastWeek))},
		"recovery after enough":                  {"T", "FF", new(a(runtime, no, at(1), at(1)))},
		"recovery not at once":                   {"T", "F", nil},
		"what was there is confirmed at once":    {"T", "T", new(a(runtime, yes, at(0), lastWeek))},
		differs:                                  {"T", "TF", new(a(runtime, yes, at(0), lastWeek))},
		"a problem restored, then not told":      {"T", "UU", nil},
		"one failing run does not end a problem": {"T", "TUT", new(a(runtime, yes, at(2), lastWeek))},
	} {
		for _, readFirst := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "", false: ", the Node being read late"}[readFirst], func(t *testing.T) {
				if name == differs && !readFirst {
					tc.want = nil
				}
				w := newWorldWith(t, Options{Thresholds: map[corev1.NodeConditionType]Thresholds{runtime: {Failure: 3, Success: 2}}})
				for _, status := range statuses(tc.node) {
					w.put(a(runtime, status, lastWeek, lastWeek))
				}
				if readFirst {
					w.read()
				}
				for i, status := range statuses(tc.runs) {
					w.now = at(i)
					w.see(runtime, status)
				}
				var got *corev1.NodeCondition
				if written := w.written(); len(written) == 1 {
					got = &written[0]
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestAChangedReasonDoesNotMoveTheTransition(t *testing.T) {
	w := newWorld(t)
	w.node(a(runtime, yes, lastWeek, lastWeek))
	w.observe(observation{conditionType: runtime, status: yes, reason: "Another", message: "text", at: w.now})
	want := a(runtime, yes, epoch, lastWeek)
	want.Reason, want.Message = "Another", "text"
	w.expect(want)
}

func TestAProblemWithAnotherReasonNeedsEnoughRuns(t *testing.T) {
	at := func(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }
	for name, tc := range map[string]struct {
		reasons []string // of a problem, one a second; "": health
		want    string
		seen    time.Time
	}{
		"the same":                             {[]string{"A", "A"}, "A", at(1)},
		"one run with another":                 {[]string{"A", "B"}, "A", at(0)},
		"not enough":                           {[]string{"A", "B", "B"}, "A", at(0)},
		"enough":                               {[]string{"A", "B", "B", "B"}, "B", at(3)},
		"enough with any other":                {[]string{"A", "B", "C", "D"}, "D", at(3)},
		"confirmed in between":                 {[]string{"A", "B", "B", "A", "B", "B"}, "A", at(3)},
		"health in between is no other":        {[]string{"A", "B", "", "B", "B"}, "A", at(0)},
		"once it is reported it needs no more": {[]string{"A", "B", "B", "B", "B"}, "B", at(4)},
	} {
		for _, readFirst := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "", false: ", the Node being read late"}[readFirst], func(t *testing.T) {
				w := newWorldWith(t, Options{Thresholds: map[corev1.NodeConditionType]Thresholds{runtime: {Failure: 3, Success: 2}}})
				before := a(runtime, yes, lastWeek, lastWeek)
				before.Reason = "A"
				w.put(before)
				if readFirst {
					w.read()
				}
				for i, reason := range tc.reasons {
					w.now = at(i)
					if reason == "" {
						w.see(runtime, no)
						continue
					}
					w.observe(observation{conditionType: runtime, status: yes, reason: reason, message: "text", at: w.now})
				}
				written := w.written()
				if len(written) != 1 && readFirst { // read late, it may need some more runs
					t.Fatalf("%d conditions were written", len(written))
				}
				for _, got := range written {
					if got.Reason != tc.want || !got.LastHeartbeatTime.Time.Equal(tc.seen) || !got.LastTransitionTime.Time.Equal(lastWeek) {
						t.Errorf("reported: %s, confirmed %s, since %s", got.Reason, got.LastHeartbeatTime, got.LastTransitionTime)
					}
				}
			})
		}
	}
}

func TestAGraverProblemHasATransitionOfItsOwn(t *testing.T) {
	at := func(second int) time.Time { return epoch.Add(time.Duration(second) * time.Second) }
	for name, tc := range map[string]struct {
		before  string
		reasons []string // one a second
		want    string
		since   time.Time
	}{
		"a graver one":                  {"Mild", []string{"Grave", "Grave"}, "Grave", at(1)},
		"not seen enough":               {"Mild", []string{"Mild", "Grave"}, "Mild", lastWeek},
		"it goes on":                    {"Mild", []string{"Grave", "Grave", "Grave", "Worse", "Worse"}, "Worse", at(1)},
		"another mild one":              {"Mild", []string{"Slight", "Slight"}, "Slight", lastWeek},
		"a milder one":                  {"Grave", []string{"Mild", "Mild"}, "Mild", lastWeek},
		"a graver one, again":           {"Grave", []string{"Mild", "Mild", "Grave", "Grave"}, "Grave", at(3)},
		"another one that is no graver": {"Grave", []string{"Worse", "Worse"}, "Worse", lastWeek},
	} {
		for _, readFirst := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "", false: ", the Node being read late"}[readFirst], func(t *testing.T) {
				w := newWorldWith(t, Options{
					Thresholds: map[corev1.NodeConditionType]Thresholds{runtime: {Failure: 2}},
					Milder:     map[corev1.NodeConditionType][]string{runtime: {"Mild", "Slight"}},
				})
				before := a(runtime, yes, lastWeek, lastWeek)
				before.Reason = tc.before
				w.put(before)
				if readFirst {
					w.read()
				}
				for i, reason := range tc.reasons {
					w.now = at(i)
					w.observe(observation{conditionType: runtime, status: yes, reason: reason, at: w.now})
				}
				for _, got := range w.written() {
					late := !readFirst && tc.since.After(lastWeek) && got.LastTransitionTime.After(tc.since)
					if got.Reason != tc.want || !got.LastTransitionTime.Time.Equal(tc.since) && !late {
						t.Errorf("reported: %s since %s, want %s since %s", got.Reason, got.LastTransitionTime, tc.want, tc.since)
					}
				}
			})
		}
	}
}

func TestTheStateFileStandsInForTheNode(t *testing.T) {
	yesterday := epoch.Add(-24 * time.Hour)
	inFile := func(status corev1.ConditionStatus, since time.Time) statefile.State {
		return statefile.State{NodeUID: "node-1", Conditions: []statefile.Condition{
			{Type: string(runtime), Status: status, Reason: "Reason" + string(status), LastTransitionTime: since},
		}}
	}
	for name, tc := range map[string]struct {
		file statefile.State
		node []corev1.NodeCondition
		see  corev1.ConditionStatus
		want corev1.NodeCondition
	}{
		"the Node lacks the condition":                {inFile(yes, yesterday), nil, yes, a(runtime, yes, epoch, yesterday)},
		"the file has a change that was not written":  {inFile(yes, yesterday), []corev1.NodeCondition{a(runtime, no, lastWeek, lastWeek)}, yes, a(runtime, yes, epoch, yesterday)},
		"the Node has a later change":                 {inFile(yes, lastWeek), []corev1.NodeCondition{a(runtime, no, yesterday, yesterday)}, no, a(runtime, no, epoch, yesterday)},
		"the Node has another time for the same":      {inFile(yes, yesterday), []corev1.NodeCondition{a(runtime, yes, lastWeek, lastWeek)}, yes, a(runtime, yes, epoch, lastWeek)},
		"the file is of a Node that is gone":          {statefile.State{NodeUID: "node-0", Conditions: inFile(yes, yesterday).Conditions}, nil, yes, a(runtime, yes, epoch, epoch)},
		"the file is from before there was a Node":    {statefile.State{Conditions: inFile(yes, yesterday).Conditions}, nil, yes, a(runtime, yes, epoch, yesterday)},
		"it is older than what the Node has":          {statefile.State{Conditions: inFile(yes, lastWeek).Conditions}, []corev1.NodeCondition{a(runtime, no, yesterday, yesterday)}, no, a(runtime, no, epoch, yesterday)},
		"what is seen differs from what the file has": {inFile(yes, yesterday), nil, no, a(runtime, no, epoch, epoch)},
	} {
		for _, readFirst := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "", false: ", the Node being read late"}[readFirst], func(t *testing.T) {
				w := newWorldWith(t, Options{Restored: tc.file})
				w.put(tc.node...)
				if readFirst {
					w.read()
				}
				w.see(runtime, tc.see)
				w.expect(tc.want)
			})
		}
	}
	t.Run("nothing in it is written before a run", func(t *testing.T) {
		w := newWorldWith(t, Options{Restored: inFile(yes, yesterday)})
		w.node()
		w.expect()
	})
	t.Run("from before there was a Node, it is of the first and not of the next", func(t *testing.T) {
		w := newWorldWith(t, Options{Restored: statefile.State{Conditions: inFile(yes, yesterday).Conditions}})
		w.node()
		w.seed("node-2", nil, w.now)
		w.see(runtime, yes)
		w.expect(a(runtime, yes, epoch, epoch))
	})
	t.Run("what this process has not seen stays in it", func(t *testing.T) {
		w := newWorldWith(t, Options{Restored: inFile(yes, yesterday)})
		w.node()
		w.see(hardware, no)
		want := []statefile.Condition{
			inFile(yes, yesterday).Conditions[0],
			{Type: string(hardware), Status: no, Reason: "ReasonFalse", LastTransitionTime: epoch}, // of the boot without an ID
		}
		if diff := cmp.Diff(want, w.snapshot()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestAProblemOfALogLastsUntilTheNodeReboots(t *testing.T) {
	boot := epoch.Add(-24 * time.Hour)
	during, before := boot.Add(time.Hour), boot.Add(-time.Hour)
	file := func(bootID string) statefile.State {
		return statefile.State{NodeUID: "node-1", Conditions: []statefile.Condition{
			{BootID: bootID, Type: string(runtime), Status: yes, Reason: "ReasonTrue", LastTransitionTime: lastWeek},
		}}
	}
	const skew = 100 * time.Hour
	for name, tc := range map[string]struct {
		reported   time.Time // the Node's heartbeat
		clearAfter time.Duration
		file       statefile.State
		offset     time.Duration
		after      time.Duration // the start
		latched    bool
	}{
		"reported since this boot":                 {reported: during, latched: true},
		"reported before this boot":                {reported: before},
		"for less than is configured":              {reported: during, clearAfter: time.Hour, after: 59 * time.Minute, latched: true},
		"for longer than is configured":            {reported: during, clearAfter: time.Hour, after: time.Hour},
		"our clock is wrong, this boot":            {reported: during.Add(skew), offset: skew, latched: true},
		"our clock is wrong, an earlier boot":      {reported: before.Add(skew), offset: skew},
		"the same boot ID, whatever the clock":     {reported: before, file: file("boot-1"), latched: true},
		"another boot ID, whatever the clock":      {reported: during, file: file("boot-0")},
		"in the file of this boot, not yet seen":   {reported: before, file: file("boot-0")},
		"without a file of the Node as it is, too": {reported: during, file: statefile.State{NodeUID: "node-0"}, latched: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, Options{
				Boot: boot, BootID: "boot-1", Restored: tc.file,
				Latches: map[corev1.NodeConditionType]Latch{runtime: {ClearAfter: tc.clearAfter}},
			})
			w.correct(tc.offset, false, w.now)
			w.node(a(runtime, yes, tc.reported, lastWeek))
			w.pass(tc.after)
			want := a(runtime, no, w.now.Add(tc.offset), w.now.Add(tc.offset))
			if tc.latched {
				want = a(runtime, yes, w.now.Add(tc.offset), lastWeek)
			}
			for range 2 {
				w.see(runtime, no)
				if diff := cmp.Diff(want, w.entries[runtime].condition()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestAProblemOfAnEarlierBootThatIsOnlyKeptInTheFileStaysOfThatBoot(t *testing.T) {
	options := Options{
		Boot: epoch.Add(-time.Minute), BootID: "boot-1", Latches: map[corev1.NodeConditionType]Latch{runtime: {}},
		Restored: statefile.State{NodeUID: "node-1", Conditions: []statefile.Condition{
			{BootID: "boot-0", Type: string(runtime), Status: yes, LastTransitionTime: lastWeek},
		}},
	}
	w := newWorldWith(t, options)
	w.node(a(runtime, yes, lastWeek, lastWeek))
	w.see(hardware, no) // the file is written before the log was looked at
	options.Restored.Conditions = w.snapshot()
	w = newWorldWith(t, options)
	w.node(a(runtime, yes, lastWeek, lastWeek))
	w.see(runtime, no)
	w.expect(a(runtime, no, epoch, epoch))
}

func TestHealthThatNobodyCouldCompareIsNoEndOfAProblem(t *testing.T) {
	for name, tc := range map[string]struct {
		latches map[corev1.NodeConditionType]Latch
		runs    int // of the former process
		want    corev1.ConditionStatus
	}{
		"of a log":          {latches: map[corev1.NodeConditionType]Latch{runtime: {}}, runs: 5, want: yes},
		"seen once":         {runs: 1, want: yes},
		"seen often enough": {runs: 3, want: no},
	} {
		t.Run(name, func(t *testing.T) {
			options := Options{
				Boot: epoch.Add(-24 * time.Hour), BootID: "boot-1", Latches: tc.latches,
				Thresholds: map[corev1.NodeConditionType]Thresholds{runtime: {Failure: 3, Success: 3}},
			}
			w := newWorldWith(t, options) // without a state file, and the API server is away
			for range tc.runs {
				w.see(runtime, no)
				w.pass(time.Second)
			}
			options.Restored.Conditions = w.snapshot()
			w = newWorldWith(t, options)
			w.pass(time.Minute)
			w.see(runtime, no)
			w.node(a(runtime, yes, epoch.Add(-time.Minute), lastWeek))
			w.see(runtime, no)
			if got := w.before(w.entries[runtime]); got.status != tc.want || tc.want == yes && got.since != lastWeek {
				t.Errorf("%s since %s, want %s", got.status, got.since, tc.want)
			}
		})
	}
}

func TestAProblemAfterEnoughRunsWithoutOneIsNewAlthoughTheNodeWasNotRead(t *testing.T) {
	w := newWorldWith(t, Options{Thresholds: map[corev1.NodeConditionType]Thresholds{runtime: {Success: 3}}})
	for range 3 {
		w.see(runtime, no)
		w.pass(time.Minute)
	}
	w.see(runtime, yes)
	w.node(a(runtime, yes, lastWeek, lastWeek))
	w.expect(a(runtime, yes, w.now, w.now))
}

func TestAProblemSeenByThisProcessIsNotLatchedByTheFormerOne(t *testing.T) {
	w := newWorldWith(t, Options{Boot: epoch.Add(-24 * time.Hour), Latches: map[corev1.NodeConditionType]Latch{runtime: {}}})
	w.node(a(runtime, yes, epoch.Add(-time.Minute), lastWeek))
	w.see(runtime, yes)
	w.expect(a(runtime, yes, epoch, lastWeek))
	w.pass(time.Minute)
	w.see(runtime, no) // its monitor knows when to let go
	w.expect(a(runtime, no, w.now, w.now))
}

func TestWhatWasNeverThereIsNoProblem(t *testing.T) {
	for name, tc := range map[string]struct {
		node, runs string
		want       corev1.ConditionStatus
	}{
		"on a node of which nothing is known":   {"", "TT", unknown},
		"nor later":                             {"U", "TTTT", unknown},
		"once it was there it is":               {"", "UFTT", yes},
		"if it was there before the start":      {"F", "TT", yes},
		"if it was a problem before the start":  {"T", "TT", yes},
		"but another reason is one in any case": {"", "PP", yes},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, Options{
				Thresholds: map[corev1.NodeConditionType]Thresholds{runtime: {Failure: 2}},
				Absences:   map[corev1.NodeConditionType][]string{runtime: {"ReasonTrue"}},
			})
			for _, status := range statuses(tc.node) {
				w.put(a(runtime, status, lastWeek, lastWeek))
			}
			w.read()
			for _, run := range tc.runs {
				w.pass(time.Second)
				if run == 'P' {
					w.observe(observation{conditionType: runtime, status: yes, reason: "Timeout", at: w.now})
					continue
				}
				w.see(runtime, statuses(string(run))[0])
			}
			if got := w.entries[runtime].shown.status; got != tc.want {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestWhatWasThereIsRememberedAcrossRestarts(t *testing.T) {
	for name, tc := range map[string]struct {
		// runs of one process after the other; the Node is created anew at "N".
		processes []string
		want      corev1.ConditionStatus
	}{
		"healthy, then not told":            {[]string{"FU", "U", "T"}, yes},
		"healthy, then not told for long":   {[]string{"F", "U", "U", "U", "T"}, yes},
		"another problem, then not told":    {[]string{"P", "U", "T"}, yes},
		"never there":                       {[]string{"U", "T", "T"}, unknown},
		"healthy, of a former Node":         {[]string{"FU", "N", "T"}, yes},
		"never there, not of a former Node": {[]string{"U", "N", "T"}, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			options := Options{Absences: map[corev1.NodeConditionType][]string{runtime: {"ReasonTrue"}}}
			uid := types.UID("node-1")
			var has []corev1.NodeCondition
			for _, runs := range tc.processes {
				if runs == "N" {
					uid, has = "node-2", nil
					continue
				}
				w := newWorldWith(t, options)
				w.seed(uid, has, w.now)
				for _, run := range runs {
					w.pass(time.Second)
					if run == 'P' {
						w.observe(observation{conditionType: runtime, status: yes, reason: "Timeout", at: w.now})
						continue
					}
					w.see(runtime, statuses(string(run))[0])
				}
				has = []corev1.NodeCondition{w.entries[runtime].condition()}
				options.Restored = statefile.State{NodeUID: uid, Conditions: w.snapshot(), SeenThere: w.seenThere()}
			}
			if got := has[0].Status; got != tc.want {
				t.Errorf("it is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAConditionThatFlapsIsWrittenOnceASecondAtMost(t *testing.T) {
	w := newWorld(t)
	w.node()
	writes := 0
	for i := range 1000 { // ten seconds
		w.observe(observation{conditionType: runtime, status: yes, reason: []string{"A", "B"}[i%2], at: w.now})
		w.observe(observation{conditionType: hardware, status: []corev1.ConditionStatus{yes, no}[i%2], reason: "A", at: w.now})
		if w.written() != nil {
			writes++
		}
		w.pass(10 * time.Millisecond)
	}
	if writes > 11 {
		t.Errorf("%d writes in ten seconds", writes)
	}
	w.pass(reasonGap)
	w.written()
	for _, e := range w.entries {
		if diff := cmp.Diff(e.condition(), *e.stored); diff != "" {
			t.Errorf("in the end (-seen +written):\n%s", diff)
		}
	}
}

func TestATransitionIsNotBeforeWhatItEnds(t *testing.T) {
	w := newWorld(t)
	w.node()
	w.pass(25 * time.Minute)
	w.see(runtime, yes)
	problem := w.now
	w.pass(3 * time.Minute)
	w.observe(observation{conditionType: runtime, status: no, reason: "ReasonFalse", at: epoch}) // as old as the oldest of several
	w.expect(a(runtime, no, epoch, problem))
}

func TestALateLookAtTheNodeKeepsItsTransitionAfterOneRunThatDiffers(t *testing.T) {
	w := newWorldWith(t, Options{Thresholds: map[corev1.NodeConditionType]Thresholds{runtime: {Failure: 2, Success: 2}}})
	for _, status := range statuses("FTT") {
		w.see(runtime, status)
		w.pass(time.Second)
	}
	w.node(a(runtime, yes, lastWeek, lastWeek))
	w.expect(a(runtime, yes, w.now.Add(-time.Second), lastWeek))
}

func TestAfterADemandWhatIsSeenIsWrittenAtOnce(t *testing.T) {
	w := newWorld(t)
	w.node(a(runtime, no, lastWeek, lastWeek))
	w.see(runtime, no)
	w.expect(a(runtime, no, epoch, lastWeek))
	w.pass(90 * time.Second)
	w.see(runtime, no)
	w.expect() // not before the heartbeat
	w.demand(w.now)
	w.expect(a(runtime, no, w.now, lastWeek)) // now the short heartbeat counts
	for range 2 {
		w.pass(2 * time.Second)
		w.see(runtime, no)
		w.expect(a(runtime, no, w.now, lastWeek))
	}
	w.pass(20 * time.Second)
	w.see(runtime, no)
	w.expect()
	w.pass(10 * time.Second)
	w.see(runtime, no)
	w.expect(a(runtime, no, w.now, lastWeek)) // the short heartbeat
	w.pass(watchful)
	w.see(runtime, no)
	w.expect(a(runtime, no, w.now, lastWeek))
	w.pass(31 * time.Second)
	w.see(runtime, no)
	w.expect() // the long one again
}

func TestAnotherWriterIsNoticedBeforeTheNextHeartbeatAndPutRight(t *testing.T) {
	ours := a(runtime, yes, epoch, lastWeek)
	for name, tc := range map[string]struct {
		interfere func(w *world)
		noticed   bool
	}{
		"nobody":            {func(*world) {}, false},
		"another heartbeat": {func(w *world) { w.put(a(runtime, yes, epoch.Add(time.Minute), lastWeek)) }, true},
		"another status":    {func(w *world) { w.put(a(runtime, no, epoch.Add(time.Minute), epoch.Add(time.Minute))) }, true},
		"removed":           {func(w *world) { delete(w.has, runtime) }, true},
		"another condition": {func(w *world) { w.put(a("Ready", no, w.now, w.now)) }, false},
		"ours, the answer was lost": {func(w *world) {
			w.see(runtime, yes)
			w.heartbeatAt, w.readAt = w.now, w.now
			w.put(w.plan(w.now).patch.conditions...)
			w.fail(false, w.now)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node(a(runtime, yes, lastWeek, lastWeek))
			w.see(runtime, yes)
			w.expect(ours)
			w.pass(2 * time.Minute)
			tc.interfere(w)
			w.pass(3 * time.Minute)
			w.see(runtime, yes)
			w.expect(a(runtime, yes, w.now, lastWeek))
			if got := len(w.foreign) == 1; got != tc.noticed {
				t.Errorf("noticed %v, want any: %t", w.foreign, tc.noticed)
			}
			w.pass(5 * time.Minute)
			w.see(runtime, yes)
			w.expect(a(runtime, yes, w.now, lastWeek))
			if got := len(w.foreign) == 1; got != tc.noticed {
				t.Errorf("noticed later %v", w.foreign)
			}
		})
	}
}

func TestChangesAreToldOnceAndNotAfterARestart(t *testing.T) {
	change := func(status corev1.ConditionStatus, confirmed bool) Change {
		return Change{Source: "", Type: string(runtime), Status: status, Reason: "Reason" + string(status), Confirmed: confirmed}
	}
	for name, tc := range map[string]struct {
		node, runs string
		want       []Change
	}{
		"a problem that goes on":        {"T", "TTT", []Change{change(yes, true)}},
		"a problem and its end":         {"F", "FTTF", []Change{change(no, true), change(yes, false), change(no, false)}},
		"health on a new node":          {"", "FF", []Change{change(no, true)}},
		"a problem on a new node":       {"", "T", []Change{change(yes, false)}},
		"a problem gone before a start": {"T", "F", []Change{change(no, false)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, status := range statuses(tc.node) {
				w.put(a(runtime, status, lastWeek, lastWeek))
			}
			w.see(runtime, statuses(tc.runs)[0])
			if early := w.changes(); early != nil {
				t.Errorf("before the Node was read: %v", early)
			}
			w.read()
			got := w.changes()
			for _, status := range statuses(tc.runs)[1:] {
				w.pass(time.Second)
				w.see(runtime, status)
				got = append(got, w.changes()...)
			}
			for i := range got {
				got[i].At = time.Time{}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestACheckThatRunsRarelyDoesNotMissAHeartbeat(t *testing.T) {
	w := newWorld(t)
	w.node(a(runtime, no, lastWeek, lastWeek), a(hardware, no, lastWeek, lastWeek))
	written := epoch
	for second := range 3 * 3600 {
		w.now = epoch.Add(time.Duration(second) * time.Second)
		if second%10 == 0 {
			w.see(runtime, no)
		}
		if second%290 == 0 {
			w.see(hardware, no)
		}
		for _, c := range w.written() {
			if c.Type == hardware {
				written = c.LastHeartbeatTime.Time
			}
		}
		if age := w.now.Sub(written); age > 6*time.Minute {
			t.Fatalf("after %d s the Node has a heartbeat of %s ago", second, age)
		}
	}
}
