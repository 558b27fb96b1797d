package containerruntime

import (
	"context"
	"fmt"
	"path"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/bounded"
)

// answers is what the calls of one run have returned.
type answers struct {
	calls                 []outcome
	status                *runtimeapi.StatusResponse // nil: the call failed
	sandboxes, containers count
}

// outcome is how one call has ended.
type outcome struct {
	method string // without its service: "Status"
	took   time.Duration
	err    error // nil: it was answered
}

// ask makes all calls at once and returns when each has been answered or ctx has
// ended.
func ask(ctx context.Context, conn *grpc.ClientConn, watch clock.PassiveClock) (a answers) {
	var status runtimeapi.StatusResponse
	calls := []struct {
		method          string
		request, answer any
	}{
		{runtimeapi.RuntimeService_Status_FullMethodName, &runtimeapi.StatusRequest{}, &status},
		{runtimeapi.RuntimeService_ListPodSandbox_FullMethodName, &runtimeapi.ListPodSandboxRequest{}, &a.sandboxes},
		{runtimeapi.RuntimeService_ListContainers_FullMethodName, &runtimeapi.ListContainersRequest{}, &a.containers},
	}
	a.calls = make([]outcome, len(calls))
	var calling bounded.Group
	for i, call := range calls {
		calling.Go(func() {
			started := watch.Now()
			err := invoke(ctx, conn, call.method, call.request, call.answer)
			a.calls[i] = outcome{method: path.Base(call.method), took: watch.Since(started).Round(time.Millisecond / 10), err: err}
		})
	}
	calling.Wait()
	if a.calls[0].err == nil {
		a.status = &status
	}
	return a
}

// invoke makes one call. Its error is ctx.Err() if ctx has ended meanwhile, and
// wraps [context.DeadlineExceeded] if the runtime gave up, which watches our
// deadline, too, and may have shorter ones of its own.
func invoke(ctx context.Context, conn *grpc.ClientConn, method string, request, answer any) error {
	err := conn.Invoke(ctx, method, request, answer)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case grpcstatus.Code(err) == codes.DeadlineExceeded:
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	default:
		return err
	}
}
