package customplugin

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/monitortest"
)

// Tests with plugins that are functions run in a synctest bubble: the real clock
// is a fake one there.

func testOptions(t *testing.T) (Options, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	metrics, err := checks.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Clock: clock.RealClock{}, Rand: func() float64 { return 0 }, ProblemInterval: 10 * time.Second, Metrics: metrics,
	}, registry
}

// plugins are functions in place of programs, by path.
type plugins map[string]func(ctx context.Context) result

// sample is a configuration with a rule for each name: "X=path" for a condition
// X, otherwise a temporary rule with the path as its reason.
func sample(concurrency int, rules ...string) Config {
	config := Config{name: "sample.json", source: "sample", interval: time.Minute, concurrency: concurrency, maxOutput: 80}
	seen := map[string]bool{}
	for _, text := range rules {
		condition, path, permanent := strings.Cut(text, "=")
		if !permanent {
			path, condition = text, ""
		} else if !seen[condition] {
			seen[condition] = true
			config.conditions = append(config.conditions, checks.Observation{Type: condition, Reason: "Fine", Message: "all well"})
		}
		config.rules = append(config.rules, rule{
			temporary: !permanent, condition: condition, reason: "Reason-" + path, path: path, timeout: 5 * time.Second,
		})
	}
	return config
}

// played is a monitor that a test starts and stops.
type played struct {
	*Monitor
	monitortest.Life
}

func newBubbleMonitor(t *testing.T, config Config, fakes plugins) *played {
	t.Helper()
	options, _ := testOptions(t)
	m := &played{Monitor: New(config, options)}
	m.execute = func(ctx context.Context, r rule) result { return fakes[r.path](ctx) }
	return m
}

func start(t *testing.T, m *played) <-chan *checks.Report { return m.Start(t, m.Run) }

func answers(status checks.Status, after time.Duration) func(context.Context) result {
	return func(context.Context) result {
		<-time.After(after)
		return result{status: status, reason: "Lost", message: "said"}
	}
}

// hangs is a plugin that is killed at its time-out.
func hangs(ctx context.Context) result {
	<-ctx.Done()
	return result{status: checks.Unknown, reason: ReasonPluginTimeout}
}

// summary writes a report as text, with the times since began.
func summary(status *checks.Report, began time.Time) string {
	var parts []string
	for _, c := range status.Observations {
		parts = append(parts, fmt.Sprintf("%s=%s %s observed %s", c.Type, c.Status, c.Reason, c.At.Sub(began)))
	}
	for _, e := range status.Events {
		parts = append(parts, fmt.Sprintf("event %s: %s", e.Reason, e.Message))
	}
	return strings.Join(parts, " | ")
}

func expectReports(t *testing.T, statuses <-chan *checks.Report, began time.Time, want ...string) {
	t.Helper()
	for i, w := range want {
		text := summary(<-statuses, began)
		if got := fmt.Sprintf("%s: %s", time.Since(began), text); got != w {
			t.Errorf("report %d is %q, want %q", i, got, w)
		}
	}
}

func TestAConditionIsReportedOnlyFromItsOwnRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := newBubbleMonitor(t, sample(3, "Quick=quick", "Slow=slow"), plugins{
			"quick": answers(checks.False, time.Second),
			"slow":  answers(checks.True, 4*time.Second),
		})
		defer m.Stop()
		expectReports(t, start(t, m), began,
			"1s: Quick=False Fine observed 0s",
			"4s: Slow=True Reason-slow observed 0s",
			"14s: Slow=True Reason-slow observed 10s",
			"24s: Slow=True Reason-slow observed 20s",
		)
	})
}

func TestSeveralRulesOfOneConditionGiveOneSteadyReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := newBubbleMonitor(t, sample(3, "Disk=sda", "Disk=sdb", "Disk=sdc"), plugins{
			"sda": answers(checks.False, 3*time.Second),
			"sdb": answers(checks.True, 2*time.Second),
			"sdc": answers(checks.Unknown, time.Second),
		})
		defer m.Stop()
		expectReports(t, start(t, m), began,
			"3s: Disk=True Reason-sdb observed 0s",
			"13s: Disk=True Reason-sdb observed 10s",
			"23s: Disk=True Reason-sdb observed 20s",
		)
	})
}

