package exporter

import (
	"cmp"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patch is one write: conditions of the Node with this UID.
type patch struct {
	uid        types.UID
	conditions []corev1.NodeCondition
}

// json returns the patch as a strategic merge patch of the Node's status, where
// conditions are merged by their type. As a JSON merge patch it would delete
// the conditions of everybody else.
//
// A UID can't be changed, so the API server refuses the patch (422 Invalid) if
// the Node has been created anew since it was read.
func (p *patch) json() ([]byte, error) {
	type meta struct {
		UID types.UID `json:"uid"`
	}
	type status struct {
		Conditions []corev1.NodeCondition `json:"conditions"`
	}
	return json.Marshal(struct {
		Metadata meta   `json:"metadata"`
		Status   status `json:"status"`
	}{meta{p.uid}, status{p.conditions}})
}

func byType(a, b corev1.NodeCondition) int { return cmp.Compare(a.Type, b.Type) }
