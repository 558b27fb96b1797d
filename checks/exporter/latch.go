package exporter

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/internal/cut"
)

// Latch is what is to be known of a condition that a log sets: once True, it stays
// so until the node has rebooted, although the log shows nothing new after a restart
// of the detector.
type Latch struct {
	// ClearAfter, if not zero, is for how long it stays.
	ClearAfter time.Duration
	// Others are the reasons with which only others than logs, such as plugins, set
	// the condition. A problem with no other reason is over when they say so.
	Others []string
}

// own are those of the reasons, joined by commas, that may be a log's. A reason that
// nobody has any more, as after a change of the configuration, may be one.
func (l Latch) own(reasons string) (own []string) {
	for reason := range strings.SplitSeq(reasons, ",") {
		if !slices.Contains(l.Others, reason) {
			own = append(own, reason)
		}
	}
	return own
}

// keep is what is to be reported if known, which is latched, stands beside what was
// observed.
func (l Latch) keep(known past, o observation) observation {
	reasons, message := l.own(known.reason), known.message
	if o.status == corev1.ConditionTrue { // of others
		reasons = append(reasons, o.reason)
		if !strings.Contains(message, o.message) {
			message += "; " + o.message
		}
	}
	o.status = corev1.ConditionTrue
	o.reason, o.message = cut.Valid(strings.Join(reasons, ","), maxReason), cut.Valid(message, maxMessage)
	return o
}

// latched reports whether the latest observation of e, which saw no problem of a
// log, leaves one standing that a former process has reported since the node has
// booted. A time that is configured is counted from the start of this process, as it
// is not known when the former one has last seen the problem.
func (s *state) latched(e *entry, known past) bool {
	latch, latches := s.latches[e.latest.conditionType]
	if !latches || e.seenLogged || known.status != corev1.ConditionTrue || len(latch.own(known.reason)) == 0 {
		return false
	}
	if latch.ClearAfter > 0 && e.latest.at.Sub(s.started) >= latch.ClearAfter {
		return false
	}
	return known.thisBoot
}

// logged reports whether o is a problem that a log may have shown.
func (s *state) logged(o observation) bool {
	latch, latches := s.latches[o.conditionType]
	return latches && o.status == corev1.ConditionTrue && len(latch.own(o.reason)) > 0
}
