package checks

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics records every run of every check of one detector.
type Metrics struct {
	duration *prometheus.HistogramVec
	runs     *prometheus.CounterVec
	success  *prometheus.GaugeVec
	lastRun  *prometheus.GaugeVec
}

// NewMetrics registers the metrics of checks with registerer. It fails if they
// are registered there already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodemend_check_duration_seconds",
			Help:    "How long the runs of a check took, those given up included.",
			Buckets: []float64{.005, .025, .1, .5, 1, 2.5, 5, 10, 30},
		}, []string{"check"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_check_runs_total",
			Help: "Runs of a check by the condition status that they found: True is a problem.",
		}, []string{"check", "status"}),
		success: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nodemend_check_success",
			Help: "1 if the last run of a check could tell whether there is a problem, 0 if it could not.",
		}, []string{"check"}),
		lastRun: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nodemend_check_last_run_timestamp_seconds",
			Help: "When the last run of a check that was reported had started, in Unix time.",
		}, []string{"check"}),
	}
	for _, c := range []prometheus.Collector{m.duration, m.runs, m.success, m.lastRun} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Record takes in one run of a check that is not run by a [Monitor]: when it has
// started, how long it took, and what it has found.
func (m *Metrics) Record(check string, started time.Time, took time.Duration, status Status) {
	m.record(check, started, took, status)
}

func (m *Metrics) record(check string, started time.Time, took time.Duration, status Status) {
	m.duration.WithLabelValues(check).Observe(took.Seconds())
	m.runs.WithLabelValues(check, string(status)).Inc()
	success := 1.0
	if status == Unknown {
		success = 0
	}
	m.success.WithLabelValues(check).Set(success)
	m.lastRun.WithLabelValues(check).Set(float64(started.UnixNano()) / 1e9)
}
