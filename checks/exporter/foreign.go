package exporter

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// foreignWrite is a condition of ours that somebody else has written: another
// detector that was left running, as a rule.
type foreignWrite struct {
	conditionType corev1.NodeConditionType
	// ours is what was last written here, theirs what the Node has; nil if the
	// condition was removed.
	ours, theirs *corev1.NodeCondition
}

// verify compares what the Node has with what was last written, and makes the
// plan put right what differs. A write whose answer was lost is ours.
func (e *entry) verify(conditionType corev1.NodeConditionType, read map[corev1.NodeConditionType]corev1.NodeCondition) []foreignWrite {
	if e.stored == nil || !e.confirmed {
		return nil
	}
	c, found := read[conditionType]
	switch {
	case found && equal(c, *e.stored):
		return nil
	case found && e.attempted != nil && equal(c, *e.attempted):
		e.stored, e.attempted = e.attempted, nil
		return nil
	}
	write := foreignWrite{conditionType: conditionType, ours: e.stored}
	e.stored = nil
	if found {
		write.theirs, e.stored = &c, &c
	}
	return []foreignWrite{write}
}

// equal leaves out the message, which may have been bounded by others.
func equal(a, b corev1.NodeCondition) bool {
	return !differs(a, b) && a.LastHeartbeatTime.Equal(&b.LastHeartbeatTime)
}

func (w foreignWrite) String() string {
	if w.theirs == nil {
		return fmt.Sprintf("condition %s was removed from the Node", w.conditionType)
	}
	return fmt.Sprintf("condition %s was written as %s (%s, heartbeat %s); the detector had written %s (%s, heartbeat %s)", w.conditionType,
		w.theirs.Status, w.theirs.Reason, w.theirs.LastHeartbeatTime.UTC().Format("15:04:05"),
		w.ours.Status, w.ours.Reason, w.ours.LastHeartbeatTime.UTC().Format("15:04:05"))
}

// otherWriters returns the writers of the condition other than the detector, which is own.
func otherWriters(node *corev1.Node, conditionType corev1.NodeConditionType, own string) []string {
	return slices.DeleteFunc(writers(node, conditionType), func(manager string) bool { return manager == own })
}

// writers returns the field managers that own any field of the condition: who has
// written it, as far as nobody else has since.
func writers(node *corev1.Node, conditionType corev1.NodeConditionType) (managers []string) {
	key := fmt.Sprintf(`k:{"type":%q}`, conditionType)
	for _, m := range node.ManagedFields {
		if m.FieldsV1 == nil || !owns(m.FieldsV1, key) || slices.Contains(managers, m.Manager) {
			continue
		}
		managers = append(managers, m.Manager)
	}
	return managers
}

func owns(fields *metav1.FieldsV1, condition string) bool {
	var set struct {
		Status struct {
			Conditions map[string]json.RawMessage `json:"f:conditions"`
		} `json:"f:status"`
	}
	if err := json.Unmarshal(fields.GetRawBytes(), &set); err != nil {
		return false
	}
	_, found := set.Status.Conditions[condition]
	return found
}

// Owned are the types of the conditions of a Node of which the field manager owns any field.
func Owned(node *corev1.Node, manager string) (types []corev1.NodeConditionType) {
	for _, m := range node.ManagedFields {
		if m.Manager != manager || m.FieldsV1 == nil {
			continue
		}
		for _, c := range node.Status.Conditions {
			if owns(m.FieldsV1, fmt.Sprintf(`k:{"type":%q}`, c.Type)) {
				types = append(types, c.Type)
			}
		}
	}
	return types
}
