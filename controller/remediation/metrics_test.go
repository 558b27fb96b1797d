package remediation

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
)

func TestEveryChangeIsCountedOnce(t *testing.T) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	var last *v1alpha1.Remediation
	for _, s := range []situation{
		incident(),
		incident(excluded), // blocked
		incident(excluded), // still
		incident(withoutBudget),
		incident(at(2, 1), history("Failed", deadline.ClaimTime)),                        // exhausted
		incident(at(2, 1), history("Failed", deadline.ClaimTime), progress("Exhausted")), // still
		incident(nodeGone), // ended
	} {
		after := s.remediation.DeepCopy()
		after.Status = decide(s).status
		if last == nil {
			last = s.remediation
		}
		metrics.changed(last, after)
		last = after
	}
	for name, got := range map[string]float64{
		"started, by whomever": testutil.ToFloat64(metrics.started.WithLabelValues("p")),
		"blocked by Excluded":  testutil.ToFloat64(metrics.blocked.WithLabelValues("p", "Excluded")),
		"blocked by NoBudget":  testutil.ToFloat64(metrics.blocked.WithLabelValues("p", "NoBudget")),
		"exhausted":            testutil.ToFloat64(metrics.exhausted.WithLabelValues("p")),
		"ended as NodeGone":    testutil.ToFloat64(metrics.outcomes.WithLabelValues("p", "NodeGone")),
	} {
		if got != 1 {
			t.Errorf("%s: counted %v times, want once", name, got)
		}
	}
}

func TestAStoryIsMeasured(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	s := incident()
	s.remediation.CreationTimestamp = ago(0)
	s.remediation.Spec.Trigger.LastTransitionTime = ago(5 * time.Second)
	step := func(change ...func(*situation)) {
		for _, c := range change {
			c(&s)
		}
		before := s.remediation.DeepCopy()
		s.remediation.Status = decide(s).status
		metrics.changed(before, s.remediation)
	}
	step()
	ends("Succeeded")(&s)
	s.attempt.Created = now
	step()
	s.attempt = nil
	s.now = now.Add(40 * time.Second)
	step(condition("False", -40*time.Second, -10*time.Second))
	ending := incident(at(1, 1), history("Succeeded", time.Minute), nodeGone)
	ending.remediation.Status.History[0].StartedAt = ptr.To(ago(time.Hour))
	ending.remediation.CreationTimestamp = ago(0)
	gone := ending.remediation.DeepCopy()
	gone.Status = decide(ending).status
	metrics.changed(ending.remediation, gone) // no recovery

	want := `
# HELP nodemend_actions_finished_total Actions that finished, by policy, remedy and outcome: the reason of their Finished condition, or Lost.
# TYPE nodemend_actions_finished_total counter
nodemend_actions_finished_total{outcome="Succeeded",policy="p",remedy="command"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "nodemend_actions_finished_total"); err != nil {
		t.Error(err)
	}
	counts := map[string]uint64{
		"nodemend_condition_to_action_seconds": 1, "nodemend_action_to_recovery_seconds": 1, "nodemend_remediation_duration_seconds": 2,
	}
	for name, want := range map[string]float64{
		"nodemend_condition_to_action_seconds": 5, "nodemend_action_to_recovery_seconds": 40, "nodemend_remediation_duration_seconds": 40,
	} {
		if count, sum := histogram(t, registry, name); count != counts[name] || sum != want {
			t.Errorf("%s: got %d observations, together %v s; want %d, together %v s", name, count, sum, counts[name], want)
		}
	}
}

func histogram(t *testing.T, registry *prometheus.Registry, name string) (count uint64, sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				count, sum = count+m.GetHistogram().GetSampleCount(), sum+m.GetHistogram().GetSampleSum()
			}
		}
	}
	return count, sum
}

func TestWhatIsCountedOfAPolicyIsThereBeforeItHappens(t *testing.T) {
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	policy := disruptive().policy
	policy.Name = "p"
	metrics.Expect(policy)
	for name, c := range map[string]struct {
		collector prometheus.Collector
		want      int
	}{
		"ended, by two outcomes":             {metrics.outcomes, 2},
		"duration, by two outcomes":          {metrics.duration, 2},
		"started":                            {metrics.started, 1},
		"exhausted":                          {metrics.exhausted, 1},
		"condition to action":                {metrics.toAction, 1},
		"action to recovery by remedy":       {metrics.toHealed, 3},
		"actions by remedy and two outcomes": {metrics.actions, 6},
	} {
		if got := testutil.CollectAndCount(c.collector); got != c.want {
			t.Errorf("%s: %d series, want %d", name, got, c.want)
		}
	}
	if n := testutil.ToFloat64(metrics.exhausted.WithLabelValues("p")); n != 0 {
		t.Errorf("counted %v exhausted ones", n)
	}
}
