package remediation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestANodeWhoseClockWasAheadRecoversAsSoonAsAnother(t *testing.T) {
	s := disruptive(at(2, 1), out("Drained"), history("Succeeded", time.Minute))
	s.remediation.Spec.Recovery.HealthyFor = seconds(30)
	clock := clocktesting.NewFakePassiveClock(now)
	r := &Reconciler{Clock: clock}
	sick := ago(50 * time.Second)
	after := func(passed time.Duration, since time.Time) decision {
		t.Helper()
		clock.SetTime(clock.Now().Add(passed))
		looked := s
		looked.now, looked.leaseRenewed = clock.Now(), clock.Now()
		seen := metav1.NewTime(clock.Now())
		looked.node = s.node.DeepCopy()
		looked.node.Status.Conditions = []corev1.NodeCondition{
			{Type: "Sick", Status: "False", LastHeartbeatTime: seen, LastTransitionTime: sick},
			{Type: corev1.NodeReady, Status: "True", LastHeartbeatTime: seen, LastTransitionTime: metav1.NewTime(since)},
		}
		api := cacheOf(t, looked.node)
		r.Client, r.Live = api, api
		d, err := r.decide(t.Context(), &looked)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	healing := func(d decision, left time.Duration) {
		t.Helper()
		if is := d.progress(); is != v1alpha1.ReasonHealing || d.wait != left {
			t.Errorf("rule %q, %s, again after %s, want %s", d.rule, is, d.wait, left)
		}
	}
	ahead := now.Add(8 * time.Hour)
	healing(after(0, ahead), 30*time.Second)
	healing(after(20*time.Second, ahead), 10*time.Second)
	sick = metav1.NewTime(now.Add(15 * time.Second)) // until then, between two looks
	healing(after(0, ahead), 25*time.Second)
	healing(after(20*time.Second, ahead.Add(time.Minute)), 30*time.Second) // it was not Ready in between
	if d := after(30*time.Second, ahead.Add(time.Minute)); d.progress() != v1alpha1.ReasonRecovered {
		t.Errorf("rule %q, %s, again after %s", d.rule, d.progress(), d.wait)
	}
}
