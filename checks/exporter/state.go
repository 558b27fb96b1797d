package exporter

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// watchful is for how long after a change of status the short heartbeat is kept:
// the controller needs fresh evidence to call a node recovered.
const watchful = 10 * time.Minute

// observation is what one run of a check has seen.
type observation struct {
	conditionType corev1.NodeConditionType
	status        corev1.ConditionStatus
	reason        string
	message       string
	// at is when the run started.
	at time.Time
}

// entry is one condition.
type entry struct {
	latest observation
	// since is the condition's lastTransitionTime.
	since time.Time
	// changed is whether this process has seen the status change. If so, since
	// is what it saw; if not, since gives way to what the Node has.
	changed bool
	// stored is the condition as the Node has it; nil if it has none.
	stored *corev1.NodeCondition
	// confirmed is whether this process has written the condition.
	confirmed bool
}

// state decides what is to be written when. Times are passed in; those of
// observations and of the plan come from the same clock.
type state struct {
	heartbeat        time.Duration
	problemHeartbeat time.Duration
	rand             func() float64

	// seeded is whether the Node was read and, as far as known, still exists.
	seeded bool
	uid    types.UID
	// onNode are the conditions that the Node had when it was read; nil until then.
	onNode  map[corev1.NodeConditionType]corev1.NodeCondition
	entries map[corev1.NodeConditionType]*entry
	// offset is added to times of observations to get the API server's time.
	offset time.Duration

	heartbeatAt time.Time
	failures    int
	retryAt     time.Time
}

func newState(options Options) *state {
	return &state{
		heartbeat:        options.Heartbeat,
		problemHeartbeat: options.ProblemHeartbeat,
		rand:             options.Rand,
		entries:          map[corev1.NodeConditionType]*entry{},
	}
}

// observe takes in the result of a run.
func (s *state) observe(o observation) {
	o.at = o.at.Add(s.offset)
	e := s.entries[o.conditionType]
	switch {
	case e == nil:
		e = &entry{latest: o, since: o.at}
		s.entries[o.conditionType] = e
		s.adopt(e)
	case e.latest.status != o.status:
		e.since, e.changed = o.at, true
	}
	e.latest = o
}

// seed takes in the Node as read. For a condition that this process has not
// seen change, an equal status of the Node's keeps its transition time.
func (s *state) seed(uid types.UID, conditions []corev1.NodeCondition) {
	s.seeded, s.uid = true, uid
	s.onNode = make(map[corev1.NodeConditionType]corev1.NodeCondition, len(conditions))
	for _, c := range conditions {
		s.onNode[c.Type] = c
	}
	for _, e := range s.entries {
		e.stored, e.confirmed = nil, false
		s.adopt(e)
	}
}

// adopt fits an entry to what the Node had when it was read.
func (s *state) adopt(e *entry) {
	c, found := s.onNode[e.latest.conditionType]
	if !found {
		return
	}
	e.stored = &c
	if !e.changed && c.Status == e.latest.status && !c.LastTransitionTime.IsZero() {
		e.since = c.LastTransitionTime.Time
	}
}

// correct sets the difference between the API server's time and the clock of
// observations. What has been observed before the Node was read is corrected,
// too; what has been written is not touched.
func (s *state) correct(offset time.Duration) {
	if s.onNode == nil {
		for _, e := range s.entries {
			e.latest.at = e.latest.at.Add(offset - s.offset)
			e.since = e.since.Add(offset - s.offset)
		}
	}
	s.offset = offset
}

// plan is the next thing to do. If it is neither read nor patch, wait is how
// long nothing is to be done unless there is a new observation; zero is no limit.
type plan struct {
	read  bool
	patch *patch
	wait  time.Duration
}

func (s *state) plan(now time.Time) plan {
	if wait := s.retryAt.Sub(now); wait > 0 {
		return plan{wait: wait}
	}
	if !s.seeded {
		return plan{read: true}
	}
	urgent := false
	p := &patch{uid: s.uid}
	for _, e := range s.entries {
		c := e.condition()
		switch {
		case !e.confirmed || e.stored == nil || differs(c, *e.stored):
			urgent = true
		case c.LastHeartbeatTime.Equal(&e.stored.LastHeartbeatTime):
			continue // its check has not run again
		}
		p.conditions = append(p.conditions, c)
	}
	switch wait := s.heartbeatAt.Sub(now); {
	case len(p.conditions) == 0:
		return plan{}
	case !urgent && wait > 0:
		return plan{wait: wait}
	}
	slices.SortFunc(p.conditions, byType)
	return plan{patch: p}
}

// differs reports whether the change from b to a is to be written at once.
func differs(a, b corev1.NodeCondition) bool {
	return a.Status != b.Status || a.Reason != b.Reason || !a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// acknowledge takes in that p has been written.
func (s *state) acknowledge(p *patch, now time.Time) {
	for _, c := range p.conditions {
		e := s.entries[c.Type]
		e.stored, e.confirmed = &c, true
	}
	s.failures = 0
	s.heartbeatAt = now.Add(jitter(s.interval(now), s.rand))
}

// interval is the time to the next heartbeat.
func (s *state) interval(now time.Time) time.Duration {
	for _, e := range s.entries {
		if e.latest.status != corev1.ConditionFalse || now.Add(s.offset).Sub(e.since) < watchful {
			return s.problemHeartbeat
		}
	}
	return s.heartbeat
}

// fail takes in that a read or a patch has failed, and whether that was since
// the Node that was read does not exist any more.
func (s *state) fail(gone bool, now time.Time) {
	if gone {
		s.seeded = false
	}
	s.failures++
	s.retryAt = now.Add(backoff(s.failures, s.rand))
}

func (e *entry) condition() corev1.NodeCondition {
	return corev1.NodeCondition{
		Type:               e.latest.conditionType,
		Status:             e.latest.status,
		LastHeartbeatTime:  seconds(e.latest.at),
		LastTransitionTime: seconds(e.since),
		Reason:             e.latest.reason,
		Message:            e.latest.message,
	}
}

// seconds is the time as the API keeps it: rounded down, so that an observation
// never seems later than it was.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }
