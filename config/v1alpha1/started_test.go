package v1alpha1

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestATombstoneStartedWhenItsRemediationDid(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const of = "n1-0123"
	for _, tt := range []struct {
		name           string
		of, annotation string
		want           time.Duration // before it was created
	}{
		{"a remediation", "", "", 0},
		{"a tombstone", of, "2026-03-01T11:00:00Z", time.Hour},
		{"in another time zone", of, "2026-03-01T12:30:00+01:00", 30 * time.Minute},
		{"a tombstone that does not say when", of, "", 0},
		{"a time that cannot be read", of, "yesterday", 0},
		{"a time after its own", of, "2026-03-01T12:00:01Z", 0},
		{"no tombstone at all", "", "2026-03-01T11:00:00Z", 0},
	} {
		r := &Remediation{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created), Annotations: map[string]string{}}}
		if tt.of != "" {
			r.Annotations[TombstoneAnnotation] = tt.of
		}
		if tt.annotation != "" {
			r.Annotations[TombstoneStartedAnnotation] = tt.annotation
		}
		if got := created.Sub(r.StartedAt().Time); got != tt.want {
			t.Errorf("%s: %s before it was created, want %s", tt.name, got, tt.want)
		}
	}
}
