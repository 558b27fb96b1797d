package exporter

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of one or more exporters.
type Metrics struct {
	requests    *prometheus.CounterVec
	lastSuccess prometheus.Gauge
	foreign     *prometheus.CounterVec
	saveFailed  prometheus.Gauge
}

// NewMetrics registers them. It fails if they are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_detector_requests_total",
			Help: "Requests to the API server by verb (get, patch) and by result: success, or the reason of the failure.",
		}, []string{"verb", "result"}),
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nodemend_detector_last_successful_patch_timestamp_seconds",
			Help: "When conditions were last written to the Node, in Unix time; 0 before the first time.",
		}),
		foreign: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_detector_foreign_writes_total",
			Help: "How often a condition of the detector was found written or removed by somebody else.",
		}, []string{"condition"}),
		saveFailed: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nodemend_detector_state_file_failed",
			Help: "1 if the state file could not be written the last time, else 0.",
		}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.lastSuccess, m.foreign, m.saveFailed} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the exporter's metrics: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) record(verb, result string, now time.Time) {
	m.requests.WithLabelValues(verb, result).Inc()
	if verb == "patch" && result == success {
		m.lastSuccess.Set(float64(now.UnixNano()) / 1e9)
	}
}
