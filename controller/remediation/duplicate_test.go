package remediation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestOfTwoOpenRemediationsOneEnds(t *testing.T) {
	other := func(name string, change func(*v1alpha1.Remediation)) func(*situation) {
		return func(s *situation) {
			r := s.remediation.DeepCopy()
			r.Name, r.UID = name, "other-uid"
			change(r)
			s.past = append(s.past, *r)
		}
	}
	for name, tt := range map[string]struct {
		options   []func(*situation)
		duplicate bool
	}{
		"an older one":                 {[]func(*situation){other("n1-0000", func(*v1alpha1.Remediation) {})}, true},
		"a younger one":                {[]func(*situation){other("n1-9999", func(*v1alpha1.Remediation) {})}, false},
		"a younger one that has begun": {[]func(*situation){other("n1-9999", func(r *v1alpha1.Remediation) { r.Status.Maintenance = "m" })}, true},
		"an older one that has not begun, unlike this one": {[]func(*situation){
			func(s *situation) { s.remediation.Status.History = []v1alpha1.ActionRecord{{Step: 1, Attempt: 1}} },
			other("n1-0000", func(r *v1alpha1.Remediation) { r.Status.History = nil }),
		}, false},
		"an older one that has begun, as this one": {[]func(*situation){
			func(s *situation) { s.remediation.Status.History = []v1alpha1.ActionRecord{{Step: 1, Attempt: 1}} },
			other("n1-0000", func(*v1alpha1.Remediation) {}),
		}, true},
		"one that has ended": {[]func(*situation){other("n1-0000", func(r *v1alpha1.Remediation) {
			r.Status.EndTime = &metav1.Time{Time: now}
		})}, false},
		"one of another policy": {[]func(*situation){other("n1-0000", func(r *v1alpha1.Remediation) { r.Spec.Policy.UID = "another" })}, false},
		"a tombstone": {[]func(*situation){other("n1-0000", func(r *v1alpha1.Remediation) {
			r.Annotations = map[string]string{v1alpha1.TombstoneAnnotation: "n1-0001"}
		})}, false},
		"an older one while an action is under way": {[]func(*situation){
			other("n1-0000", func(*v1alpha1.Remediation) {}), at(1, 1), underway(0),
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(incident(tt.options...))
			if got := d.status.EndTime != nil && d.progress() == v1alpha1.ReasonDuplicate; got != tt.duplicate {
				t.Errorf("ended as a duplicate: %v, want %v; state %s", got, tt.duplicate, d.progress())
			}
		})
	}
}
