package containerruntime

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodemend/nodemend/checks"
)

func rpcError(code codes.Code) error { return grpcstatus.Error(code, "as the test wants") }

// observe makes an observation of calls that end with these errors.
func observe(statusErr, sandboxesErr, containersErr error) observation {
	o := observation{endpoint: "unix:///x.sock", timeout: 8 * time.Second}
	o.calls = []outcome{
		{method: "Status", took: time.Millisecond, err: statusErr},
		{method: "ListPodSandbox", took: 2 * time.Millisecond, err: sandboxesErr},
		{method: "ListContainers", took: 3 * time.Millisecond, err: containersErr},
	}
	if statusErr == nil {
		o.status = report(true, true)
	}
	return o
}

func report(runtimeReady, networkReady bool) *runtimeapi.StatusResponse {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: runtimeReady, Reason: "RuntimeWords"},
		{Type: runtimeapi.NetworkReady, Status: networkReady, Reason: "NetworkWords"},
	}}}
}

func (o observation) with(change func(*observation)) observation {
	change(&o)
	return o
}

func TestTheMostTellingObservationDecides(t *testing.T) {
	late, cut, refused, unknown := fmt.Errorf("call: %w", context.DeadlineExceeded), rpcError(codes.Unavailable), rpcError(codes.Internal), rpcError(codes.Unimplemented)
	dialing := func(err error) func(*observation) {
		return func(o *observation) { o.dialErr = fmt.Errorf("dial: %w", err) }
	}
	reporting := func(status *runtimeapi.StatusResponse) func(*observation) {
		return func(o *observation) { o.status = status }
	}
	networkMatters := func(o *observation) { o.networkMatters = true }

	for name, tc := range map[string]struct {
		observation observation
		status      checks.Status
		reason      string
		mentions    string
	}{
		"all is well": {observe(nil, nil, nil), checks.False, ReasonHealthy,
			"unix:///x.sock: Status answered in 1ms, ListPodSandbox answered with 0 sandboxes in 2ms, ListContainers answered with 0 containers in 3ms (deadline 8s each)"},
		"network not ready": {observe(nil, nil, nil).with(reporting(report(true, false))),
			checks.False, ReasonHealthy, "; NetworkReady=false: NetworkWords"},
		"network not ready, which matters": {observe(nil, nil, nil).with(reporting(report(true, false))).with(networkMatters),
			checks.True, ReasonNetworkNotReady, "NetworkReady=false: NetworkWords"},
		"network ready, which matters": {observe(nil, nil, nil).with(networkMatters), checks.False, ReasonHealthy, ""},
		"neither is ready, network matters": {observe(nil, nil, nil).with(reporting(report(false, false))).with(networkMatters),
			checks.True, ReasonNotReady, "RuntimeReady=false: RuntimeWords"},
		"no conditions": {observe(nil, nil, nil).with(reporting(&runtimeapi.StatusResponse{})),
			checks.True, ReasonNotReady, "does not report"},
		"no reason": {observe(nil, nil, nil).with(reporting(&runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{
			Conditions: []*runtimeapi.RuntimeCondition{{Type: runtimeapi.RuntimeReady}}}})),
			checks.True, ReasonNotReady, "gives no reason"},

		"a call fails": {observe(nil, refused, nil), checks.True, ReasonRPCFailed,
			"ListPodSandbox failed after 2ms: rpc error: code = Internal desc = as the test wants; Status answered in 1ms, ListContainers answered"},
		"the status fails": {observe(refused, nil, nil), checks.True, ReasonRPCFailed, "Status failed"},
		"a call fails, network not ready, which matters": {observe(nil, refused, nil).with(reporting(report(true, false))).with(networkMatters),
			checks.True, ReasonRPCFailed, ""},
		"not ready, and a call fails": {observe(nil, refused, nil).with(reporting(report(false, true))), checks.True, ReasonNotReady, "RuntimeWords"},

		"one time-out": {observe(nil, late, nil), checks.True, ReasonTimeout,
			"unix:///x.sock: ListPodSandbox timed out after 2ms (deadline 8s); Status answered in 1ms, ListContainers"},
		"three time-outs":            {observe(late, late, late), checks.True, ReasonTimeout, "Status, ListPodSandbox and ListContainers timed out after 1ms (deadline 8s)"},
		"time-out and not ready":     {observe(nil, late, nil).with(reporting(report(false, true))), checks.True, ReasonTimeout, ""},
		"time-out and a failed call": {observe(refused, nil, late), checks.True, ReasonTimeout, "ListContainers timed out"},

		"no CRI":               {observe(unknown, unknown, unknown), checks.Unknown, ReasonInvalidEndpoint, "Status, ListPodSandbox and ListContainers not served"},
		"no CRI, and time-out": {observe(unknown, late, unknown), checks.Unknown, ReasonInvalidEndpoint, "Status and ListContainers"},

		"broken connection": {observe(cut, cut, cut), checks.True, ReasonUnreachable, "as the test wants"},
		"no file":           {observe(cut, cut, cut).with(dialing(fs.ErrNotExist)), checks.True, ReasonSocketMissing, "dial: "},
		"nobody listens":    {observe(cut, cut, cut).with(dialing(syscall.ECONNREFUSED)), checks.True, ReasonConnectionRefused, "dial: "},
		"forbidden":         {observe(cut, cut, cut).with(dialing(syscall.EACCES)), checks.Unknown, ReasonNoAccess, "root"},
		"not a socket":      {observe(cut, cut, cut).with(dialing(syscall.EPROTOTYPE)), checks.True, ReasonUnreachable, "dial: "},
		"gone in between":   {observe(nil, late, cut).with(dialing(fs.ErrNotExist)), checks.True, ReasonSocketMissing, "ListContainers failed"},

		"interrupted": {observe(nil, context.Canceled, cut), checks.Unknown, ReasonInterrupted, "ListPodSandbox interrupted after 2ms"},
	} {
		t.Run(name, func(t *testing.T) {
			got := tc.observation.verdict()
			if got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.mentions) {
				t.Errorf("got %s %s (%s), want %s %s (%s)", got.Status, got.Reason, got.Message, tc.status, tc.reason, tc.mentions)
			}
		})
	}
}
