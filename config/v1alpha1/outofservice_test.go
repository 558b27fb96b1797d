package v1alpha1_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestTheMarkOfATaintIsReadAsItIsWritten(t *testing.T) {
	for _, mark := range []v1alpha1.OutOfServiceMark{{BootID: "boot-1", Action: "action-1"}, {BootID: "boot-1", Action: "action-1", Moved: true}} {
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
