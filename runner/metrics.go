package runner

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/nodemend/nodemend/runner/remedy"
)

// metrics is what a runner counts.
type metrics struct {
	actions  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// newMetrics registers the metrics, and those of the process.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_runner_actions_total",
			Help: "Actions that this runner finished, by remedy (\"unknown\" if it can't be told) and by the reason of the Finished condition.",
		}, []string{"remedy", "reason"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodemend_runner_action_duration_seconds",
			Help:    "How long executed remedies took.",
			Buckets: []float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 1800},
		}, []string{"remedy"}),
	}
	err := errors.Join(registry.Register(m.actions), registry.Register(m.duration),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil {
		return nil, fmt.Errorf("registering the runner's metrics: %w", err)
	}
	return m, nil
}

// observe counts an action whose end has been written.
func (m *metrics) observe(name string, o remedy.Outcome) {
	name = cmp.Or(name, "unknown")
	m.actions.WithLabelValues(name, o.Reason).Inc()
	if o.Result != nil {
		m.duration.WithLabelValues(name).Observe(o.Result.FinishedAt.Sub(o.Result.StartedAt.Time).Seconds())
	}
}
