package pleg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/kubeletapi"
)

var (
	// relisted is the gauge of a kubelet that has run for an hour.
	relisted = time.Unix(1_700_000_000, 0)
	started  = relisted.Add(-time.Hour)

	testLimits = limits{maxLastSeen: time.Minute, kubeletGrace: 2 * time.Minute}

	errHang    = fmt.Errorf("GET /metrics was not answered in time: %w", context.DeadlineExceeded)
	errRefused = fmt.Errorf("GET /metrics: %w", syscall.ECONNREFUSED)
	errDenied  = fmt.Errorf("GET /metrics: %w: 403 Forbidden", kubeletapi.ErrNoAccess)

	alive      = &healthz{}
	dead       = &healthz{err: errHang}
	lists      = &probe{took: 12 * time.Millisecond}
	stalls     = &probe{err: context.DeadlineExceeded, timedOut: true, took: 3 * time.Second}
	failsFast  = &probe{err: errors.New("permission denied")}
	unhealthy  = readyFalse("[container runtime is down, PLEG is not healthy: pleg was last seen active 3m7s ago; threshold is 3m0s]")
	notYet     = readyFalse("PLEG is not healthy: pleg has yet to be successful")
	otherwise  = readyFalse("container runtime network not ready: NetworkReady=false")
	readyTrue  = &ready{condition: corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "kubelet is posting ready status"}}
	vanished   = &ready{condition: corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Message: "PLEG is not healthy: pleg was last seen active"}}
	unreadable = &ready{err: errors.New("the API server can't be reached")}
)

func readyFalse(message string) *ready {
	return &ready{condition: corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: message}}
}

// healthySample is that of a kubelet that relists once a second until relisted.
func healthySample() sample {
	return sample{
		lastSeen: float64(relisted.Unix()), hasLastSeen: true, processStart: float64(started.Unix()),
		durations: total{count: 3600, seconds: 36}, intervals: total{count: 3599, seconds: 3599},
	}
}

func with(change func(*sample)) page {
	s := healthySample()
	change(&s)
	return page{sample: s}
}

func none(*sample) {}

func useEvents(s *sample) { s.evented = true }

func neverRelisted(s *sample) { s.lastSeen, s.durations, s.intervals = 0, total{}, total{} }

// relists adds n relists whose intervals took so long each.
func relists(n float64, interval time.Duration) func(*sample) {
	return func(s *sample) {
		s.durations.count += n
		s.durations.seconds += n / 2
		s.intervals.count += n
		s.intervals.seconds += n * interval.Seconds()
	}
}

func after(d time.Duration) *reading {
	return &reading{at: relisted.Add(d), sample: healthySample()}
}

