package remediation

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/gates"
)

// debounced lets the match debounce by two minutes, and what was seen be this.
func debounced(seen evidence.Seen) func(*situation) {
	return func(s *situation) {
		s.remediation.Spec.Match[0].Debounce = seconds(120)
		s.seen = []evidence.Seen{seen}
	}
}

func TestADebouncedRecoveryIsLookedForInTime(t *testing.T) {
	held := now.Add(-time.Hour)
	for name, tt := range map[string]struct {
		s     situation
		state string
		wait  time.Duration
	}{
		"away for a moment, nothing is next": {
			incident(condition("False", time.Second, 10*time.Second), debounced(evidence.Seen{Held: held, Status: "False", Since: now.Add(-10 * time.Second)})),
			v1alpha1.ReasonWaiting, gates.EvidenceRecheck,
		},
		"away for nearly long enough": {
			incident(condition("False", time.Second, 10*time.Second), debounced(evidence.Seen{Held: held, Status: "False", Since: now.Add(-115 * time.Second)})),
			v1alpha1.ReasonWaiting, 5 * time.Second,
		},
		"away for long enough, and longer than healthyFor": {
			incident(condition("False", time.Second, 10*time.Second), debounced(evidence.Seen{Status: "False", Since: now.Add(-120 * time.Second)})),
			v1alpha1.ReasonRecoveredByItself, 0,
		},
		"after an action": {
			incident(at(1, 1), history(v1alpha1.ReasonSucceeded, 50*time.Second), condition("False", time.Second, 10*time.Second),
				debounced(evidence.Seen{Held: held, Status: "False", Since: now.Add(-117 * time.Second)})),
			v1alpha1.ReasonVerifying, 3 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tt.s)
			if d.progress() != tt.state || d.wait != tt.wait {
				t.Errorf("got %s, look again in %s; want %s, %s", d.progress(), d.wait, tt.state, tt.wait)
			}
		})
	}
}

func TestWhatAPersonHasEndedIsOverOnceItWasSeenHealthy(t *testing.T) {
	for _, state := range []string{v1alpha1.ReasonReleased, v1alpha1.ReasonDeleted, v1alpha1.ReasonRecovered} {
		t.Run(state, func(t *testing.T) {
			s := incident(debounced(evidence.Seen{}), condition("True", time.Second, time.Hour))
			s.remediation.Spec.Trigger = v1alpha1.Trigger{Type: "Sick", Status: "True"}
			ended := ago(0)
			s.remediation.Status.Step, s.remediation.Status.EndTime = 1, &ended
			s.remediation.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Status: metav1.ConditionFalse, Reason: state}}
			c := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(s.node, s.remediation).WithStatusSubresource(s.node, s.remediation).Build()
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			clock := clocktesting.NewFakePassiveClock(now)
			r := &Reconciler{Client: c, Live: c, Clock: clock, Seen: &evidence.Tracker{}, Metrics: metrics}
			look := func(after time.Duration, status corev1.ConditionStatus) (time.Duration, []string) {
				t.Helper()
				clock.SetTime(now.Add(after))
				var node corev1.Node
				if err := c.Get(t.Context(), client.ObjectKey{Name: "n1"}, &node); err != nil {
					t.Fatal(err)
				}
				reported := &node.Status.Conditions[0]
				if reported.Status != status {
					reported.LastTransitionTime = metav1.NewTime(clock.Now())
				}
				reported.Status, reported.LastHeartbeatTime = status, metav1.NewTime(clock.Now())
				if err := c.Status().Update(t.Context(), &node); err != nil {
					t.Fatal(err)
				}
				var remediation v1alpha1.Remediation
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), &remediation); err != nil {
					t.Fatal(err)
				}
				wait, err := r.awaitHealthy(t.Context(), &remediation)
				if err != nil {
					t.Fatal(err)
				}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(s.remediation), &remediation); err != nil {
					t.Fatal(err)
				}
				return wait, remediation.Status.SeenHealthy
			}
			awaits := state != v1alpha1.ReasonRecovered
			for _, step := range []struct {
				after  time.Duration
				status corev1.ConditionStatus
				wait   time.Duration
				seen   bool
			}{
				{10 * time.Second, "True", 0, false},
				{20 * time.Second, "False", gates.EvidenceRecheck, false},
				{80 * time.Second, "True", 0, false},
				{100 * time.Second, "False", gates.EvidenceRecheck, false},
				{160 * time.Second, "False", gates.EvidenceRecheck, false},
				{215 * time.Second, "False", 5 * time.Second, false},
				{220 * time.Second, "False", 0, true},
				{280 * time.Second, "True", 0, true},
			} {
				wait, seen := look(step.after, step.status)
				if !awaits {
					step.wait, step.seen = 0, false
				}
				if wait != step.wait || slices.Contains(seen, "Sick") != step.seen {
					t.Errorf("%s after %s: got %v, look again in %s; want %v, %s", step.status, step.after, seen, wait, step.seen, step.wait)
				}
			}
		})
	}
}
