package systemlog

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/monitortest"
)

// The tests run in a synctest bubble: the real clock is a fake one there.

const testConfig = `{
	"plugin": "kmsg", "source": "kernel", "bufferSize": 10,
	"conditions": [
		{"type": "KernelDeadlock", "reason": "NoDeadlock", "message": "no deadlock"},
		{"type": "XfsShutdown", "reason": "XfsRuns", "message": "XFS runs"}
	],
	"rules": [
		{"type": "temporary", "reason": "OOMKilling", "pattern": "Killed process \\d+"},
		{"type": "temporary", "reason": "Oops", "pattern": "BUG: .*\\n.*RIP: .*"},
		{"type": "permanent", "condition": "KernelDeadlock", "reason": "TaskHung", "pattern": "task \\w+ hung", "patternGeneratedMessageSuffix": "see the runbook"},
		{"type": "permanent", "condition": "KernelDeadlock", "reason": "SoftLockup", "pattern": "soft lockup.*"},
		{"type": "permanent", "condition": "XfsShutdown", "reason": "XfsError", "pattern": "XFS .* shutdown"}
	]
}`

// fakeLog is a log that a test writes. Each opening is one value on opened.
type fakeLog struct {
	opened chan opening
}

type opening struct {
	t     *testing.T
	ctx   context.Context
	from  time.Time
	out   chan<- entry
	asked <-chan struct{}
	end   chan error
}

func (f fakeLog) read(t *testing.T) readFunc {
	return func(ctx context.Context, from time.Time, out chan<- entry, asked <-chan struct{}) error {
		o := opening{t, ctx, from, out, asked, make(chan error)}
		select {
		case f.opened <- o:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case err := <-o.end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// line writes a line stamped age ago.
func (o opening) line(message string, age time.Duration) {
	o.t.Helper()
	if err := put(o.ctx, o.out, entry{log: &logLine{Timestamp: time.Now().Add(-age), Message: message}}); err != nil {
		o.t.Error(err)
	}
}

// idle says every half second for d that the log has been read up to its end.
func (o opening) idle(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
		if put(o.ctx, o.out, entry{readUpTo: time.Now()}) != nil {
			return
		}
		<-time.After(500 * time.Millisecond)
	}
}

// played is a monitor that a test starts and stops.
type played struct {
	*Monitor
	monitortest.Life
}

func newTestMonitor(t *testing.T, options Options) (*played, fakeLog) {
	t.Helper()
	config, err := Parse("test.json", []byte(testConfig))
	if err != nil {
		t.Fatal(err)
	}
	options.Clock = clock.RealClock{}
	m := &played{Monitor: New(config, options)}
	m.uptime = func() (time.Duration, error) { return time.Hour, nil }
	m.count = func(string, int64) error { return nil }
	log := fakeLog{make(chan opening)}
	m.read = log.read(t)
	return m, log
}

// recorder takes what a monitor reports.
type recorder struct {
	mu       sync.Mutex
	statuses []*checks.Report
}

func startRecorded(t *testing.T, m *played) *recorder {
	t.Helper()
	statuses := m.Start(t, m.Run)
	r := &recorder{}
	go func() {
		for s := range statuses {
			r.mu.Lock()
			r.statuses = append(r.statuses, s)
			r.mu.Unlock()
		}
	}()
	t.Cleanup(m.Stop)
	return r
}

// take returns what was reported since the last call.
func (r *recorder) take() (conditions []checks.Observation, events []checks.Event) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.statuses {
		conditions, events = append(conditions, s.Observations...), append(events, s.Events...)
	}
	r.statuses = nil
	return conditions, events
}

func (r *recorder) expectConditions(t *testing.T, want ...checks.Observation) {
	t.Helper()
	got, events := r.take()
	if len(events) > 0 {
		t.Errorf("got events %+v", events)
	}
	if len(got) != len(want) {
		t.Fatalf("got conditions %+v\nwant %+v", got, want)
	}
	for i := range want {
		if !got[i].At.Equal(want[i].At) {
			t.Errorf("%s observed at %v, want %v", got[i].Type, got[i].At, want[i].At)
		}
		got[i].At = want[i].At
		if got[i] != want[i] {
			t.Errorf("got %+v\nwant %+v", got[i], want[i])
		}
	}
}

func deadlock(at time.Time, reason, message string) checks.Observation {
	return checks.Observation{Type: "KernelDeadlock", Status: checks.True, At: at, Reason: reason, Message: message}
}

func noDeadlock(at time.Time) checks.Observation {
	return checks.Observation{Type: "KernelDeadlock", Status: checks.False, At: at, Reason: "NoDeadlock", Message: "no deadlock"}
}

func xfsRuns(at time.Time) checks.Observation {
	return checks.Observation{Type: "XfsShutdown", Status: checks.False, At: at, Reason: "XfsRuns", Message: "XFS runs"}
}

func TestNothingIsHealthyBeforeTheLogHasBeenReadUpToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := newTestMonitor(t, Options{})
		reports := startRecorded(t, m)
		o := <-log.opened
		<-time.After(20 * time.Second)
		reports.expectConditions(t)
		o.line("task dockerd hung", time.Minute)
		found := time.Now()
		reports.expectConditions(t, deadlock(found, "TaskHung", "task dockerd hung; see the runbook"))
		<-time.After(time.Second)
		read := time.Now()
		o.idle(time.Second)
		reports.expectConditions(t, deadlock(read, "TaskHung", "task dockerd hung; see the runbook"), xfsRuns(read))
	})
}

