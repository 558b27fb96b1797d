package maintenance

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/repairnote"
)

// Limits of evidence, as its fields have them.
const (
	maxEvidence = 8
	maxType     = 316
	maxReason   = 1024
	maxMessage  = 1024
)

// gathered returns the evidence with what the conditions of the node tell a technician now. One
// that tells nothing, such as that of a node which is well again, keeps what it has told.
func gathered(known []v1alpha1.Evidence, node *corev1.Node) []v1alpha1.Evidence {
	known = slices.Clone(known)
	for i := range node.Status.Conditions {
		c := &node.Status.Conditions[i]
		said, details := repairnote.Split(c.Message)
		if len(details) == 0 || c.Status == corev1.ConditionFalse || len(c.Type) > maxType {
			continue
		}
		now := v1alpha1.Evidence{
			Type: string(c.Type), Reason: cut.Valid(c.Reason, maxReason), Since: c.LastTransitionTime,
			Message: cut.Valid(said, maxMessage), Details: details,
		}
		at := slices.IndexFunc(known, func(e v1alpha1.Evidence) bool { return e.Type == now.Type })
		switch {
		case at >= 0 && sameEvidence(&known[at], &now):
		case at >= 0:
			known[at] = now
		case len(known) < maxEvidence:
			known = append(known, now)
		}
	}
	return known
}

// sameEvidence reports whether nothing has changed but a reading that the message tells.
func sameEvidence(a, b *v1alpha1.Evidence) bool {
	return a.Reason == b.Reason && a.Since.Equal(&b.Since) && slices.Equal(a.Details, b.Details)
}

// tellsMore reports whether an update of a node tells a technician anything else.
func tellsMore(old, updated *corev1.Node) bool {
	for i := range updated.Status.Conditions {
		c := &updated.Status.Conditions[i]
		before := v1alpha1.FindNodeCondition(old, string(c.Type))
		if before != nil && before.Message == c.Message && before.Status == c.Status {
			continue
		}
		if _, details := repairnote.Split(c.Message); len(details) > 0 && c.Status != corev1.ConditionFalse {
			return true
		}
	}
	return false
}
