package kubelet

// Reasons of the condition.
const (
	// ReasonHealthy: the kubelet answers, and nothing that can be seen is wrong.
	ReasonHealthy = "KubeletHealthy"

	// ReasonRestarting: systemd has restarted the kubelet more often within the
	// window than is accepted, whether or not it answers now.
	ReasonRestarting = "Restarting"
	// ReasonUnitFailed: nobody listens for /healthz, and systemd has given the
	// unit up.
	ReasonUnitFailed = "UnitFailed"
	// ReasonConnectionRefused: nobody listens for /healthz.
	ReasonConnectionRefused = "ConnectionRefused"
	// ReasonConnectionLost: the connection was closed before /healthz was
	// answered.
	ReasonConnectionLost = "ConnectionLost"
	// ReasonHealthzTimeout: /healthz was not answered in time.
	ReasonHealthzTimeout = "HealthzTimeout"
	// ReasonHealthzFailed: /healthz of one of the servers reports a failure
	// other than that of the sync loop.
	ReasonHealthzFailed = "HealthzFailed"
	// ReasonSyncLoopFailed: the sync loop has not turned for minutes.
	ReasonSyncLoopFailed = "SyncLoopFailed"

	// ReasonHealthzNotServed, with Unknown: nobody listens for the plain
	// /healthz, but the kubelet is alive.
	ReasonHealthzNotServed = "HealthzNotServed"
	// ReasonHealthzUnreadable, with Unknown: /healthz can't be asked for; the
	// endpoint may be wrong.
	ReasonHealthzUnreadable = "HealthzUnreadable"
	// ReasonSyncLoopNotSeen, with Unknown: the kubelet answers the plain /healthz,
	// but the state of the sync loop was not told in time, or can't be seen any
	// more since it has failed.
	ReasonSyncLoopNotSeen = "SyncLoopNotSeen"
	// ReasonUnitNotSeen, with Unknown: the kubelet was restarting, and systemd
	// can't be asked any more whether it still is.
	ReasonUnitNotSeen = "UnitNotSeen"
	// ReasonInterrupted, with Unknown: the run was ended from outside.
	ReasonInterrupted = "Interrupted"
)
