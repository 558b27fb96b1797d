package pleg

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/checks"
	"github.com/nodemend/nodemend/checks/kubeletapi"
)

const (
	// resolution covers that the gauge counts whole seconds.
	resolution = 2 * time.Second
	// reported is in the message of Ready when the kubelet itself has found its
	// PLEG unhealthy. It is not when a kubelet that was just started has not
	// relisted yet.
	reported = "PLEG is not healthy: pleg was last seen active"
)

// limits are the options that a verdict depends on.
type limits struct{ maxLastSeen, kubeletGrace time.Duration }

// reading is the sample of an earlier run.
type reading struct {
	at     time.Time
	sample sample
}

// doubts returns what to look at beside a page.
func doubts(p page, now time.Time, maxLastSeen time.Duration) doubt {
	switch {
	case errors.Is(p.err, syscall.ECONNREFUSED):
		return doubt{}
	case p.err != nil, !p.sample.hasLastSeen:
		return doubt{ready: true}
	default:
		return doubt{probe: p.sample.evented || now.Sub(unix(p.sample.lastSeen)) > maxLastSeen}
	}
}

// judge returns the verdict on what a run has seen. previous is nil on the first
// run.
func judge(seen observation, previous *reading, limits limits) checks.Result {
	switch err := seen.page.err; {
	case err == nil:
		return judgeSample(seen, previous, limits)
	case errors.Is(err, syscall.ECONNREFUSED):
		return checks.CannotTell(ReasonKubeletDown, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return judgeSilence(seen)
	case errors.Is(err, kubeletapi.ErrNoAccess):
		return seen.fallBack(ReasonNoAccess, err.Error())
	default:
		return seen.fallBack(ReasonMetricsFailed, err.Error())
	}
}

// judgeSilence is judge for a kubelet that does not answer /metrics.
func judgeSilence(seen observation) checks.Result {
	switch {
	case seen.healthz == nil:
		return seen.fallBack(ReasonMetricsTimeout, seen.page.err.Error())
	case seen.healthz.err != nil:
		return seen.fallBack(ReasonKubeletUnresponsive, fmt.Sprintf("the kubelet does not answer /metrics, nor /healthz: %v", seen.healthz.err))
	case seen.probe != nil && seen.probe.timedOut:
		return checks.Problem(ReasonRuntimeStalled, fmt.Sprintf(
			"the kubelet answers /healthz but not /metrics, and %s: PLEG can't relist", seen.probe))
	default:
		return seen.fallBack(ReasonMetricsTimeout, fmt.Sprintf("the kubelet answers /healthz but not /metrics; %s", seen.probe))
	}
}

// judgeSample is judge for a page that could be read.
func judgeSample(seen observation, previous *reading, limits limits) checks.Result {
	s := seen.page.sample
	age := seen.now.Sub(unix(s.lastSeen))
	outdated := s.lastSeen == 0 || age > limits.maxLastSeen
	switch {
	case !s.hasLastSeen:
		return seen.fallBack(ReasonGaugeMissing, "the kubelet's /metrics lack kubelet_pleg_last_seen_seconds")
	case outdated && s.relistedAfterGauge(previous):
		return checks.CannotTell(ReasonGaugeNotUpdated,
			"relists succeed, but neither the kubelet's sync loop nor its node status updates kubelet_pleg_last_seen_seconds: see its log")
	case s.lastSeen == 0:
		return judgeFirst(seen, limits)
	case age < -resolution:
		return checks.CannotTell(ReasonGaugeInFuture, fmt.Sprintf("kubelet_pleg_last_seen_seconds is %s ahead of the clock", round(-age)))
	case outdated:
		return checks.Problem(ReasonRelistOutdated, fmt.Sprintf("the kubelet's last relist began %s ago (limit %s); %s",
			round(age), limits.maxLastSeen, seen.probe))
	case s.evented && (seen.probe == nil || seen.probe.err != nil):
		return checks.CannotTell(ReasonUncorroborated, fmt.Sprintf("the kubelet uses Evented PLEG, so that its gauge proves nothing; %s", seen.probe))
	}
	message := fmt.Sprintf("the kubelet's last relist began %s ago (limit %s)", round(max(age, 0)), limits.maxLastSeen)
	if s.durations.count > 0 {
		message += fmt.Sprintf("; relists take %s on average", s.recentDuration(previous))
	}
	if s.evented {
		message += fmt.Sprintf("; it uses Evented PLEG, so that alone proves nothing, but %s", seen.probe)
	}
	return checks.Healthy(ReasonHealthy, message)
}

// judgeFirst is judgeSample for a kubelet that has not relisted yet.
func judgeFirst(seen observation, limits limits) checks.Result {
	if seen.page.sample.processStart == 0 {
		return checks.CannotTell(ReasonKubeletStarting, "the kubelet has not relisted yet, and its /metrics lack process_start_time_seconds")
	}
	running := seen.now.Sub(unix(seen.page.sample.processStart))
	if running <= limits.kubeletGrace {
		return checks.CannotTell(ReasonKubeletStarting, fmt.Sprintf("the kubelet was started %s ago and has not relisted yet (grace %s)",
			round(running), limits.kubeletGrace))
	}
	return checks.Problem(ReasonNeverRelisted, fmt.Sprintf("the kubelet was started %s ago and has not relisted yet (grace %s); %s",
		round(running), limits.kubeletGrace, seen.probe))
}

// relistedAfterGauge returns whether a relist has provably succeeded later than
// the gauge says; see the package comment.
func (s sample) relistedAfterGauge(previous *reading) bool {
	if previous == nil || previous.sample.processStart != s.processStart {
		return false
	}
	intervals := s.intervals.since(previous.sample.intervals)
	gauge := unix(max(s.lastSeen, s.processStart))
	return intervals.count > 0 && intervals.mean() < (previous.at.Sub(gauge)-resolution).Seconds()
}

// recentDuration is how long a relist took on average since the previous run, or
// else since the kubelet's start.
func (s sample) recentDuration(previous *reading) time.Duration {
	durations := s.durations
	if previous != nil && previous.sample.processStart == s.processStart && previous.sample.durations.count < durations.count {
		durations = durations.since(previous.sample.durations)
	}
	return time.Duration(durations.mean() * float64(time.Second)).Round(time.Millisecond)
}

// fallBack is the verdict where the check can't see for itself.
func (o observation) fallBack(reason, message string) checks.Result {
	switch {
	case o.ready == nil:
		return checks.CannotTell(reason, message)
	case o.ready.err != nil:
		return checks.CannotTell(reason, fmt.Sprintf("%s; the condition Ready can't be read either: %v", message, o.ready.err))
	case Reported(o.ready.condition):
		return checks.Problem(ReasonReportedByKubelet, fmt.Sprintf("Ready=False: %s; %s", o.ready.condition.Message, message))
	default:
		return checks.CannotTell(reason, fmt.Sprintf("%s; Ready=%s does not mention PLEG", message, o.ready.condition.Status))
	}
}

// Reported reports whether the condition Ready says that PLEG is not healthy.
func Reported(ready corev1.NodeCondition) bool {
	return ready.Status == corev1.ConditionFalse && strings.Contains(ready.Message, reported)
}

// String completes a message.
func (p *probe) String() string {
	switch {
	case p == nil:
		return "the runtime was not asked"
	case p.timedOut:
		return fmt.Sprintf("the runtime has not answered ListPodSandbox for %s", round(p.took))
	case p.err != nil:
		return fmt.Sprintf("ListPodSandbox failed: %v", p.err)
	default:
		return fmt.Sprintf("the runtime has answered ListPodSandbox in %s", p.took.Round(time.Millisecond))
	}
}

func unix(seconds float64) time.Time { return time.UnixMilli(int64(seconds * 1000)) }

func round(d time.Duration) time.Duration { return d.Round(time.Second) }
