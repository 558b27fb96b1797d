package runner

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics is what a runner counts.
type metrics struct {
	actions  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics registers the metrics, or finds those of another runner in the
// same process.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	actions, err := register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nodemend_runner_actions_total",
		Help: "Actions that this runner finished, by remedy (\"unknown\" if it was not executed) and by the reason of the Finished condition.",
	}, []string{"remedy", "reason"}))
	if err != nil {
		return nil, err
	}
	duration, err := register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "nodemend_runner_action_duration_seconds",
		Help:    "How long executed remedies took.",
		Buckets: []float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 1800},
	}, []string{"remedy"}))
	if err != nil {
		return nil, err
	}
	return &metrics{actions: actions, duration: duration}, nil
}

// observe counts an action whose end has been written.
func (m *metrics) observe(remedy string, o outcome) {
	m.actions.WithLabelValues(remedy, o.reason).Inc()
	if o.result != nil {
		m.duration.WithLabelValues(remedy).Observe(o.result.FinishedAt.Sub(o.result.StartedAt.Time).Seconds())
	}
}

func register[C prometheus.Collector](registerer prometheus.Registerer, collector C) (C, error) {
	err := registerer.Register(collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing, nil
		}
	}
	if err != nil {
		return collector, fmt.Errorf("registering the runner's metrics: %w", err)
	}
	return collector, nil
}
