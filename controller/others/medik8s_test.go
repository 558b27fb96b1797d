package others

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// The Lease lasts for 6 minutes. Two clocks are not compared: the API server notes when it was written.
func TestALeaseLastsByTheClockOfTheAPIServer(t *testing.T) {
	for name, tt := range map[string]struct {
		renewed, written time.Duration // ago
		until            string        // "": it is over
	}{
		"its holder's clock is right":  {renewed: 5 * time.Minute, written: 5 * time.Minute, until: "12:01:00"},
		"its holder's clock is behind": {renewed: 9 * time.Minute, written: 4 * time.Minute, until: "12:02:00"},
		"its holder's clock is ahead":  {renewed: 2 * time.Minute, written: 8 * time.Minute, until: "12:04:00"},
		"it is over":                   {renewed: 9 * time.Minute, written: 7 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			l := lease(func(l *coordinationv1.LeaseSpec) { l.RenewTime = &metav1.MicroTime{Time: now.Add(-tt.renewed)} })
			l.ManagedFields = []metav1.ManagedFieldsEntry{{Time: ptr.To(ago(tt.written))}}
			hold := LeaseHeld(l, "w17", now)
			if (hold.Why == "") != (tt.until == "") || !strings.Contains(hold.Why, tt.until) {
				t.Errorf("got %q, want %q", hold.Why, tt.until)
			}
		})
	}
}
