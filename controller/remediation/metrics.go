package remediation

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Metrics counts what became of remediations.
type Metrics struct {
	outcomes *prometheus.CounterVec
	duration *prometheus.HistogramVec
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
	}
	for _, c := range []prometheus.Collector{m.outcomes, m.duration} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Metrics) ended(r *v1alpha1.Remediation) {
	outcome := r.State()
	m.outcomes.WithLabelValues(r.Spec.Policy.Name, outcome).Inc()
	m.duration.WithLabelValues(r.Spec.Policy.Name, outcome).
		Observe(r.Status.EndTime.Sub(r.CreationTimestamp.Time).Seconds())
}