func TestVerdicts(t *testing.T) {
	anotherProcess := after(90 * time.Second)
	anotherProcess.sample.processStart -= 1000

	for name, tc := range map[string]struct {
		age      time.Duration // from relisted to now
		seen     observation
		previous *reading
		status   checks.Status
		reason   string
		mentions []string
	}{
		// The gauge.
		"a fresh gauge is healthy": {
			time.Second, observation{page: with(none)}, nil,
			checks.False, ReasonHealthy, []string{"1s ago", "limit 1m0s", "10ms on average"},
		},
		"the figures are those since the previous run": {
			time.Second, observation{page: with(relists(10, time.Second))}, after(-9 * time.Second),
			checks.False, ReasonHealthy, []string{"500ms on average"},
		},
		"a gauge at the limit is healthy": {
			time.Minute, observation{page: with(none)}, nil, checks.False, ReasonHealthy, nil,
		},
		"a gauge beyond the limit is a problem": {
			61 * time.Second, observation{page: with(none), probe: lists}, nil,
			checks.True, ReasonRelistOutdated, []string{"1m1s ago", "limit 1m0s", "answered ListPodSandbox in 12ms"},
		},
		"also while the runtime stalls": {
			61 * time.Second, observation{page: with(none), probe: stalls}, nil,
			checks.True, ReasonRelistOutdated, []string{"has not answered ListPodSandbox for 3s"},
		},
		"a gauge slightly in the future is rounding": {
			-time.Second, observation{page: with(none)}, nil, checks.False, ReasonHealthy, []string{"0s ago"},
		},
		"a gauge in the future tells nothing": {
			-time.Minute, observation{page: with(none)}, nil, checks.Unknown, ReasonGaugeInFuture, []string{"1m0s ahead"},
		},
		"no gauge tells nothing": {
			0, observation{page: with(func(s *sample) { s.hasLastSeen, s.lastSeen = false, 0 }), ready: readyTrue}, nil,
			checks.Unknown, ReasonGaugeMissing, []string{"kubelet_pleg_last_seen_seconds", "Ready=True"},
		},
		"no gauge, but the kubelet reports a problem": {
			0, observation{page: with(func(s *sample) { s.hasLastSeen, s.lastSeen = false, 0 }), ready: unhealthy}, nil,
			checks.True, ReasonReportedByKubelet, []string{"3m7s ago"},
		},

		// A gauge that the kubelet does not update.
		"no relist since the previous run": {
			100 * time.Second, observation{page: with(none), probe: stalls}, after(90 * time.Second),
			checks.True, ReasonRelistOutdated, nil,
		},
		"relists fail": {
			100 * time.Second, observation{page: with(relists(10, 95*time.Second)), probe: failsFast}, after(90 * time.Second),
			checks.True, ReasonRelistOutdated, []string{"permission denied"},
		},
		"relists fail, and the gauge lags by its resolution": {
			100 * time.Second, observation{page: with(relists(1, 89*time.Second)), probe: failsFast}, after(90 * time.Second),
			checks.True, ReasonRelistOutdated, nil,
		},
		"relists succeed, but the gauge is old": {
			100 * time.Second, observation{page: with(relists(10, time.Second)), probe: lists}, after(90 * time.Second),
			checks.Unknown, ReasonGaugeNotUpdated, []string{"sync loop"},
		},
		"relists of another process prove nothing": {
			100 * time.Second, observation{page: with(relists(10, time.Second)), probe: lists}, anotherProcess,
			checks.True, ReasonRelistOutdated, nil,
		},
		"relists before the gauge prove nothing": {
			100 * time.Second, observation{page: with(relists(10, time.Second)), probe: lists}, after(-5 * time.Second),
			checks.True, ReasonRelistOutdated, nil,
		},

		// The start of a kubelet.
		"a kubelet that was just started tells nothing": {
			90*time.Second - time.Hour, observation{page: with(neverRelisted), probe: lists}, nil,
			checks.Unknown, ReasonKubeletStarting, []string{"1m30s ago", "grace 2m0s"},
		},
		"a first relist within the grace is healthy": {
			time.Second, observation{page: with(func(s *sample) { s.processStart = float64(relisted.Unix()) })}, nil,
			checks.False, ReasonHealthy, nil,
		},
		"no first relist within the grace is a problem": {
			121*time.Second - time.Hour, observation{page: with(neverRelisted), probe: stalls}, nil,
			checks.True, ReasonNeverRelisted, []string{"2m1s ago", "grace 2m0s", "has not answered"},
		},
		"no first relist, but of a process of unknown age": {
			0, observation{page: with(func(s *sample) { neverRelisted(s); s.processStart = 0 }), probe: lists}, nil,
			checks.Unknown, ReasonKubeletStarting, []string{"process_start_time_seconds"},
		},
		"relists succeed, but there is no gauge yet": {
			0,
			observation{page: with(func(s *sample) { s.lastSeen = 0; relists(10, time.Second)(s) }), probe: lists},
			&reading{at: relisted.Add(-10 * time.Second), sample: healthySample()},
			checks.Unknown, ReasonGaugeNotUpdated, nil,
		},

		// Evented PLEG.
		"Evented PLEG with a runtime that answers is healthy": {
			time.Second, observation{page: with(useEvents), probe: lists}, nil,
			checks.False, ReasonHealthy, []string{"Evented PLEG", "answered ListPodSandbox in 12ms"},
		},
		"Evented PLEG with a runtime that stalls is not": {
			0, observation{page: with(useEvents), probe: stalls}, nil,
			checks.Unknown, ReasonUncorroborated, []string{"Evented PLEG", "has not answered"},
		},
		"Evented PLEG without a look at the runtime is not": {
			0, observation{page: with(useEvents)}, nil, checks.Unknown, ReasonUncorroborated, []string{"not asked"},
		},
		"Evented PLEG with an old gauge is a problem": {
			2 * time.Minute, observation{page: with(useEvents), probe: lists}, nil, checks.True, ReasonRelistOutdated, nil,
		},

		// An endpoint that hangs.
		"a hang with a stalled runtime is a problem": {
			0, observation{page: page{err: errHang}, healthz: alive, probe: stalls, ready: readyTrue}, nil,
			checks.True, ReasonRuntimeStalled, []string{"not /metrics", "has not answered ListPodSandbox for 3s"},
		},
		"a hang with a runtime that answers is not": {
			0, observation{page: page{err: errHang}, healthz: alive, probe: lists, ready: readyTrue}, nil,
			checks.Unknown, ReasonMetricsTimeout, []string{"answered ListPodSandbox", "Ready=True"},
		},
		"a hang with a runtime that can't be asked is not": {
			0, observation{page: page{err: errHang}, healthz: alive, probe: failsFast, ready: unreadable}, nil,
			checks.Unknown, ReasonMetricsTimeout, []string{"permission denied", "can't be reached"},
		},
		"a hang that the kubelet itself explains is a problem": {
			0, observation{page: page{err: errHang}, healthz: alive, probe: lists, ready: unhealthy}, nil,
			checks.True, ReasonReportedByKubelet, []string{"pleg was last seen active 3m7s ago"},
		},
		"a kubelet that does not answer at all is for another check": {
			0, observation{page: page{err: errHang}, healthz: dead, probe: stalls, ready: vanished}, nil,
			checks.Unknown, ReasonKubeletUnresponsive, []string{"nor /healthz"},
		},
		"a hang without a look at anything else tells nothing": {
			0, observation{page: page{err: errHang}}, nil, checks.Unknown, ReasonMetricsTimeout, nil,
		},

		// No metrics.
		"a kubelet that is down is for another check": {
			0, observation{page: page{err: errRefused}}, nil, checks.Unknown, ReasonKubeletDown, nil,
		},
		"no access, Ready=True": {
			0, observation{page: page{err: errDenied}, ready: readyTrue}, nil, checks.Unknown, ReasonNoAccess, []string{"403", "Ready=True"},
		},
		"no access, and the kubelet reports a problem": {
			0, observation{page: page{err: errDenied}, ready: unhealthy}, nil, checks.True, ReasonReportedByKubelet, []string{"3m7s ago", "403"},
		},
		"no access, and the kubelet was just started": {
			0, observation{page: page{err: errDenied}, ready: notYet}, nil, checks.Unknown, ReasonNoAccess, nil,
		},
		"no access, and the kubelet reports another problem": {
			0, observation{page: page{err: errDenied}, ready: otherwise}, nil, checks.Unknown, ReasonNoAccess, nil,
		},
		"no access, and the kubelet has vanished": {
			0, observation{page: page{err: errDenied}, ready: vanished}, nil, checks.Unknown, ReasonNoAccess, nil,
		},
		"no access to anything": {
			0, observation{page: page{err: errDenied}, ready: unreadable}, nil, checks.Unknown, ReasonNoAccess, []string{"can't be reached"},
		},
		"metrics that can't be read": {
			0, observation{page: page{err: errors.New("500")}, ready: readyTrue}, nil, checks.Unknown, ReasonMetricsFailed, []string{"500"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.seen.now = relisted.Add(tc.age)
			expect(t, judge(tc.seen, tc.previous, testLimits), tc.status, tc.reason, tc.mentions...)
		})
	}
}

