package exporter

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// leftAfter is for how long the detector has run, and a condition that its
// configuration does not name was not confirmed by another detector, before the
// condition is removed. A configuration that was wrong can be put right meanwhile.
const leftAfter = 15 * time.Minute

// leftRetry is when a removal that failed is tried again.
const leftRetry = time.Hour

// findLeft returns the conditions of the Node that are to be removed: ours, by what
// solelyOf says, of no check that the configuration names, and confirmed by nobody.
func (s *state) findLeft(node *corev1.Node, now time.Time) (left []corev1.NodeCondition) {
	s.leftAt = time.Time{}
	if s.named == nil {
		return nil
	}
	for _, c := range node.Status.Conditions {
		if s.named[c.Type] || s.entries[c.Type] != nil || !solelyOf(node, c.Type, s.manager) {
			continue
		}
		latest := s.started
		if c.LastHeartbeatTime.After(latest) {
			latest = c.LastHeartbeatTime.Time
		}
		due := latest.Add(leftAfter - s.offset)
		if s.leftRetryAt.After(due) {
			due = s.leftRetryAt
		}
		if due.After(now) {
			s.leftAt = earliest(s.leftAt, due)
			continue
		}
		left = append(left, c)
	}
	return left
}

// removed takes in how the removal of conditions has ended.
func (s *state) removed(left []corev1.NodeCondition, err error, now time.Time) {
	if err != nil {
		s.leftRetryAt = now.Add(leftRetry)
		s.leftAt = earliest(s.leftAt, s.leftRetryAt)
		return
	}
	for _, c := range left {
		delete(s.onNode, c.Type)
		delete(s.inFile, c.Type)
	}
	s.dirty = true
}

// earliest is the earlier of two times; zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// solelyOf reports whether the field manager has written the condition and nobody else
// has, as the API server has recorded.
func solelyOf(node *corev1.Node, conditionType corev1.NodeConditionType, manager string) bool {
	owners := writers(node, conditionType)
	return len(owners) == 1 && owners[0] == manager
}

// removal is a strategic merge patch that removes conditions from the Node as it was
// read: not if somebody has written it since.
func removal(node *corev1.Node, left []corev1.NodeCondition) ([]byte, error) {
	type meta struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	}
	type directive struct {
		Patch string                   `json:"$patch"`
		Type  corev1.NodeConditionType `json:"type"`
	}
	type status struct {
		Conditions []directive `json:"conditions"`
	}
	patch := status{}
	for _, c := range left {
		patch.Conditions = append(patch.Conditions, directive{"delete", c.Type})
	}
	return json.Marshal(struct {
		Metadata meta   `json:"metadata"`
		Status   status `json:"status"`
	}{meta{node.UID, node.ResourceVersion}, patch})
}

// remove removes conditions from the Node as it was read. That it fails delays
// nothing else.
func (e *Exporter) remove(ctx context.Context, node *corev1.Node, left []corev1.NodeCondition) {
	if len(left) == 0 {
		return
	}
	data, err := removal(node, left)
	if err == nil {
		err = e.request(ctx, func(ctx context.Context) error { return e.node.PatchStatus(ctx, data) })
	}
	if err != nil && ctx.Err() != nil {
		return // ended by shutdown
	}
	log := klog.FromContext(ctx).WithValues("node", e.options.NodeName)
	for _, c := range left {
		if err != nil {
			log.Error(err, "Condition that the configuration names no more could not be removed",
				"condition", c.Type, "status", c.Status, "retryAfter", leftRetry.String())
			continue
		}
		log.Info("Condition that the configuration names no more is removed from the Node",
			"condition", c.Type, "status", c.Status, "reason", c.Reason, "since", c.LastTransitionTime.UTC().Format(time.RFC3339))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.metrics.requests.WithLabelValues("patch", outcome(err)).Inc()
	e.state.removed(left, err, e.options.steady(e.options.Clock.Now()))
	if e.state.dirty {
		wake(e.changed)
	}
}
