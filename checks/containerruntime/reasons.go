package containerruntime

// Reasons of the condition.
const (
	// ReasonHealthy: all calls were answered in time and the runtime is ready.
	ReasonHealthy = "ContainerRuntimeHealthy"

	// ReasonSocketMissing: there is no file at the endpoint, or no socket at any of
	// the candidates for it.
	ReasonSocketMissing = "SocketMissing"
	// ReasonConnectionRefused: nobody listens at the endpoint.
	ReasonConnectionRefused = "ConnectionRefused"
	// ReasonUnreachable: the connection could not be made or broke.
	ReasonUnreachable = "Unreachable"
	// ReasonTimeout: at least one of the calls was not answered in time.
	ReasonTimeout = "Timeout"
	// ReasonNotReady: Status reports RuntimeReady=false.
	ReasonNotReady = "NotReady"
	// ReasonNetworkNotReady: Status reports NetworkReady=false, and
	// Options.NetworkNotReady is set.
	ReasonNetworkNotReady = "NetworkNotReady"
	// ReasonRPCFailed: a call was answered with an error.
	ReasonRPCFailed = "RPCFailed"

	// ReasonInvalidEndpoint, with Unknown: what listens at the endpoint does not
	// serve CRI. It is the wrong socket, or CRI is disabled there: no fix of the
	// runtime helps.
	ReasonInvalidEndpoint = "InvalidEndpoint"
	// ReasonNoAccess, with Unknown: the detector may not open the socket.
	ReasonNoAccess = "NoAccess"
	// ReasonInterrupted, with Unknown: the run was ended from outside.
	ReasonInterrupted = "Interrupted"
)