func TestConditionsAreReportedAtTheIntervalWithTheTimeUpToWhichTheLogWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := newTestMonitor(t, Options{})
		reports := startRecorded(t, m)
		began := time.Now()
		o := <-log.opened
		o.idle(75 * time.Second)
		var want []checks.Observation
		for _, after := range []time.Duration{0, 30 * time.Second, 60 * time.Second} {
			want = append(want, noDeadlock(began.Add(after)), xfsRuns(began.Add(after)))
		}
		reports.expectConditions(t, want...)
		<-time.After(5 * time.Minute) // reading hangs
		reports.expectConditions(t)
	})
}

func TestTheLatestMatchGivesTheReasonAndOtherRulesNeverClearIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := newTestMonitor(t, Options{})
		reports := startRecorded(t, m)
		o := <-log.opened
		o.idle(time.Second)
		reports.take()
		o.line("task dockerd hung", 0)
		o.line("soft lockup on CPU 3", 0)
		o.line("all is well", 0)
		now := time.Now()
		reports.expectConditions(t, deadlock(now, "TaskHung", "task dockerd hung; see the runbook"), deadlock(now, "SoftLockup", "soft lockup on CPU 3"))
		<-time.After(48 * time.Hour)
		later := time.Now()
		o.idle(time.Second)
		reports.expectConditions(t, deadlock(later, "SoftLockup", "soft lockup on CPU 3"), xfsRuns(later))
	})
}

func TestAConditionClearsSoLongAfterItsLastMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := newTestMonitor(t, Options{
			Interval: 10 * time.Second, ClearAfter: map[string]time.Duration{"KernelDeadlock": 5 * time.Minute},
		})
		reports := startRecorded(t, m)
		o := <-log.opened
		o.line("task dockerd hung", 0)
		<-time.After(4 * time.Minute)
		o.line("task dockerd hung", 0)
		last := time.Now()
		o.idle(6 * time.Minute)
		conditions, _ := reports.take()
		for _, c := range conditions {
			if c.Type != "KernelDeadlock" {
				continue
			}
			want := noDeadlock(c.At)
			if c.At.Sub(last) < 5*time.Minute {
				want = deadlock(c.At, "TaskHung", "task dockerd hung; see the runbook")
			}
			if c != want {
				t.Errorf("%s after the last match: got %+v", c.At.Sub(last), c)
			}
		}
		if latest := conditions[len(conditions)-2]; latest.Status != checks.False {
			t.Errorf("never cleared, but %+v", latest)
		}
	})
}

