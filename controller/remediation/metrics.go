package remediation

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Metrics counts what became of remediations.
type Metrics struct {
	outcomes  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	blocked   *prometheus.CounterVec
	exhausted *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_remediations_ended_total",
			Help: "Remediations that ended, by policy and outcome.",
		}, []string{"policy", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodemend_remediation_duration_seconds",
			Help:    "Time from the creation of a remediation to its end, by policy and outcome.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 16), // 1 s to 9 h
		}, []string{"policy", "outcome"}),
		blocked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_remediations_blocked_total",
			Help: "How often a remediation became blocked, by policy and reason.",
		}, []string{"policy", "reason"}),
		exhausted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_remediations_exhausted_total",
			Help: "Remediations whose every step was executed without success, by policy: people have to look.",
		}, []string{"policy"}),
	}
	for _, c := range []prometheus.Collector{m.outcomes, m.duration, m.blocked, m.exhausted} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// changed counts what a change of the status says.
func (m *Metrics) changed(before, after *v1alpha1.Remediation) {
	policy, state := after.Spec.Policy.Name, after.State()
	if by := after.BlockedBy(); by != "" && by != before.BlockedBy() {
		m.blocked.WithLabelValues(policy, by).Inc()
	}
	if state == v1alpha1.ReasonExhausted && before.State() != state {
		m.exhausted.WithLabelValues(policy).Inc()
	}
	if after.Ended() && !before.Ended() {
		m.outcomes.WithLabelValues(policy, state).Inc()
		m.duration.WithLabelValues(policy, state).
			Observe(after.Status.EndTime.Sub(after.CreationTimestamp.Time).Seconds())
	}
}
