package remediation

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Metrics counts what became of remediations.
type Metrics struct {
	started   *prometheus.CounterVec
	outcomes  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	blocked   *prometheus.CounterVec
	exhausted *prometheus.CounterVec
	actions   *prometheus.CounterVec
	toAction  *prometheus.HistogramVec
	toHealed  *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		started: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_remediations_started_total",
			Help: "Remediations started, by policy: by their conditions or by a person.",
		}, []string{"policy"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_remediations_ended_total",
			Help: "Remediations that ended, by policy and outcome.",
		}, []string{"policy", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodemend_remediation_duration_seconds",
			Help:    "Time from the creation of a remediation to its end, by policy and outcome.",
			Buckets: buckets(),
		}, []string{"policy", "outcome"}),
		blocked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_remediations_blocked_total",
			Help: "How often a remediation became blocked, by policy and reason.",
		}, []string{"policy", "reason"}),
		exhausted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_remediations_exhausted_total",
			Help: "Remediations whose every step was executed without success, by policy: people have to look.",
		}, []string{"policy"}),
		actions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "nodemend_actions_finished_total",
			Help: "Actions that finished, by policy, remedy and outcome: the reason of their Finished condition, or Lost.",
		}, []string{"policy", "remedy", "outcome"}),
		toAction: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodemend_condition_to_action_seconds",
			Help:    "Time from the transition of the condition that started a remediation to its first action, by policy; spec.match[].for is part of it.",
			Buckets: buckets(),
		}, []string{"policy"}),
		toHealed: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "nodemend_action_to_recovery_seconds",
			Help:    "Time from the start of the last action that was executed to the end of the recovered remediation, by policy and remedy.",
			Buckets: buckets(),
		}, []string{"policy", "remedy"}),
	}
	for _, c := range []prometheus.Collector{m.started, m.outcomes, m.duration, m.blocked, m.exhausted, m.actions, m.toAction, m.toHealed} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// buckets are from 1 s to 9 h.
func buckets() []float64 { return prometheus.ExponentialBuckets(1, 2, 16) }

// Expect shows as zero what is likely to be counted of a policy: a counter that comes
// into being with 1 looks to Prometheus as if nothing had happened.
func (m *Metrics) Expect(policy *v1alpha1.RemedyPolicy) {
	m.started.WithLabelValues(policy.Name)
	m.exhausted.WithLabelValues(policy.Name)
	m.toAction.WithLabelValues(policy.Name)
	for _, outcome := range []string{v1alpha1.ReasonRecovered, v1alpha1.ReasonRecoveredByItself} {
		m.outcomes.WithLabelValues(policy.Name, outcome)
		m.duration.WithLabelValues(policy.Name, outcome)
	}
	for i := range policy.Spec.Steps {
		remedy := policy.Spec.Steps[i].Remedy()
		m.toHealed.WithLabelValues(policy.Name, remedy)
		for _, outcome := range []string{v1alpha1.ReasonSucceeded, v1alpha1.ReasonFailed} {
			m.actions.WithLabelValues(policy.Name, remedy, outcome)
		}
	}
}

// changed counts what a change of the status says.
func (m *Metrics) changed(before, after *v1alpha1.Remediation) {
	policy, state := after.Spec.Policy.Name, after.State()
	if before.Status.Step == 0 && after.Status.Step > 0 {
		m.started.WithLabelValues(policy).Inc()
	}
	if by := after.BlockedBy(); by != "" && by != before.BlockedBy() {
		m.blocked.WithLabelValues(policy, by).Inc()
	}
	if state == v1alpha1.ReasonExhausted && before.State() != state {
		m.exhausted.WithLabelValues(policy).Inc()
	}
	if record := newRecord(before, after); record != nil {
		m.actions.WithLabelValues(policy, record.Remedy, record.Outcome).Inc()
	}
	if after.Status.Actions == 1 && before.Status.Actions == 0 {
		if c := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.RemediationProgressing); c != nil {
			m.toAction.WithLabelValues(policy).Observe(c.LastTransitionTime.Sub(after.Spec.Trigger.Since().Time).Seconds())
		}
	}
	if after.Ended() && !before.Ended() {
		m.outcomes.WithLabelValues(policy, state).Inc()
		m.duration.WithLabelValues(policy, state).
			Observe(after.Status.EndTime.Sub(after.CreationTimestamp.Time).Seconds())
		if last := after.Status.LastActed(); state == v1alpha1.ReasonRecovered && last != nil && last.StartedAt != nil {
			m.toHealed.WithLabelValues(policy, last.Remedy).Observe(after.Status.EndTime.Sub(last.StartedAt.Time).Seconds())
		}
	}
}
