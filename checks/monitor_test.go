package checks_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/monitortest"
	"github.com/nodemend/nodemend/internal/bounded"
)

// The tests run in a synctest bubble: the real clock is a fake one there.

type checkFunc func(ctx context.Context) checks.Result

func (checkFunc) Timeout() time.Duration                  { return 5 * time.Second }
func (f checkFunc) Run(ctx context.Context) checks.Result { return f(ctx) }

// played is a monitor that a test starts and stops.
type played struct {
	*checks.Monitor
	monitortest.Life
}

func newTestMonitor(t *testing.T, check checkFunc) (*played, *prometheus.Registry) {
	t.Helper()
	return newMonitorOfANodeThatHasBooted(t, time.Now().Add(-time.Hour), check)
}

func newMonitorOfANodeThatHasBooted(t *testing.T, at time.Time, check checkFunc) (*played, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := checks.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return &played{Monitor: checks.NewMonitor(checks.Kind{Name: "sample", ConditionType: "SampleUnhealthy"}, check, checks.MonitorOptions{
		Interval: 10 * time.Second, Clock: clock.RealClock{}, Metrics: metrics,
		Rand: func() float64 { return 0 }, StartupGrace: time.Minute, Boot: at,
	})}, registry
}

func start(t *testing.T, m *played) <-chan *checks.Report { return m.Start(t, m.Run) }

func TestEveryRunIsReportedWithItsStartOnlyAfterItHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m, _ := newTestMonitor(t, func(context.Context) checks.Result {
			time.Sleep(2 * time.Second)
			return checks.Healthy("Fine", "all well")
		})
		statuses := start(t, m)
		defer m.Stop()
		for run := range 3 {
			status := <-statuses
			wantStart := time.Duration(run) * 10 * time.Second
			if got := time.Since(began); got != wantStart+2*time.Second {
				t.Errorf("run %d reported at %s, want %s", run, got, wantStart+2*time.Second)
			}
			want := checks.Observation{
				Type: "SampleUnhealthy", Status: checks.False, At: began.Add(wantStart), Reason: "Fine", Message: "all well",
			}
			got := status.Observations[0]
			if !got.At.Equal(want.At) {
				t.Errorf("run %d observed at %s, want its start %s", run, got.At, want.At)
			}
			got.At = want.At
			if got != want || status.Source != "sample" {
				t.Errorf("run %d reported %+v by %q, want %+v", run, got, status.Source, want)
			}
		}
	})
}

func panics() checks.Result {
	panic("no such mode") //nolint:forbidigo // as a library does
}

func TestARunPastItsDeadlineIsNeverHealthy(t *testing.T) {
	overslept := func(result checks.Result) checkFunc {
		return func(ctx context.Context) checks.Result {
			<-ctx.Done()
			return result
		}
	}
	for name, tc := range map[string]struct {
		check      checkFunc
		wantStatus checks.Status
		wantReason string
	}{
		"healthy in spite of the deadline": {overslept(checks.Healthy("Fine", "")), checks.Unknown, checks.ReasonCheckTimeout},
		"its own verdict is a problem":     {overslept(checks.Problem("Slow", "")), checks.True, "Slow"},
		"its own verdict is a problem, which it is seconds late to say": {func(ctx context.Context) checks.Result {
			<-ctx.Done()
			time.Sleep(checks.Late - time.Second)
			return checks.Problem("Slow", "")
		}, checks.True, "Slow"},
		"its own verdict is that it cannot": {overslept(checks.CannotTell("Lost", "")), checks.Unknown, "Lost"},
		"ignores the deadline": {func(context.Context) checks.Result {
			time.Sleep(time.Minute)
			return checks.Healthy("Fine", "")
		}, checks.Unknown, checks.ReasonCheckTimeout},
		"panics": {func(context.Context) checks.Result { return panics() }, checks.Unknown, checks.ReasonCheckPanicked},
		"panics in a call that may hang": {func(context.Context) checks.Result {
			r, _ := bounded.Within(clock.RealClock{}, time.Minute, panics)
			return r
		}, checks.Unknown, checks.ReasonCheckPanicked},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, registry := newTestMonitor(t, tc.check)
				got := (<-start(t, m)).Observations[0]
				if got.Status != tc.wantStatus || got.Reason != tc.wantReason {
					t.Errorf("got %s %s (%s), want %s %s", got.Status, got.Reason, got.Message, tc.wantStatus, tc.wantReason)
				}
				m.Stop()
				want := `
					# HELP nodemend_check_runs_total Runs of a check by the condition status that they found: True is a problem.
					# TYPE nodemend_check_runs_total counter
					nodemend_check_runs_total{check="sample",status="` + string(tc.wantStatus) + `"} 1
				`
				if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "nodemend_check_runs_total"); err != nil {
					t.Error(err)
				}
				time.Sleep(time.Minute) // the abandoned run ends
			})
		})
	}
}