func TestALineThatTheLogAlreadyHadCountsFromItsTimeStamp(t *testing.T) {
	const clearAfter = 5 * time.Minute
	for name, tc := range map[string]struct {
		clearAfter time.Duration
		age        time.Duration
		live       bool          // it comes after the log was read up to its end
		lasts      time.Duration // after the line was seen; zero: never True; negative: for ever
	}{
		"long ago":                    {clearAfter, 30 * time.Minute, false, 0},
		"just long enough ago":        {clearAfter, clearAfter, false, 0},
		"recently":                    {clearAfter, 2 * time.Minute, false, 3 * time.Minute},
		"stamped in the future":       {clearAfter, -time.Hour, false, clearAfter},
		"new, by a clock that is off": {clearAfter, 30 * time.Minute, true, clearAfter},
		"long ago, never to clear":    {0, 30 * time.Minute, false, -1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, log := newTestMonitor(t, Options{Interval: 10 * time.Second, ClearAfter: map[string]time.Duration{"KernelDeadlock": tc.clearAfter}})
				reports := startRecorded(t, m)
				o := <-log.opened
				if tc.live {
					o.idle(time.Second)
					reports.take()
				}
				o.line("task dockerd hung", tc.age)
				seen := time.Now()
				want := []checks.Observation{deadlock(seen, "TaskHung", "task dockerd hung; see the runbook")}
				if tc.lasts == 0 {
					want = nil
				}
				reports.expectConditions(t, want...)
				o.idle(10 * time.Minute)
				conditions, _ := reports.take()
				for _, c := range conditions {
					problem := tc.lasts < 0 || c.At.Sub(seen) < tc.lasts
					if c.Type == "KernelDeadlock" && (c.Status == checks.True) != problem {
						t.Errorf("%s after the line was seen: got %+v", c.At.Sub(seen), c)
					}
				}
			})
		})
	}
}

func TestAnOlderLineDoesNotClearAConditionEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := newTestMonitor(t, Options{ClearAfter: map[string]time.Duration{"KernelDeadlock": 5 * time.Minute}})
		reports := startRecorded(t, m)
		o := <-log.opened
		o.line("task dockerd hung", time.Minute)
		o.line("soft lockup on CPU 3", 4*time.Minute)
		<-time.After(3 * time.Minute)
		reports.take()
		now := time.Now()
		o.idle(time.Second)
		reports.expectConditions(t, deadlock(now, "SoftLockup", "soft lockup on CPU 3"), xfsRuns(now))
	})
}

func TestALineFromBeforeTheBootIsNoProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "kern.log")
		appendTo(t, path, stamped("boom"))
		<-time.After(time.Minute)
		booted := time.Now()
		appendTo(t, path, stamped("all is well"))
		<-time.After(time.Minute)
		config, err := Parse("c.json", []byte(`{
			"plugin": "filelog", "source": "s", "logPath": "`+path+`", "lookback": "24h",
			"pluginConfig": {"timestamp": "^\\S+", "message": "kernel: (.*)", "timestampFormat": "2006-01-02T15:04:05.999999999Z07:00"},
			"conditions": [{"type": "A", "reason": "Fine"}],
			"rules": [{"type": "permanent", "condition": "A", "reason": "Bad", "pattern": "boom"}]
		}`))
		must(t, err)
		m := &played{Monitor: New(config, Options{Clock: clock.RealClock{}})}
		m.uptime = func() (time.Duration, error) { return time.Since(booted), nil }
		m.count = func(string, int64) error { return nil }
		reports := startRecorded(t, m)
		now := time.Now()
		reports.expectConditions(t, checks.Observation{Type: "A", Status: checks.False, At: now, Reason: "Fine"})
		appendTo(t, path, stamped("boom"))
		<-time.After(pollInterval)
		reports.expectConditions(t, checks.Observation{Type: "A", Status: checks.True, At: now.Add(pollInterval), Reason: "Bad", Message: "boom"})
		m.Stop()
	})
}

func TestATemporaryRuleMakesAnEventAndIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := newTestMonitor(t, Options{})
		counted := map[string]int64{}
		m.count = func(reason string, n int64) error {
			counted[reason] += n
			return nil
		}
		reports := startRecorded(t, m)
		synctest.Wait()
		if want := map[string]int64{"OOMKilling": 0, "Oops": 0, "TaskHung": 0, "SoftLockup": 0, "XfsError": 0}; !maps.Equal(counted, want) {
			t.Errorf("counted %v at the start", counted)
		}
		o := <-log.opened
		o.line("BUG: unable to handle", 3*time.Second)
		o.line("RIP: 0010", 2*time.Second)
		o.line("Killed process 7", time.Second)
		o.line("task dockerd hung", 0)
		now := time.Now()
		_, events := reports.take()
		want := []checks.Event{
			{At: now.Add(-3 * time.Second), Reason: "Oops", Message: "BUG: unable to handle\nRIP: 0010"},
			{At: now.Add(-time.Second), Reason: "OOMKilling", Message: "Killed process 7"},
		}
		if len(events) != 2 || events[0] != want[0] || events[1] != want[1] {
			t.Errorf("got events %+v\nwant %+v", events, want)
		}
		if want := map[string]int64{"OOMKilling": 1, "Oops": 1, "TaskHung": 0, "SoftLockup": 0, "XfsError": 0}; !maps.Equal(counted, want) {
			t.Errorf("counted %v, want %v", counted, want)
		}
	})
}

