package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// lead is a Lease whose holder's clock is off by an hour, last written at this time by that of
// the API server.
func lead(written time.Time, duration time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: leaderLease, Namespace: usualNamespace, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "c", Time: ptr.To(metav1.NewTime(written))}}},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("c"), LeaseDurationSeconds: ptr.To(int32(duration.Seconds())),
			RenewTime: &metav1.MicroTime{Time: written.Add(-time.Hour)},
		},
	}
}

func TestWhoLeadsIsToldByTheClockOfTheAPIServer(t *testing.T) {
	for ago, want := range map[time.Duration]bool{5 * time.Second: true, time.Minute: false} {
		if got := atNoon().leads(lead(noon.Add(-ago), 15*time.Second)); got != want {
			t.Errorf("renewed %s ago: leads is %t", ago, got)
		}
	}
}

func TestAnUninstallDoesNotWaitForAControllerForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "stuck", Finalizers: []string{v1alpha1.RemediationFinalizer}}}
		var r requests
		leader := lead(time.Now(), 24*time.Hour)
		leader.ManagedFields = nil
		c := r.cluster(t, stuck, leader)
		tool := &tool{clock: clock.RealClock{}, streams: genericiooptions.IOStreams{Out: &bytes.Buffer{}}}
		err := (&uninstall{tool: tool, c: c}).empty(t.Context(), time.Minute, &v1alpha1.RemediationList{})
		if err == nil || !strings.Contains(err.Error(), "stuck") || !strings.Contains(err.Error(), "--timeout") {
			t.Errorf("got %v", err)
		}
	})
}

func TestAnUninstallTellsOfNodesThatStayOutOfService(t *testing.T) {
	out, mine := sick("out", "z"), sick("mine", "z")
	mark := v1alpha1.OutOfServiceMark{BootID: "boot-1", Action: "action"}
	out.Annotations, out.Spec.Taints = map[string]string{v1alpha1.OutOfServiceAnnotation: mark.String()}, []corev1.Taint{mark.Taint()}
	var r requests
	var said bytes.Buffer
	tool := &tool{clock: clock.RealClock{}, streams: genericiooptions.IOStreams{Out: &said}}
	if err := (&uninstall{tool: tool, c: r.cluster(t, out, mine)}).tellOutOfService(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "kubectl taint nodes out node.kubernetes.io/out-of-service- && kubectl annotate node out nodemend.dev/out-of-service-"; !strings.Contains(said.String(), want) || strings.Contains(said.String(), "mine") {
		t.Errorf("said was %q", said.String())
	}
}
