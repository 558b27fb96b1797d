// Package pleg checks the kubelet's Pod Lifecycle Event Generator (PLEG), which
// tells the kubelet what happens to its pods. Without it pods are neither started
// nor restarted nor reported.
//
// # What the kubelet says (pkg/kubelet of Kubernetes 1.37)
//
// (*GenericPLEG).Relist lists all pods of the runtime, a second after the
// previous relist has ended. When the runtime has answered without an error it
// notes the time at which the relist began.
//
// (*GenericPLEG).Healthy writes that time to the gauge
// kubelet_pleg_last_seen_seconds, and fails once it is older than three minutes,
// or while there is none ("pleg has yet to be successful"; the gauge is 0).
// (*runtimeState).runtimeErrors calls it, and is called
//
//   - by (*Kubelet).syncLoop before every iteration: once a second at least, and
//     every five seconds at most while it skips iterations because of an error;
//   - for the condition Ready (nodestatus.ReadyCondition) every ten seconds
//     (nodeStatusUpdateFrequency), but only after the Node has been read from the
//     API server.
//
// So an old gauge means that no relist has succeeded since, or that the sync loop
// and the node status are both stuck: the first in one iteration, the second
// there too or for want of the API server. The histogram
// kubelet_pleg_relist_interval_seconds tells them apart. Relist itself observes
// it, with the time since the last relist that succeeded, whatever becomes of the
// new one. If an interval that was observed after the previous run of this check
// is shorter than the time from the gauge to that run, a relist has succeeded
// after the gauge, and the gauge proves nothing (GaugeNotUpdated, Unknown).
//
// # When the endpoint hangs
//
// The collector of container log sizes behind /metrics (NewLogMetricsCollector)
// asks the runtime, so with a stalled runtime /metrics hangs and the gauge can't
// be read. But it also hangs when the kubelet can't have the API server review a
// token. So that alone is no problem; it is one (RuntimeStalled) if at the same
// time the kubelet's plain /healthz answers and the runtime does not answer
// ListPodSandbox, which is what a relist begins with, to this check either.
//
// A runtime that answers this check and keeps the kubelet waiting can't be told from
// a kubelet without the API server, or without time on a CPU, however long it lasts:
// MetricsTimeout, Unknown, until Ready names PLEG.
//
// # Evented PLEG
//
// Up to 1.36 the feature EventedPLEG, when enabled, sets the gauge to the present
// at every call of (*EventedPLEG).Healthy. From 1.37 on it only asks for relists
// ahead of time. When the metrics show it, by kubernetes_feature_enabled or by
// the counters kubelet_evented_pleg_connection_*, a fresh gauge is not taken for
// healthy unless the runtime answers this check, too.
//
// # What the kubelet reports
//
// Where none of this can be seen the condition Ready of the Node is asked, whose
// message holds the error of Healthy. That it holds none is no proof of health:
// it comes minutes late.
//
// All times are compared on this host's wall clock, by which the kubelet writes
// the gauge.
package pleg
