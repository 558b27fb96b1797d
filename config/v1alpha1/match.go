package v1alpha1

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Matches reports whether the condition is the one that the entry names: its type,
// its status and, if the entry lists any, one of its reasons. How long it has held
// is not looked at. A nil condition, which the node does not have, is not.
func (m *ConditionMatch) Matches(c *corev1.NodeCondition) bool {
	return c != nil && string(c.Type) == m.Type && c.Status == m.Status && m.hasReason(c.Reason)
}

// Debounces reports whether the controller itself counts for how long the condition is so.
func (m *ConditionMatch) Debounces() bool { return m.Debounce.Duration > 0 }

// Ignores reports whether the condition, which the entry matches, has been so for longer than
// ignoreAfter: it counts no more, neither as the fault nor as recovery. One that does not say
// since when may have been so for any time.
func (m *ConditionMatch) Ignores(c *corev1.NodeCondition, now time.Time) bool {
	return m.IgnoresSince(c.LastTransitionTime.Time, now)
}

// IgnoresSince is Ignores for a condition that is so since a time.
func (m *ConditionMatch) IgnoresSince(since, now time.Time) bool {
	return m.IgnoreAfter.Duration > 0 && now.Sub(since) > m.IgnoreAfter.Duration
}

// hasReason reports whether one of the reasons, which a condition joins by commas,
// is listed.
func (m *ConditionMatch) hasReason(reasons string) bool {
	if len(m.Reasons) == 0 {
		return true
	}
	for reason := range strings.SplitSeq(reasons, ",") {
		if slices.Contains(m.Reasons, strings.TrimSpace(reason)) {
			return true
		}
	}
	return false
}
