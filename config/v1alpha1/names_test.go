package v1alpha1

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestANameIsOnlyOfWhatItWasWrittenFor(t *testing.T) {
	for _, tt := range []struct {
		name, what, by, want string
	}{
		{"jane has approved it", "2", "2 jane", "jane"},
		{"somebody has approved it by hand", "2", "", ""},
		{"jane has approved an earlier step, somebody this one by hand", "3", "2 jane", ""},
		{"a name without what it is about", "2", "jane", ""},
		{"a longer number", "2", "22 jane", ""},
		{"a name with a space", "2", "2 jane of the night shift", "jane of the night shift"},
		{"nothing is approved", "", "2 jane", ""},
	} {
		r := &Remediation{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			ApprovedStepAnnotation: tt.what, RetryAnnotation: tt.what, ApprovedByAnnotation: tt.by, RetriedByAnnotation: tt.by,
		}}}
		if got := r.ApprovedBy(); got != tt.want {
			t.Errorf("%s: approved by %q, want %q", tt.name, got, tt.want)
		}
		if got := r.RetriedBy(); got != tt.want {
			t.Errorf("%s: retried by %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestWhoHasPausedIsKnownUntilTheSpecIsWrittenAgain(t *testing.T) {
	b := &RemediationBudget{ObjectMeta: metav1.ObjectMeta{UID: "u-1", Generation: 7}}
	if got := PausedBy(b); got != "" {
		t.Errorf("nobody has signed, it names %q", got)
	}
	b.Annotations = map[string]string{PausedByAnnotation: Signed(Paused(b), "jane")}
	if got := PausedBy(b); got != "jane" {
		t.Errorf("jane has paused it, it names %q", got)
	}
	b.Generation = 8
	if got := PausedBy(b); got != "" {
		t.Errorf("somebody has written it since, it names %q", got)
	}
	b.Generation, b.UID = 7, "u-2"
	if got := PausedBy(b); got != "" {
		t.Errorf("it is another object of the name, it names %q", got)
	}
}
