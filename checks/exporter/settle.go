package exporter

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Thresholds say how many runs in a row must see the same before it is
// reported. Zero counts as one.
type Thresholds struct {
	// Failure is for a problem, and for not being able to tell.
	Failure int
	// Success is for no problem any more.
	Success int
}

// threshold is how many runs in a row must have seen what o says before it is
// reported, if something else was reported before.
func (s *state) threshold(o observation) int {
	t := s.thresholds[o.conditionType]
	if o.status == corev1.ConditionFalse {
		return max(1, t.Success)
	}
	return max(1, t.Failure)
}

// settle works out what is to be reported after the latest observation of e.
//
// The same status as before is confirmed by every run. Another one is reported
// when enough runs in a row have seen it; until then the heartbeat of what was
// reported before stands still, since the runs do not confirm it. Health on a
// condition of which nothing is known needs no second run.
func (s *state) settle(e *entry) {
	o := e.latest
	if o.status == "" {
		return
	}
	before := s.before(e)
	if s.latched(o, before) {
		o.status, o.reason, o.message = before.status, before.reason, before.message
	}
	switch {
	case before.status == o.status:
		e.since = before.since
	case before.status == "" && o.status == corev1.ConditionFalse:
		e.since, e.seenSince = e.streakAt, true
	case !e.enoughAt.IsZero():
		e.since, e.seenSince = e.enoughAt, true
		e.changed = e.shown.status != ""
	default:
		return
	}
	if e.shown.status != o.status || e.shown.reason != o.reason {
		s.dirty = true
	}
	e.shown = o
}

// past is a status of a condition; an empty one: none is known.
type past struct {
	status          corev1.ConditionStatus
	reason, message string
	since           time.Time
}

// before is what is reported, or else what is restored: what the Node has, or
// else what the state file has. The file wins over the Node if it has seen a later change: one that
// its process could not write any more.
func (s *state) before(e *entry) past {
	if e.shown.status != "" {
		return past{status: e.shown.status, reason: e.shown.reason, message: e.shown.message, since: e.since}
	}
	return s.restored(e.latest.conditionType)
}

// restored is what was known of a condition before this process has seen it.
func (s *state) restored(conditionType corev1.NodeConditionType) past {
	c, onNode := s.onNode[conditionType]
	f, inFile := s.inFile[conditionType]
	if s.uid != "" && s.fileUID != s.uid {
		inFile = false // it is of another Node of this name
	}
	switch {
	case inFile && (!onNode || f.Status != c.Status && f.LastTransitionTime.After(c.LastTransitionTime.Time)):
		return past{status: f.Status, reason: f.Reason, message: f.Message, since: f.LastTransitionTime}
	case onNode && !c.LastTransitionTime.IsZero():
		return past{status: c.Status, reason: c.Reason, message: c.Message, since: c.LastTransitionTime.Time}
	}
	return past{}
}

// latched reports whether o, which saw no problem, leaves a problem standing
// that a former process has reported: those of a log last until the node
// reboots, or for a time that is configured.
func (s *state) latched(o observation, before past) bool {
	clearAfter, latches := s.latches[o.conditionType]
	if !latches || o.status != corev1.ConditionFalse || before.status != corev1.ConditionTrue {
		return false
	}
	if clearAfter > 0 && o.at.Sub(before.since) >= clearAfter {
		return false
	}
	if f, inFile := s.inFile[o.conditionType]; inFile && f.Status == before.status && f.LastTransitionTime.Equal(before.since) {
		return s.sameBoot // whatever the clocks say
	}
	return !before.since.Before(s.boot.Add(s.offset).Truncate(time.Second))
}
