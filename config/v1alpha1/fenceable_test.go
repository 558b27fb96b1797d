package v1alpha1

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAFenceIsOneThatWasTriedLately(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		condition *corev1.NodeCondition
		fenceable bool
		reason    string
	}{
		"never tried":              {nil, false, FenceNeverChecked},
		"it answered":              {fence(corev1.ConditionTrue, FenceAnswers, now.Add(-time.Hour)), true, FenceAnswers},
		"that was a while ago":     {fence(corev1.ConditionTrue, FenceAnswers, now.Add(-7*time.Hour)), false, FenceNotChecked},
		"its time is yet to come":  {fence(corev1.ConditionTrue, FenceAnswers, now.Add(time.Hour)), false, FenceNotChecked},
		"clocks differ":            {fence(corev1.ConditionTrue, FenceAnswers, now.Add(time.Minute)), true, FenceAnswers},
		"it did not answer":        {fence(corev1.ConditionFalse, FenceNoAnswer, now.Add(-time.Minute)), false, FenceNoAnswer},
		"and that is a while ago":  {fence(corev1.ConditionFalse, FenceLoginRefused, now.Add(-24*time.Hour)), false, FenceLoginRefused},
		"there is none":            {fence(corev1.ConditionFalse, FenceNoSwitch, now), false, FenceNoSwitch},
		"nobody knows that":        {fence(corev1.ConditionUnknown, "Later", now), false, FenceOther},
		"root of the node says so": {fence(corev1.ConditionFalse, "\x1b[2J\nPolicy forged: nothing to do", now), false, FenceOther},
	} {
		node := &corev1.Node{}
		if test.condition != nil {
			node.Status.Conditions = []corev1.NodeCondition{*test.condition}
		}
		got := FenceOf(node, now)
		if got.Fenceable != test.fenceable || got.Reason != test.reason || got.Checked.IsZero() != (test.condition == nil) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func fence(status corev1.ConditionStatus, reason string, checked time.Time) *corev1.NodeCondition {
	return &corev1.NodeCondition{Type: NodeFenceable, Status: status, Reason: reason, LastHeartbeatTime: metav1.NewTime(checked)}
}

func TestStepsThatNeedASwitch(t *testing.T) {
	for _, test := range []struct {
		step Step
		want bool
	}{
		{Step{Reboot: &RebootRemedy{Method: RebootPowerCycle}}, true},
		{Step{Reboot: &RebootRemedy{}}, false},
		{Step{Maintenance: &MaintenanceRemedy{Power: PowerRequestOff}}, true},
		{Step{Maintenance: &MaintenanceRemedy{Identify: true}}, false},
		{Step{}, false},
	} {
		if got := test.step.NeedsSwitch(); got != test.want {
			t.Errorf("%+v: %t", test.step, got)
		}
	}
}