func expect(t *testing.T, got checks.Result, status checks.Status, reason string, mentions ...string) {
	t.Helper()
	if got.Status != status || got.Reason != reason {
		t.Errorf("got %s %s (%s), want %s %s", got.Status, got.Reason, got.Message, status, reason)
	}
	for _, text := range mentions {
		if !strings.Contains(got.Message, text) {
			t.Errorf("message %q does not mention %q", got.Message, text)
		}
	}
}

func TestOthersAreAskedOnlyInDoubt(t *testing.T) {
	for name, tc := range map[string]struct {
		age  time.Duration
		page page
		want doubt
	}{
		"healthy":                   {time.Second, with(none), doubt{}},
		"the kubelet is down":       {0, page{err: errRefused}, doubt{}},
		"Evented PLEG":              {time.Second, with(useEvents), doubt{probe: true}},
		"an old gauge":              {2 * time.Minute, with(none), doubt{probe: true}},
		"no relist yet":             {0, with(neverRelisted), doubt{probe: true}},
		"no gauge":                  {0, with(func(s *sample) { s.hasLastSeen = false }), doubt{ready: true}},
		"no access":                 {0, page{err: errDenied}, doubt{ready: true}},
		"metrics that are not read": {0, page{err: errors.New("500")}, doubt{ready: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := doubts(tc.page, relisted.Add(tc.age), testLimits.maxLastSeen); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
