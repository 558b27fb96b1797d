package remediation

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
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
		incident(at(2, 1), history("Failed", claimTime)),                        // exhausted
		incident(at(2, 1), history("Failed", claimTime), progress("Exhausted")), // still
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
		"blocked by Excluded": testutil.ToFloat64(metrics.blocked.WithLabelValues("p", "Excluded")),
		"blocked by NoBudget": testutil.ToFloat64(metrics.blocked.WithLabelValues("p", "NoBudget")),
		"exhausted":           testutil.ToFloat64(metrics.exhausted.WithLabelValues("p")),
		"ended as NodeGone":   testutil.ToFloat64(metrics.outcomes.WithLabelValues("p", "NodeGone")),
	} {
		if got != 1 {
			t.Errorf("%s: counted %v times, want once", name, got)
		}
	}
}
