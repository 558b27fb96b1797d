package exporter

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Change is a condition whose status, or while it is True whose reason, is
// another one than before.
type Change struct {
	// Source is who has observed it.
	Source  string
	Type    string
	Status  corev1.ConditionStatus
	Reason  string
	Message string
	// At is when it was observed, by the API server's clock.
	At time.Time
	// Confirmed is whether nothing is new: this process has seen for the first
	// time what another one has reported before, or health on a node of which
	// nothing is known.
	Confirmed bool
}

// told is what those whom changes concern know of a condition.
type told struct {
	status corev1.ConditionStatus
	reason string
}

// changes returns what is new since the last call. Until the Node has been read it
// returns nothing: there is nothing to compare with. Offline, it never is read.
func (s *state) changes() (changes []Change) {
	if s.onNode == nil && !s.offline {
		return nil
	}
	for _, e := range s.entries {
		if e.shown.status == "" || e.told.status == e.shown.status && (e.told.reason == e.shown.reason || e.shown.status != corev1.ConditionTrue) {
			continue
		}
		c := Change{
			Source: e.shown.source, Type: string(e.shown.conditionType), Status: e.shown.status,
			Reason: e.shown.reason, Message: e.shown.message, At: e.shown.at,
		}
		if e.told.status == "" {
			before := s.restored(e.shown.conditionType).status
			c.Confirmed = before == e.shown.status || before == "" && e.shown.status == corev1.ConditionFalse
		}
		changes = append(changes, c)
		e.told = told{e.shown.status, e.shown.reason}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Type, b.Type) })
	return changes
}
