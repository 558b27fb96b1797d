package containerruntime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/nodemend/nodemend/checks"
)

// Reasons of the condition.
const (
	// ReasonHealthy: both calls were answered in time and the runtime is ready.
	ReasonHealthy = "ContainerRuntimeHealthy"

	// ReasonSocketMissing: there is no file at the endpoint.
	ReasonSocketMissing = "SocketMissing"
	// ReasonConnectionRefused: nobody listens at the endpoint.
	ReasonConnectionRefused = "ConnectionRefused"
	// ReasonUnreachable: the connection could not be made or broke.
	ReasonUnreachable = "Unreachable"
	// ReasonStatusTimeout: Status was not answered in time.
	ReasonStatusTimeout = "StatusTimeout"
	// ReasonListTimeout: ListPodSandbox was not answered in time, Status was.
	ReasonListTimeout = "ListTimeout"
	// ReasonRuntimeNotReady: Status reports RuntimeReady=false.
	ReasonRuntimeNotReady = "RuntimeNotReady"
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

// failed turns the error of a call into a verdict. ctx is that of the run.
func (c *Check) failed(ctx context.Context, call call, err error) checks.Result {
	where := fmt.Sprintf("%s: %s", c.options.Endpoint, call.method)
	switch code := grpcstatus.Code(err); {
	case errors.Is(ctx.Err(), context.Canceled):
		return checks.Unknown(ReasonInterrupted, fmt.Sprintf("%s was interrupted after %s", where, call.took))
	case code == codes.DeadlineExceeded:
		c.connection.suspect()
		return checks.Problem(call.reasonTimeout, fmt.Sprintf("%s was not answered within its deadline of %s", where, c.options.Timeout))
	case code == codes.Unimplemented:
		return checks.Unknown(ReasonInvalidEndpoint, fmt.Sprintf("%s is not served there: %v; set the endpoint to that of the kubelet, or enable the runtime's CRI plugin", where, err))
	case code == codes.Unavailable:
		c.connection.close()
		return c.unavailable(where, call, err)
	default:
		return checks.Problem(ReasonRPCFailed, fmt.Sprintf("%s failed after %s: %v", where, call.took, err))
	}
}

func (c *Check) unavailable(where string, call call, err error) checks.Result {
	dialErr := c.connection.dialer.lastError()
	text := fmt.Sprintf("%s failed after %s (deadline %s): ", where, call.took, c.options.Timeout)
	switch {
	case errors.Is(dialErr, fs.ErrNotExist):
		return checks.Problem(ReasonSocketMissing, text+dialErr.Error())
	case errors.Is(dialErr, syscall.ECONNREFUSED):
		return checks.Problem(ReasonConnectionRefused, text+dialErr.Error())
	case errors.Is(dialErr, fs.ErrPermission):
		return checks.Unknown(ReasonNoAccess, text+dialErr.Error()+"; run the detector as root")
	case dialErr != nil:
		return checks.Problem(ReasonUnreachable, text+dialErr.Error())
	default:
		return checks.Problem(ReasonUnreachable, text+err.Error())
	}
}
