package v1alpha1_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestTheMarkOfATaintIsReadAsItIsWritten(t *testing.T) {
	swap := v1alpha1.ProofOfMaintenance("swap")
	for _, mark := range []v1alpha1.OutOfServiceMark{{BootID: "boot-1", Action: "action-1"}, {BootID: "boot-1", Action: "action-1", Moved: true}, {BootID: "boot-1", Action: swap}, {BootID: "boot-1", Action: swap, Moved: true}} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.OutOfServiceAnnotation: mark.String()}}}
		if got, ok := v1alpha1.OutOfServiceMarkOf(node); !ok || got != mark {
			t.Errorf("%q is read as %+v, %t", mark, got, ok)
		}
	}
	for _, text := range []string{"", "boot-1", "boot-1 ", " action-1", "boot-1 action-1 ", "boot-1 action-1 gone", "boot-1 action-1 moved moved", "boot-1  action-1"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.OutOfServiceAnnotation: text}}}
		if got, ok := v1alpha1.OutOfServiceMarkOf(node); ok {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
}

func TestTheTaintStaysAsLongAsItsMaintenance(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		mark   string
		change func(*v1alpha1.NodeMaintenance)
		keeps  bool
	}{
		"it lasts":                {"boot-1 maintenance/swap", func(*v1alpha1.NodeMaintenance) {}, true},
		"all has moved":           {"boot-1 maintenance/swap moved", func(*v1alpha1.NodeMaintenance) {}, true},
		"it is on again":          {"boot-1 maintenance/swap moved", func(m *v1alpha1.NodeMaintenance) { m.Status.Power.Phase = v1alpha1.PowerOn }, true},
		"it has ended":            {"boot-1 maintenance/swap", func(m *v1alpha1.NodeMaintenance) { m.DeletionTimestamp = &now }, false},
		"another one":             {"boot-1 maintenance/other", func(*v1alpha1.NodeMaintenance) {}, false},
		"an action of its name":   {"boot-1 swap", func(*v1alpha1.NodeMaintenance) {}, false},
		"a later one of its name": {"boot-0 maintenance/swap", func(*v1alpha1.NodeMaintenance) {}, false},
		"one that is not off":     {"boot-1 maintenance/swap", func(m *v1alpha1.NodeMaintenance) { m.Status.Power = nil }, false},
		"one without a proof":     {"boot-1 maintenance/swap", func(m *v1alpha1.NodeMaintenance) { m.Status.Power.Proof = nil }, false},
		"no mark":                 {"", func(*v1alpha1.NodeMaintenance) {}, false},
	} {
		m := &v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "swap"}}
		m.Status.Power = &v1alpha1.MaintenancePowerStatus{Phase: v1alpha1.PowerOff, Proof: &v1alpha1.PowerProof{BootID: "boot-1"}}
		test.change(m)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.OutOfServiceAnnotation: test.mark}}}
		if got := m.KeepsOutOfService(node); got != test.keeps {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestOurTaintIsKnownByItsBoot(t *testing.T) {
	mark := v1alpha1.OutOfServiceMark{BootID: "boot-1", Action: "action-1"}
	own := mark.Taint()
	changed := func(change func(*corev1.Taint)) corev1.Taint {
		taint := own
		change(&taint)
		return taint
	}
	value := changed(func(t *corev1.Taint) { t.Value = "nodeshutdown" })
	for name, test := range map[string]struct {
		taints []corev1.Taint
		own    int
		others bool
	}{
		"none":                {nil, -1, false},
		"another taint":       {[]corev1.Taint{changed(func(t *corev1.Taint) { t.Key = "a" })}, -1, false},
		"ours":                {[]corev1.Taint{{Key: "a"}, changed(func(t *corev1.Taint) { t.TimeAdded = &metav1.Time{} })}, 1, false},
		"a person's":          {[]corev1.Taint{value}, -1, true},
		"of another boot":     {[]corev1.Taint{v1alpha1.OutOfServiceMark{BootID: "boot-2"}.Taint()}, -1, true},
		"of another effect":   {[]corev1.Taint{changed(func(t *corev1.Taint) { t.Effect = corev1.TaintEffectNoSchedule })}, -1, true},
		"a person's and ours": {[]corev1.Taint{value, own}, 1, true},
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: test.taints}}
		own, others := mark.OutOfService(node)
		if own != test.own || others != test.others || v1alpha1.IsOutOfService(node) != (test.own >= 0 || test.others) {
			t.Errorf("%s: ours is at %d, others: %t", name, own, others)
		}
	}
}
