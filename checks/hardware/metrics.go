package hardware

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodemend/nodemend/ipmi/verdict"
)

// Metrics records what a check has found. A nil one records nothing.
type Metrics struct {
	failures *prometheus.GaugeVec
	records  prometheus.Counter
	total    prometheus.Gauge
	errors   *prometheus.CounterVec
}

// NewMetrics registers the metrics of the hardware check with registerer.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		failures: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "nodemend_hardware_failures",
			Help: "What is wrong with the hardware by the kind of component and by severity: failure, warning, acknowledged, or history.",
		}, []string{"kind", "severity"}),
		records: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "nodemend_hardware_sel_records_read_total",
			Help: "Records of the System Event Log that were read.",
		}),
		total: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "nodemend_hardware_sel_records",
			Help: "Records in the System Event Log.",
		}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_hardware_bmc_errors_total",
			Help: "Reads of the BMC that have failed, by what was read: sel, chassis or sensors.",
		}, []string{"part"}),
	}
	for _, c := range []prometheus.Collector{m.failures, m.records, m.total, m.errors} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of the hardware check: %w", err)
		}
	}
	return m, nil
}

func (m *Metrics) record(v verdict.Verdict, in verdict.Input) {
	if m == nil {
		return
	}
	m.failures.Reset()
	for _, f := range v.Failures {
		severity := string(f.Severity)
		switch {
		case f.Acknowledged != nil:
			severity = "acknowledged"
		case f.History:
			severity = "history"
		}
		m.failures.WithLabelValues(string(f.Kind), severity).Inc()
	}
	for part, err := range map[string]error{"sel": in.LogError, "chassis": in.ChassisError, "sensors": in.SensorsError} {
		if err != nil {
			m.errors.WithLabelValues(part).Inc()
		}
	}
	if in.LogError == nil {
		m.records.Add(float64(len(in.Log.Events)))
		m.total.Set(float64(in.Log.Total))
	}
}
