package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/repairnote"
)

var broke = metav1.NewTime(time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC))

// telling is a node whose condition tells this, and a technician these lines.
func telling(status corev1.ConditionStatus, said string, lines ...string) *corev1.Node {
	node := nodeWith(true, nil)
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "ready"},
		{Type: "HardwareFailure", Status: status, Reason: "FanFailure", LastTransitionTime: broke, Message: repairnote.Join(said, lines)},
	}
	return node
}

func TestEvidenceStaysWhenTheNodeTellsNothingAnyMore(t *testing.T) {
	failing := telling("True", "FAN1: 0 RPM", "server: S-1", "FAN1: since then")
	first := gathered(nil, failing)
	want := v1alpha1.Evidence{Type: "HardwareFailure", Reason: "FanFailure", Since: broke, Message: "FAN1: 0 RPM", Details: []string{"server: S-1", "FAN1: since then"}}
	if len(first) != 1 || !sameEvidence(&first[0], &want) || first[0].Message != want.Message || first[0].Type != want.Type {
		t.Fatalf("got %+v", first)
	}
	off := nodeWith(true, nil)
	tests := []struct {
		name    string
		node    *corev1.Node
		message string
		details []string
	}{
		{"off", off, "FAN1: 0 RPM", want.Details},
		{"healthy", telling("False", "no hardware failure"), "FAN1: 0 RPM", want.Details},
		{"healthy, and tells it all the same", telling("False", "no hardware failure", "x"), "FAN1: 0 RPM", want.Details},
		{"nobody knows", telling("Unknown", "the BMC can't be read"), "FAN1: 0 RPM", want.Details},
		{"another reading", telling("True", "FAN1: 100 RPM", want.Details...), "FAN1: 0 RPM", want.Details},
		{"something more is broken", telling("True", "FAN1: 0 RPM; FAN2", "server: S-1", "FAN2: since now"), "FAN1: 0 RPM; FAN2", []string{"server: S-1", "FAN2: since now"}},
		{"known before", telling("Unknown", "known before: FAN1", "server: S-1"), "known before: FAN1", []string{"server: S-1"}},
	}
	for _, tt := range tests {
		got := gathered(first, tt.node)
		if len(got) != 1 || got[0].Message != tt.message || !slices.Equal(got[0].Details, tt.details) {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
	if len(first) != 1 || !sameEvidence(&first[0], &want) {
		t.Errorf("what was known has been changed: %+v", first)
	}
}

func TestEvidenceIsBoundedWhateverANodeSays(t *testing.T) {
	node := nodeWith(true, nil)
	for i := range 20 {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(fmt.Sprintf("Sick%d", i)), Status: "True", Reason: strings.Repeat("x", 5000),
			Message: repairnote.Join(strings.Repeat("x\x1b", 5000), slices.Repeat([]string{"\x1b[2J" + strings.Repeat("y", 5000)}, 100)),
		})
	}
	node.Status.Conditions[0].Type = corev1.NodeConditionType(strings.Repeat("x", 400))
	got := gathered(nil, node)
	if len(got) != maxEvidence || got[0].Type != "Sick1" {
		t.Fatalf("%d, the first is %.20s", len(got), got[0].Type)
	}
	for i := range got {
		e := &got[i]
		if len(e.Reason) > maxReason || len(e.Message) > maxMessage || len(e.Details) > repairnote.MaxLines || strings.Contains(e.Message+strings.Join(e.Details, ""), "\x1b") {
			t.Errorf("got %+v", e)
		}
	}
}

func TestAnotherNodeOfTheNameHasNoEvidenceOfTheFormer(t *testing.T) {
	m := &v1alpha1.NodeMaintenance{Spec: v1alpha1.NodeMaintenanceSpec{NodeName: "n"}}
	node := telling("True", "FAN1", "FAN1: since then")
	node.UID = "u"
	m.Status = begin(m, node, cordonedByUs, broke.Time).status
	if len(m.Status.Evidence) != 1 {
		t.Fatalf("got %+v", m.Status.Evidence)
	}
	if s := begin(m, nil, noNode, broke.Time); len(s.status.Evidence) != 1 {
		t.Errorf("of a node that is gone for now: %+v", s.status.Evidence)
	}
	other := nodeWith(true, nil)
	other.UID = "v"
	if s := begin(m, other, cordonedByUs, broke.Time); len(s.status.Evidence) != 0 {
		t.Errorf("of another node: %+v", s.status.Evidence)
	}
}
