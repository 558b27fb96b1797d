package exporter

import (
	"slices"
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
// reported before stands still, since the runs do not confirm it. So is a problem
// with another reason: a policy may name reasons. Health on a condition of which
// nothing is known needs no second run.
//
// The transition is that of the status. A problem that is graver than what was
// reported before has one of its own: how long it lasts counts from there.
func (s *state) settle(e *entry) {
	o := e.latest
	if o.status == "" {
		return
	}
	before := s.before(e)
	if known := s.restored(o.conditionType); s.latched(e, known) {
		o = s.latches[o.conditionType].keep(known, o)
	}
	if s.absent(e, before) {
		o.status = corev1.ConditionUnknown
		o.message = "not seen on this node so far, so this may not be the node's fault: " + o.message
	}
	_, latches := s.latches[o.conditionType]
	few := latches || e.streak < s.threshold(o)
	provisional := false
	switch {
	case before.status == o.status && o.status == corev1.ConditionTrue && before.reason != o.reason &&
		0 < e.otherwise && e.otherwise < s.thresholdAfter(before, o):
		return
	case s.graver(before, o) && e.grave < s.threshold(o):
		return
	case s.graver(before, o):
		e.since, e.seenSince, e.changed = o.at, true, true
		if before.since.After(e.since) {
			e.since = before.since
		}
	case before.status == o.status:
		e.since, provisional = before.since, e.provisional && few
	case before.status == "" && o.status == corev1.ConditionFalse:
		e.since, e.seenSince = e.streakAt, true
		provisional = few
	case !e.enoughAt.IsZero():
		e.since, e.seenSince = e.enoughAt, true
		if e.shown.at.After(e.since) {
			e.since = e.shown.at // until then it was something else
		}
		e.changed = e.changed || e.shown.status != "" && !e.provisional
	default:
		return
	}
	if e.shown.status != o.status || e.shown.reason != o.reason || e.provisional != provisional {
		s.dirty = true
	}
	e.shown, e.provisional, e.otherwise = o, provisional, 0
}

// thresholdAfter is threshold for another reason of a problem. That only a milder one is left takes
// as many runs as that none is: the grave one may come back.
func (s *state) thresholdAfter(before past, o observation) int {
	milder := s.milder[o.conditionType]
	if slices.Contains(milder, o.reason) && !slices.Contains(milder, before.reason) {
		return max(s.threshold(o), s.thresholds[o.conditionType].Success)
	}
	return s.threshold(o)
}

// graver reports whether o is a problem, and another one than the milder one that was
// reported before.
func (s *state) graver(before past, o observation) bool {
	milder := s.milder[o.conditionType]
	return before.status == corev1.ConditionTrue && o.status == corev1.ConditionTrue &&
		slices.Contains(milder, before.reason) && !slices.Contains(milder, o.reason)
}

// absent reports whether the latest observation of e says only that nothing is there, and
// nobody knows that it ever was. That proves nothing: the detector may not see the host, or look
// in the wrong place. It is known to have been there if it was healthy once, or was reported as
// a problem.
func (s *state) absent(e *entry, before past) bool {
	t := e.latest.conditionType
	absences := s.absences[t]
	if len(absences) == 0 {
		return false
	}
	known := before.status == corev1.ConditionFalse || before.status == corev1.ConditionTrue
	if !s.there[t] && (known || e.latest.status == corev1.ConditionFalse) {
		s.there[t], s.dirty = true, true
	}
	return !s.there[t] && e.latest.status == corev1.ConditionTrue && slices.Contains(absences, e.latest.reason)
}

// past is a status of a condition; an empty one: none is known.
type past struct {
	status          corev1.ConditionStatus
	reason, message string
	since           time.Time
	// thisBoot is whether it was reported since the node has booted.
	thisBoot bool
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

// former reports whether the state file is of another Node of this name.
func (s *state) former() bool { return s.uid != "" && s.fileUID != s.uid }

// restored is what was known of a condition before this process has seen it.
func (s *state) restored(conditionType corev1.NodeConditionType) past {
	c, onNode := s.onNode[conditionType]
	f, inFile := s.inFile[conditionType]
	if s.former() {
		inFile = false
	}
	switch {
	case inFile && (!onNode || f.Status != c.Status && f.LastTransitionTime.After(c.LastTransitionTime.Time)):
		return past{
			status: f.Status, reason: f.Reason, message: f.Message, since: f.LastTransitionTime,
			thisBoot: f.BootID == s.bootID,
		}
	case onNode && !c.LastTransitionTime.IsZero():
		known := past{
			status: c.Status, reason: c.Reason, message: c.Message, since: c.LastTransitionTime.Time,
			thisBoot: !c.LastHeartbeatTime.Time.Before(s.boot.Truncate(time.Second)),
		}
		if inFile && f.Status == c.Status {
			known.thisBoot = f.BootID == s.bootID // whatever the clocks say
		}
		return known
	}
	return past{}
}