// docs/checks.md says so: no former process tells how far it has read.
func TestALineWithinTheLookbackIsAnEventAgainAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for restarts := range 3 {
			m, log := newTestMonitor(t, Options{})
			counted := map[string]int64{}
			m.count = func(reason string, n int64) error {
				counted[reason] += n
				return nil
			}
			reports := startRecorded(t, m)
			o := <-log.opened
			o.line("Killed process 17", time.Since(began))
			o.idle(time.Second)
			if _, events := reports.take(); len(events) != 1 || !events[0].At.Equal(began) || counted["OOMKilling"] != 1 {
				t.Errorf("after %d restarts: events %+v, counted %v; want the line once", restarts, events, counted)
			}
			m.Stop()
		}
	})
}

func TestALogThatEndsIsOpenedAgainAndReportsNothingMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := newTestMonitor(t, Options{})
		reports := startRecorded(t, m)
		started := time.Now()
		o := <-log.opened
		if !o.from.Equal(started) {
			t.Errorf("read from %v, want the start, %v", o.from, started)
		}
		o.line("Killed process 1", 0)
		o.line("task dockerd hung", 0)
		o.idle(time.Second)
		reports.take()
		last := started
		for i, wantWait := range []time.Duration{1, 1, 2, 4, 8, 16, 32, 60, 60} {
			if i > 0 {
				ended := time.Now()
				o = <-log.opened
				if waited := time.Since(ended); waited != wantWait*time.Second {
					t.Errorf("opened again after %s, want %ds", waited, wantWait)
				}
				if !o.from.Equal(last) {
					t.Errorf("read again from %v, want the last line, %v", o.from, last)
				}
			}
			o.end <- errors.New("no such log")
		}
		reports.expectConditions(t)

		o = <-log.opened
		age := time.Since(last)
		o.line("Killed process 1", age) // both known
		o.line("task dockerd hung", age)
		o.line("Killed process 2", age-time.Second)
		now := time.Now()
		o.idle(time.Second)
		conditions, events := reports.take()
		if len(events) != 1 || events[0].Message != "Killed process 2" {
			t.Errorf("got events %+v, want that of the new line alone", events)
		}
		if len(conditions) != 2 || conditions[0] != deadlock(now, "TaskHung", "task dockerd hung; see the runbook") || conditions[1] != xfsRuns(now) {
			t.Errorf("got %+v", conditions)
		}
		o.end <- errors.New("no such log")
		ended := time.Now()
		o = <-log.opened
		if waited := time.Since(ended); waited != minBackoff {
			t.Errorf("after it could be read, opened again after %s, want %s", waited, minBackoff)
		}
		o.idle(time.Second)
		o.line("Killed process 3", time.Hour) // stamped out of order, but written now
		if _, events := reports.take(); len(events) != 1 {
			t.Errorf("got events %+v for a new line", events)
		}
	})
}

func TestATriggerIsAnsweredWithWhatIsReadAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, log := newTestMonitor(t, Options{})
		reports := startRecorded(t, m)
		o := <-log.opened
		o.idle(time.Second)
		reports.take()
		before := time.Now()
		<-time.After(100 * time.Millisecond)
		for range 3 {
			m.Trigger()
		}
		synctest.Wait()
		select {
		case <-o.asked:
		default:
			t.Error("the reader was not asked how far it has read")
		}
		if err := put(o.ctx, o.out, entry{readUpTo: before}); err != nil {
			t.Fatal(err)
		}
		reports.expectConditions(t)
		<-time.After(100 * time.Millisecond)
		after := time.Now()
		o.idle(5 * time.Second)
		reports.expectConditions(t, noDeadlock(after), xfsRuns(after))

		o.end <- errors.New("gone")
		o = <-log.opened
		o.end <- errors.New("gone") // two seconds of backoff
		<-time.After(time.Second)
		m.Trigger()
		asked := time.Now()
		<-log.opened
		if !time.Now().Equal(asked) {
			t.Errorf("opened again %s after the trigger", time.Since(asked))
		}
	})
}