func TestAHangingRuleDelaysOthersByTheConcurrencyOnly(t *testing.T) {
	for _, tc := range []struct {
		concurrency int
		delay       time.Duration
	}{
		{concurrency: 1, delay: 5 * time.Second}, // one run of the rule that hangs
		{concurrency: 2, delay: 0},
	} {
		t.Run(fmt.Sprint(tc.concurrency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var running atomic.Int32
				limited := func(do func(context.Context) result) func(context.Context) result {
					return func(ctx context.Context) result {
						if n := running.Add(1); int(n) > tc.concurrency {
							t.Errorf("%d plugins run at once, want at most %d", n, tc.concurrency)
						}
						defer running.Add(-1)
						return do(ctx)
					}
				}
				began := time.Now()
				m := newBubbleMonitor(t, sample(tc.concurrency, "Hung=hung", "A=a", "B=b"), plugins{
					"hung": limited(hangs), "a": limited(answers(checks.False, 0)), "b": limited(answers(checks.False, 0)),
				})
				statuses := start(t, m)
				defer m.Stop()
				reports := map[string]int{}
				for time.Since(began) < 10*time.Minute+30*time.Second {
					c := (<-statuses).Observations[0]
					late := c.At.Sub(began) - time.Duration(reports[c.Type])*time.Minute
					if c.Type != "Hung" && (late < 0 || late > tc.delay) {
						t.Errorf("run %d of %s is %s late, want at most %s", reports[c.Type], c.Type, late, tc.delay)
					}
					reports[c.Type]++
				}
				if reports["A"] != 11 || reports["B"] != 11 || reports["Hung"] != 64 {
					t.Errorf("in ten and a half minutes came %v", reports)
				}
			})
		})
	}
}

// countedBy returns the problem counter of a monitor, to be read after it was stopped.
func countedBy(m *played) map[string]int64 {
	counted := map[string]int64{}
	var mu sync.Mutex
	m.count = func(reason string, n int64) error {
		mu.Lock()
		defer mu.Unlock()
		counted[reason] += n
		return nil
	}
	return counted
}

func TestTemporaryRulesReportAnEventForEachRunThatDoesNotSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		config := sample(3, "flaky")
		config.metricsReporting = true
		runs := []checks.Status{checks.True, checks.False, checks.Unknown, checks.False, checks.True}
		m := newBubbleMonitor(t, config, plugins{"flaky": func(context.Context) result {
			status := checks.False
			if len(runs) > 0 {
				status, runs = runs[0], runs[1:]
			}
			return result{status: status, reason: "Lost", message: "said"}
		}})
		counted := countedBy(m)
		statuses := start(t, m)
		expectReports(t, statuses, began,
			"0s: event Reason-flaky: said",
			"2m0s: event Reason-flaky: said",
			"4m0s: event Reason-flaky: said",
		)
		m.Stop()
		if len(counted) != 1 || counted["Reason-flaky"] != 3 {
			t.Errorf("problem counter is %v, want 3", counted)
		}
		if reported := m.ConditionTypes(); len(reported) > 0 {
			t.Errorf("reports conditions %q", reported)
		}
	})
}

func TestEveryReasonIsInTheProblemCounterBeforeTheFirstRunIfTheFileWantsMetrics(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		t.Run(fmt.Sprint(wanted), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config := sample(1, "Disk=sda", "flaky")
				config.metricsReporting = wanted
				m := newBubbleMonitor(t, config, plugins{"sda": hangs, "flaky": hangs})
				counted := countedBy(m)
				start(t, m)
				m.Stop()
				if n, ok := counted["Reason-sda"]; ok != wanted || n != 0 || len(counted) != len(config.rules) && wanted || len(counted) > 0 && !wanted {
					t.Errorf("problem counter holds %v", counted)
				}
			})
		})
	}
}

func TestATriggerRunsAllRulesAtOnceAndOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		m := newBubbleMonitor(t, sample(3, "Disk=sda"), plugins{"sda": answers(checks.False, 3*time.Second)})
		defer m.Stop()
		m.Trigger() // answered by the first round
		statuses := start(t, m)
		expectReports(t, statuses, began, "3s: Disk=False Fine observed 0s", "6s: Disk=False Fine observed 3s")
		<-time.After(10 * time.Second)
		for range 5 {
			m.Trigger()
		}
		<-time.After(time.Second)
		for range 5 {
			m.Trigger() // during the round that it began
		}
		expectReports(t, statuses, began,
			"19s: Disk=False Fine observed 16s",
			"22s: Disk=False Fine observed 19s",
			"25s: Disk=False Fine observed 22s",
			"1m25s: Disk=False Fine observed 1m22s",
		)
	})
}

