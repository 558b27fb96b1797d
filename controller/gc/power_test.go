package gc

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/internal/deadline"
)

// A machine that is off is known by its action alone: that stays, however it was deleted.
func TestADeletedActionStaysAsLongAsAMachineMayBeOffByIt(t *testing.T) {
	claimed := func(phase string, before time.Duration) *v1alpha1.NodeAction {
		a := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: "a", DeletionTimestamp: ptr.To(ago(0)), Finalizers: []string{v1alpha1.PowerFinalizer, "of/others"}}}
		a.Spec.Timeout.Duration, a.Spec.ExpiresAt = 15*time.Minute, ago(before)
		a.Status.Claim = &v1alpha1.Claim{Time: ago(before)}
		if phase != "" {
			a.Status.Power = &v1alpha1.PowerCycleStatus{Phase: phase}
		}
		return a
	}
	unclaimed, finished := claimed("", 0), claimed("Restoring", 0)
	unclaimed.Status.Claim = nil
	finished.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonSucceeded}}
	kept, over := claimed("Cutting", 0), finished.DeepCopy()
	kept.DeletionTimestamp, over.DeletionTimestamp = nil, nil
	replaces := claimed("", 0)
	replaces.Status.Replace = &v1alpha1.ReplaceStatus{}
	replaced := replaces.DeepCopy()
	replaced.Status.Conditions = finished.Status.Conditions
	late := deadline.Restorable(claimed("Cutting", 0)).Sub(now)
	for name, tt := range map[string]struct {
		action *v1alpha1.NodeAction
		stays  bool
		again  time.Duration
	}{
		"nobody has claimed it":              {unclaimed, false, 0},
		"nothing was switched":               {claimed("", 0), false, 0},
		"nothing was switched yet":           {claimed("Looking", 0), false, 0},
		"an off may have been sent":          {claimed("Cutting", 0), true, late + time.Second},
		"it is off":                          {claimed("ProvedOff", time.Minute), true, late - time.Minute + time.Second},
		"an on may have been sent":           {claimed("Restoring", 0), true, late + time.Second},
		"it may go off late":                 {claimed("Watching", 0), true, late + time.Second},
		"it has ended, and nobody says how":  {claimed("Ended", 0), false, 0},
		"it has finished":                    {finished, false, 0},
		"it is for people by now":            {claimed("ProvedOff", late+time.Second), false, 0},
		"it has finished, and is the record": {over, false, 0},
		"nobody has deleted it":              {kept, true, 0},
		"a machine is being replaced":        {replaces, true, 0},
		"a machine was replaced":             {replaced, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tt.action).Build()
			p := &Power{Client: c, Clock: clocktesting.NewFakePassiveClock(now)}
			result, err := p.Reconcile(t.Context(), worker.Request("a"))
			if err != nil || result.RequeueAfter.Round(time.Second) != tt.again {
				t.Errorf("got %+v, %v, want %s", result, err, tt.again)
			}
			var got v1alpha1.NodeAction
			if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &got); err != nil {
				t.Fatal(err)
			}
			if stays := len(got.Finalizers) == 2; stays != tt.stays || got.Finalizers[len(got.Finalizers)-1] != "of/others" {
				t.Errorf("left are %v", got.Finalizers)
			}
		})
	}
}