func TestAHangingRunIsReportedOnceAndRunAgainAfterItHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var started, ended atomic.Int32
		m, _ := newTestMonitor(t, func(context.Context) checks.Result {
			if started.Add(1) > ended.Load()+1 {
				t.Error("the check was started while its previous run was still going on")
			}
			defer ended.Add(1)
			if started.Load() == 1 {
				time.Sleep(time.Hour)
			}
			return checks.Healthy("Fine", "")
		})
		began := time.Now()
		statuses := start(t, m)
		defer m.Stop()

		if got := (<-statuses).Observations[0].Reason; got != checks.ReasonCheckTimeout {
			t.Errorf("first report is %s, want %s", got, checks.ReasonCheckTimeout)
		}
		synctest.Wait()
		if err := m.Healthy(); err != nil {
			t.Errorf("right after a report: %v", err)
		}
		time.Sleep(2 * time.Minute)
		if err := m.Healthy(); err == nil {
			t.Error("a monitor whose check hangs counts as healthy")
		}
		if got := (<-statuses).Observations[0]; got.Status != checks.False {
			t.Errorf("second report is %s, want that of a new run", got.Status)
		}
		if got := time.Since(began); got != time.Hour {
			t.Errorf("second report after %s, want right after the first run returned", got)
		}
		synctest.Wait()
		if err := m.Healthy(); err != nil {
			t.Errorf("after recovery: %v", err)
		}
	})
}

func TestStopReturns(t *testing.T) {
	hang := func(context.Context) checks.Result {
		time.Sleep(time.Hour)
		return checks.Result{}
	}
	obey := func(ctx context.Context) checks.Result {
		<-ctx.Done()
		return checks.CannotTell("Stopped", "")
	}
	quick := func(context.Context) checks.Result { return checks.Healthy("Fine", "") }
	for name, tc := range map[string]struct {
		check  checkFunc
		before func(t *testing.T, m *played)
		within time.Duration
	}{
		"while nobody takes its report":    {quick, func(t *testing.T, m *played) { start(t, m); synctest.Wait() }, 0},
		"between two runs":                 {quick, func(t *testing.T, m *played) { <-start(t, m); synctest.Wait() }, 0},
		"during a run":                     {obey, func(t *testing.T, m *played) { start(t, m); synctest.Wait() }, 0},
		"during a run that hangs":          {hang, func(t *testing.T, m *played) { start(t, m); synctest.Wait() }, checks.Grace},
		"after a hanging run was reported": {hang, func(t *testing.T, m *played) { <-start(t, m); synctest.Wait() }, checks.Grace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := newTestMonitor(t, tc.check)
				tc.before(t, m)
				began := time.Now()
				m.Stop()
				if took := time.Since(began); took != tc.within {
					t.Errorf("Stop took %s, want %s", took, tc.within)
				}
				time.Sleep(2 * time.Hour) // the abandoned run ends
			})
		})
	}
}

