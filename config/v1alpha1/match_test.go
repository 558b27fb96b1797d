package v1alpha1

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestMatches(t *testing.T) {
	tests := []struct {
		name      string
		reasons   []string
		condition *corev1.NodeCondition
		want      bool
	}{
		{"type and status", nil, &corev1.NodeCondition{Type: "A", Status: "True", Reason: "Any"}, true},
		{"another type", nil, &corev1.NodeCondition{Type: "B", Status: "True"}, false},
		{"another status", nil, &corev1.NodeCondition{Type: "A", Status: "Unknown"}, false},
		{"no condition", nil, nil, false},
		{"the reason", []string{"Timeout"}, &corev1.NodeCondition{Type: "A", Status: "True", Reason: "Timeout"}, true},
		{"one of several reasons", []string{"Slow", "Timeout"}, &corev1.NodeCondition{Type: "A", Status: "True", Reason: "Timeout"}, true},
		{"one of the joined reasons", []string{"Timeout"}, &corev1.NodeCondition{Type: "A", Status: "True", Reason: "Crash, Timeout,Other"}, true},
		{"a part of a reason", []string{"Time"}, &corev1.NodeCondition{Type: "A", Status: "True", Reason: "Timeout"}, false},
		{"another reason", []string{"Timeout"}, &corev1.NodeCondition{Type: "A", Status: "True", Reason: "Crash"}, false},
		{"no reason", []string{"Timeout"}, &corev1.NodeCondition{Type: "A", Status: "True"}, false},
		{"the reason of another status", []string{"Timeout"}, &corev1.NodeCondition{Type: "A", Status: "False", Reason: "Timeout"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := ConditionMatch{Type: "A", Status: corev1.ConditionTrue, Reasons: tt.reasons}
			if got := m.Matches(tt.condition); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
