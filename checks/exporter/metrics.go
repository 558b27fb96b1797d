package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests    *prometheus.CounterVec
	lastSuccess prometheus.Gauge
	foreign     *prometheus.CounterVec
	saveFailed  prometheus.Gauge
}

// newMetrics registers the exporter's metrics.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
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
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) record(verb, result string, now time.Time) {
	m.requests.WithLabelValues(verb, result).Inc()
	if verb == "patch" && result == success {
		m.lastSuccess.Set(float64(now.UnixNano()) / 1e9)
	}
}