func TestADemandedRunComesAtOnceAndIsConfirmedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m, _ := newTestMonitor(t, func(context.Context) checks.Result {
			time.Sleep(time.Second)
			return checks.Healthy("Fine", "")
		})
		statuses := start(t, m)
		defer m.Stop()
		var runs []time.Duration
		next := func() { runs = append(runs, (<-statuses).Observations[0].At.Sub(began)) }
		next()
		time.Sleep(2 * time.Second) // it is 3 s
		m.Trigger()
		next()
		next()
		next()
		time.Sleep(9*time.Second + 500*time.Millisecond) // in the middle of the run at 26 s
		m.Trigger()
		m.Trigger()
		next()
		next()
		seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
		want := []time.Duration{0, seconds(3), seconds(5), seconds(15), seconds(25), seconds(26)}
		if !slices.Equal(runs, want) {
			t.Errorf("runs started at %v, want %v", runs, want)
		}
	})
}

func TestAProblemIsNotReportedWhileTheNodeIsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		result := checks.Problem("Broken", "")
		m, registry := newMonitorOfANodeThatHasBooted(t, began.Add(-35*time.Second), func(context.Context) checks.Result { return result })
		statuses := start(t, m)
		defer m.Stop()
		if got := (<-statuses).Observations[0].At.Sub(began); got != 30*time.Second {
			t.Errorf("a problem is reported %s after the start, want 30s: 65 s after the boot", got)
		}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(`
			# HELP nodemend_check_runs_total Runs of a check by the condition status that they found: True is a problem.
			# TYPE nodemend_check_runs_total counter
			nodemend_check_runs_total{check="sample",status="True"} 4
		`), "nodemend_check_runs_total"); err != nil {
			t.Error(err)
		}
		m.Stop()

		result = checks.Healthy("Fine", "")
		m, _ = newMonitorOfANodeThatHasBooted(t, time.Now(), func(context.Context) checks.Result { return result })
		statuses = start(t, m)
		defer m.Stop()
		if got := (<-statuses).Observations[0]; got.Status != checks.False {
			t.Errorf("got %v", got)
		}
	})
}

// slow is the clock of a process that is not run in time: each timer is late by so much.
type slow struct {
	clock.RealClock
	late time.Duration
}

func (s slow) NewTimer(d time.Duration) clock.Timer {
	return slowTimer{s.RealClock.NewTimer(d + s.late), s.late}
}

type slowTimer struct {
	clock.Timer
	late time.Duration
}

func (s slowTimer) Reset(d time.Duration) bool { return s.Timer.Reset(d + s.late) }

func TestWhatDidNotAnswerInTimeProvesNothingIfTheDetectorWasNotRun(t *testing.T) {
	for name, tc := range map[string]struct {
		late       time.Duration
		result     checks.Result
		wantStatus checks.Status
		wantReason string
	}{
		"in time":                             {0, checks.Problem("Silent", ""), checks.True, "Silent"},
		"late for two thirds of the time":     {200 * time.Millisecond, checks.Problem("Silent", ""), checks.True, "Silent"},
		"late for four fifths of the time":    {400 * time.Millisecond, checks.Problem("Silent", ""), checks.Unknown, checks.ReasonStarved},
		"late for all of it":                  {time.Minute, checks.Problem("Silent", ""), checks.Unknown, checks.ReasonStarved},
		"a problem that is no matter of time": {time.Minute, checks.Problem("Broken", ""), checks.True, "Broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				metrics, err := checks.NewMetrics(prometheus.NewRegistry())
				if err != nil {
					t.Fatal(err)
				}
				kind := checks.Kind{Name: "sample", ConditionType: "SampleUnhealthy", Timed: []string{"Silent"}}
				check := checkFunc(func(ctx context.Context) checks.Result {
					<-ctx.Done()
					return tc.result
				})
				m := &played{Monitor: checks.NewMonitor(kind, check, checks.MonitorOptions{
					Interval: 10 * time.Second, Clock: slow{late: tc.late}, Metrics: metrics, Rand: func() float64 { return 0 },
				})}
				reports := start(t, m)
				defer m.Stop()
				got := (<-reports).Observations[0]
				if got.Status != tc.wantStatus || got.Reason != tc.wantReason {
					t.Errorf("reported %s %s: %s; want %s %s", got.Status, got.Reason, got.Message, tc.wantStatus, tc.wantReason)
				}
			})
		})
	}
}
