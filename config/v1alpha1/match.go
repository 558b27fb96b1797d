package v1alpha1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Matches reports whether the condition is the one that the entry names: its type,
// its status and, if the entry lists any, one of its reasons. How long it has held
// is not looked at. A nil condition, which the node does not have, is not.
func (m *ConditionMatch) Matches(c *corev1.NodeCondition) bool {
	return c != nil && string(c.Type) == m.Type && c.Status == m.Status && m.hasReason(c.Reason)
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
