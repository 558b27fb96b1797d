package budget

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/index"
)

// The permit of a remediation that is gone is kept while anything of it may begin or run (I1).
func TestAPermitIsSweptOnlyWhenNothingOfItsRemediationMayRun(t *testing.T) {
	created := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(created.Add(d)) }
	claimed := func(a *v1alpha1.NodeAction) { a.Status.Claim = &v1alpha1.Claim{Time: at(time.Second)} }
	finished := func(reason string) func(*v1alpha1.NodeAction) {
		return func(a *v1alpha1.NodeAction) {
			a.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: at(2 * time.Second)}}
		}
	}
	for name, tt := range map[string]struct {
		change []func(*v1alpha1.NodeAction)
		after  time.Duration
		over   bool
	}{
		"it can still be claimed":                  {nil, 10 * time.Second, false},
		"it can be claimed no more":                {nil, time.Hour, true},
		"it runs":                                  {[]func(*v1alpha1.NodeAction){claimed}, 10 * time.Second, false},
		"it must have ended":                       {[]func(*v1alpha1.NodeAction){claimed}, time.Hour, true},
		"it has ended":                             {[]func(*v1alpha1.NodeAction){claimed, finished(v1alpha1.ReasonSucceeded)}, 10 * time.Second, true},
		"nobody knows whether it has":              {[]func(*v1alpha1.NodeAction){claimed, finished(v1alpha1.ReasonInterrupted)}, 10 * time.Second, false},
		"nobody knows, and it must have by now":    {[]func(*v1alpha1.NodeAction){claimed, finished(v1alpha1.ReasonInterrupted)}, time.Hour, true},
		"it was cancelled before anybody began it": {[]func(*v1alpha1.NodeAction){finished(v1alpha1.ReasonCancelled)}, 10 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &v1alpha1.NodeAction{
				ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: created},
				Spec: v1alpha1.NodeActionSpec{
					Remediation: "r", ExpiresAt: at(time.Minute),
					Timeout: v1alpha1.Duration{Duration: time.Minute},
				},
			}
			for _, change := range tt.change {
				change(a)
			}
			s := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(s); err != nil {
				t.Fatal(err)
			}
			live := fake.NewClientBuilder().WithScheme(s).WithObjects(a).
				WithIndex(&v1alpha1.NodeAction{}, index.ActionsByRemediation, func(client.Object) []string { return []string{"r"} }).Build()
			r := &Reconciler{Live: live, Clock: clocktesting.NewFakePassiveClock(created.Add(tt.after))}
			if over, err := r.over(t.Context(), "r"); over != tt.over || err != nil {
				t.Errorf("got %t, %v, want %t", over, err, tt.over)
			}
		})
	}
}
