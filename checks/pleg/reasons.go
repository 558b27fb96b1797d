package pleg

// Reasons of the condition.
const (
	// ReasonHealthy: the last relist is recent.
	ReasonHealthy = "PLEGHealthy"

	// ReasonRelistOutdated: the last relist that succeeded is older than
	// MaxLastSeen.
	ReasonRelistOutdated = "RelistOutdated"
	// ReasonNeverRelisted: no relist has succeeded since the kubelet's start,
	// which was longer ago than KubeletGrace.
	ReasonNeverRelisted = "NeverRelisted"
	// ReasonRuntimeStalled: the kubelet is alive but does not answer /metrics,
	// and the runtime does not list its pod sandboxes.
	ReasonRuntimeStalled = "RuntimeStalled"
	// ReasonReportedByKubelet: the check can't see for itself, and the condition
	// Ready says that PLEG is not healthy.
	ReasonReportedByKubelet = "ReportedByKubelet"

	// ReasonKubeletStarting, with Unknown: the kubelet was started within
	// KubeletGrace and has not relisted yet.
	ReasonKubeletStarting = "KubeletStarting"
	// ReasonKubeletDown, with Unknown: nobody listens at the kubelet's endpoint.
	// That is for the kubelet's check.
	ReasonKubeletDown = "KubeletDown"
	// ReasonKubeletUnresponsive, with Unknown: the kubelet answers neither
	// /metrics nor the plain /healthz. That is for the kubelet's check.
	ReasonKubeletUnresponsive = "KubeletUnresponsive"
	// ReasonMetricsTimeout, with Unknown: the kubelet is alive but does not
	// answer /metrics; nothing speaks for a stalled runtime.
	ReasonMetricsTimeout = "MetricsTimeout"
	// ReasonMetricsFailed, with Unknown: /metrics was answered with an error, or
	// with something else than metrics.
	ReasonMetricsFailed = "MetricsFailed"
	// ReasonNoAccess, with Unknown: the check may not read /metrics.
	ReasonNoAccess = "NoAccess"
	// ReasonGaugeMissing, with Unknown: the metrics lack the gauge.
	ReasonGaugeMissing = "GaugeMissing"
	// ReasonGaugeInFuture, with Unknown: the clock was set back.
	ReasonGaugeInFuture = "GaugeInFuture"
	// ReasonGaugeNotUpdated, with Unknown: relists succeed, but the kubelet does
	// not update the gauge.
	ReasonGaugeNotUpdated = "GaugeNotUpdated"
	// ReasonUncorroborated, with Unknown: Evented PLEG keeps the gauge fresh,
	// but the runtime did not list its pod sandboxes.
	ReasonUncorroborated = "Uncorroborated"
	// ReasonInterrupted, with Unknown: the run was ended from outside.
	ReasonInterrupted = "Interrupted"
)