func TestOnlyAMonitorThatMakesNoProgressIsUnhealthy(t *testing.T) {
	for name, tc := range map[string]struct {
		read    readFunc
		nobody  bool // takes the reports
		healthy bool
	}{
		"the log can't be opened": {func(context.Context, time.Time, chan<- entry, <-chan struct{}) error {
			return errors.New("no such log")
		}, false, true},
		"the log can't be read for long": {func(ctx context.Context, _ time.Time, _ chan<- entry, _ <-chan struct{}) error {
			if err := pause(ctx, clock.RealClock{}, 90*time.Second); err != nil {
				return err
			}
			return errors.New("journalctl hangs")
		}, false, true},
		"lines keep coming": {func(ctx context.Context, _ time.Time, out chan<- entry, _ <-chan struct{}) error {
			for put(ctx, out, entry{log: &logLine{Timestamp: time.Now(), Message: "x"}}) == nil {
				_ = pause(ctx, clock.RealClock{}, time.Minute)
			}
			return ctx.Err()
		}, false, true},
		"a long log is read": {func(ctx context.Context, _ time.Time, out chan<- entry, _ <-chan struct{}) error {
			for put(ctx, out, entry{}) == nil {
				_ = pause(ctx, clock.RealClock{}, time.Minute)
			}
			return ctx.Err()
		}, false, true},
		"reading hangs": {func(ctx context.Context, _ time.Time, out chan<- entry, _ <-chan struct{}) error {
			_ = put(ctx, out, entry{readUpTo: time.Now()})
			<-ctx.Done()
			return ctx.Err()
		}, false, false},
		"reports are not taken": {func(ctx context.Context, _ time.Time, out chan<- entry, _ <-chan struct{}) error {
			for put(ctx, out, entry{readUpTo: time.Now()}) == nil {
				_ = pause(ctx, clock.RealClock{}, time.Second)
			}
			return ctx.Err()
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := newTestMonitor(t, Options{})
				m.read = tc.read
				if err := m.Healthy(); err != nil {
					t.Errorf("before it is started: %v", err)
				}
				if tc.nobody {
					m.Start(t, m.Run)
					defer m.Stop()
				} else {
					startRecorded(t, m)
				}
				<-time.After(maxSilence - time.Nanosecond)
				if err := m.Healthy(); err != nil {
					t.Errorf("too early: %v", err)
				}
				for range 60 {
					<-time.After(time.Minute)
					if err := m.Healthy(); (err == nil) != tc.healthy {
						t.Fatalf("got %v", err)
					}
				}
			})
		})
	}
}

func TestThatALogCanNotBeReadIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
		m, log := newTestMonitor(t, Options{})
		m.Logger = logger
		startRecorded(t, m)
		for _, cause := range []string{"no such log", "no permission", "no such log"} {
			(<-log.opened).end <- errors.New(cause)
		}
		o := <-log.opened
		o.idle(2 * time.Second)
		o.end <- errors.New("it has ended")
		(<-log.opened).idle(2 * time.Second)
		synctest.Wait()
		var got []string
		for _, entry := range logger.GetSink().(ktesting.Underlier).GetBuffer().Data() {
			if entry.Type == ktesting.LogError {
				got = append(got, entry.Err.Error())
			} else {
				got = append(got, entry.Message)
			}
		}
		want := []string{"no such log", "Log is read again", "it has ended", "Log is read again"}
		if !slices.Equal(got, want) {
			t.Errorf("logged %q", got)
		}
	})
}

func TestItEndsSoonAfterItsContextInAnyState(t *testing.T) {
	hang := func(context.Context, time.Time, chan<- entry, <-chan struct{}) error {
		<-time.After(time.Hour)
		return errors.New("too late")
	}
	flood := func(ctx context.Context, _ time.Time, out chan<- entry, _ <-chan struct{}) error {
		for {
			if err := put(ctx, out, entry{log: &logLine{Timestamp: time.Now(), Message: "Killed process 1"}}); err != nil {
				return err
			}
		}
	}
	for name, read := range map[string]readFunc{
		"while the log hangs":          hang,
		"while nobody takes a report":  flood,
		"while it waits to open again": func(context.Context, time.Time, chan<- entry, <-chan struct{}) error { return errors.New("gone") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := newTestMonitor(t, Options{})
				m.read = read
				m.Start(t, m.Run)
				<-time.After(10 * time.Second)
				began := time.Now()
				m.Stop()
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("took %s", took)
				}
				<-time.After(time.Hour) // what was abandoned ends
			})
		})
	}
}
