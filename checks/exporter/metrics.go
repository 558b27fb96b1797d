package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests    *prometheus.CounterVec
	lastSuccess prometheus.Gauge
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
	}
	for _, c := range []prometheus.Collector{m.requests, m.lastSuccess} {
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
