package v1alpha1_test

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// The kubelet's clock may be a minute behind, or ahead.
func TestALeaseIsAsOldAsTheAPIServerSays(t *testing.T) {
	written := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	entry := func(ago time.Duration) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Time: ptr.To(metav1.NewTime(written.Add(-ago)))}
	}
	for name, tt := range map[string]struct {
		renewed time.Duration // ago, by the kubelet's clock
		fields  []metav1.ManagedFieldsEntry
		want    time.Duration
	}{
		"its kubelet's clock is behind": {time.Minute, []metav1.ManagedFieldsEntry{entry(0)}, 0},
		"its kubelet's clock is ahead":  {-time.Minute, []metav1.ManagedFieldsEntry{entry(0)}, 0},
		"several have written it":       {time.Minute, []metav1.ManagedFieldsEntry{entry(time.Hour), entry(0), {}}, 0},
		"nobody tells":                  {time.Minute, nil, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ManagedFields: tt.fields}}
			lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(written.Add(-tt.renewed)))
			if got := v1alpha1.LeaseRenewed(lease); !got.Equal(written.Add(-tt.want)) {
				t.Errorf("got %s, want %s before %s", got, tt.want, written)
			}
		})
	}
	if got := v1alpha1.LeaseRenewed(&coordinationv1.Lease{}); !got.IsZero() {
		t.Errorf("never renewed: %s", got)
	}
}