func TestARuleWhosePluginCannotBeKilledIsReportedOnceAndRunAgainWhenItIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		first := true
		m := newBubbleMonitor(t, sample(1, "Disk=sda", "Other=other"), plugins{
			"sda": func(context.Context) result {
				if first {
					first = false
					<-time.After(2*time.Minute + 30*time.Second)
				}
				return result{status: checks.False}
			},
			"other": answers(checks.False, 0),
		})
		m.groups[0].pace.problemInterval = 0
		defer m.Stop()
		var got []string
		for status := range start(t, m) {
			got = append(got, summary(status, began))
			if len(got) == 6 {
				break
			}
		}
		all := strings.Join(got, "\n")
		if n := strings.Count(all, "Disk=Unknown PluginTimeout"); n != 1 {
			t.Errorf("the plugin that can't be killed is reported %d times, want once:\n%s", n, all)
		}
		if n := strings.Count(all, "Disk=False"); n != 1 {
			t.Errorf("after it was gone its rule was reported %d times, want once:\n%s", n, all)
		}
		if n := strings.Count(all, "Other=False"); n != 4 {
			t.Errorf("the other condition is reported %d times, want 4:\n%s", n, all)
		}
		if err := m.Healthy(); err != nil {
			t.Errorf("a plugin that can't be killed makes the monitor unhealthy: %v", err)
		}
	})
}

func TestAMonitorIsUnhealthyOnlyWhileItsReportsAreNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := sample(3, "Disk=sda")
		config.interval = 24 * time.Hour
		m := newBubbleMonitor(t, config, plugins{"sda": answers(checks.False, time.Second)})
		expect := func(when string, healthy bool) {
			t.Helper()
			if err := m.Healthy(); (err == nil) != healthy {
				t.Errorf("%s: %v", when, err)
			}
		}
		expect("before it was started", true)
		statuses := start(t, m)
		<-time.After(30 * time.Second)
		expect("while the first report waits", true)
		<-time.After(time.Minute)
		expect("when the first report has waited for a minute and a half", false)
		<-statuses
		synctest.Wait()
		expect("when it was taken", true)
		<-time.After(23 * time.Hour)
		expect("between two rounds", true)
		m.Stop()
		<-time.After(24 * time.Hour)
		expect("after Stop", true)
	})
}

func TestItEndsSoonAfterItsContext(t *testing.T) {
	stubborn := func(context.Context) result {
		<-time.After(time.Hour)
		return result{status: checks.True}
	}
	for name, tc := range map[string]struct {
		plugin func(context.Context) result
		before func(t *testing.T, m *played)
		within time.Duration
	}{
		"while nobody takes its reports": {answers(checks.True, 0), func(t *testing.T, m *played) { start(t, m); synctest.Wait() }, 0},
		"between two rounds":             {answers(checks.False, 0), func(t *testing.T, m *played) { s := start(t, m); <-s; <-s; synctest.Wait() }, 0},
		"during a round":                 {hangs, func(t *testing.T, m *played) { start(t, m); synctest.Wait() }, 0},
		"with a plugin that stays":       {stubborn, func(t *testing.T, m *played) { start(t, m); synctest.Wait() }, checks.Grace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newBubbleMonitor(t, sample(1, "Disk=sda", "Disk=sdb", "Other=sdc"), plugins{"sda": tc.plugin, "sdb": tc.plugin, "sdc": tc.plugin})
				tc.before(t, m)
				began := time.Now()
				m.Stop()
				if took := time.Since(began); took != tc.within {
					t.Errorf("Stop took %s, want %s", took, tc.within)
				}
				m.Trigger()
				<-time.After(2 * time.Hour) // the abandoned run ends
			})
		})
	}
}

func TestEveryRunIsInTheMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options, registry := testOptions(t)
		m := &played{Monitor: New(sample(3, "Disk=sda", "Disk=sdb", "flaky"), options)}
		m.execute = func(_ context.Context, r rule) result {
			return result{status: map[string]checks.Status{"sda": checks.True, "sdb": checks.Unknown, "flaky": checks.False}[r.path]}
		}
		<-start(t, m)
		synctest.Wait()
		m.Stop()
		want := `
			# HELP nodemend_check_runs_total Runs of a check by the condition status that they found: True is a problem.
			# TYPE nodemend_check_runs_total counter
			nodemend_check_runs_total{check="sample/Disk/Reason-sda",status="True"} 1
			nodemend_check_runs_total{check="sample/Disk/Reason-sdb",status="Unknown"} 1
			nodemend_check_runs_total{check="sample/Reason-flaky",status="False"} 1
		`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "nodemend_check_runs_total"); err != nil {
			t.Error(err)
		}
	})
}
