package containerruntime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodemend/nodemend/checks"
)

// observation is all that a verdict is made of.
type observation struct {
	answers
	endpoint       string
	timeout        time.Duration // of each call
	dialErr        error         // of the last attempt to connect
	networkMatters bool          // Options.NetworkNotReady
}

// verdict judges a run by the most telling of what it has seen: whether anybody
// listens there, whether that is a runtime, whether it answers in time, and only
// then what it answers.
func (o observation) verdict() checks.Result {
	runtime, network := o.condition(runtimeapi.RuntimeReady), o.condition(runtimeapi.NetworkReady)
	if calls := o.failed(isError(context.Canceled)); calls != nil {
		return checks.CannotTell(ReasonInterrupted, fmt.Sprintf("%s: %s interrupted after %s", o.endpoint, names(calls), calls[0].took))
	}
	if calls := o.failed(isCode(codes.Unavailable)); calls != nil {
		return o.unreachable(calls)
	}
	if calls := o.failed(isCode(codes.Unimplemented)); calls != nil {
		return checks.CannotTell(ReasonInvalidEndpoint, fmt.Sprintf("%s: %s not served there: %v; set the endpoint to that of the kubelet, or enable the runtime's CRI plugin",
			o.endpoint, names(calls), calls[0].err))
	}
	if calls := o.failed(isError(context.DeadlineExceeded)); calls != nil {
		return checks.Problem(ReasonTimeout, fmt.Sprintf("%s: %s timed out after %s (deadline %s)%s",
			o.endpoint, names(calls), calls[0].took, o.timeout, o.otherwise()))
	}
	if o.status != nil && !runtime.GetStatus() {
		return checks.Problem(ReasonNotReady, fmt.Sprintf("%s: Status reports RuntimeReady=false: %s", o.endpoint, explain(runtime)))
	}
	if calls := o.failed(func(error) bool { return true }); calls != nil {
		return checks.Problem(ReasonRPCFailed, fmt.Sprintf("%s: %s failed after %s: %v%s", o.endpoint, names(calls), calls[0].took, calls[0].err, o.otherwise()))
	}
	if o.networkMatters && !network.GetStatus() {
		return checks.Problem(ReasonNetworkNotReady, fmt.Sprintf("%s: Status reports NetworkReady=false: %s", o.endpoint, explain(network)))
	}
	message := fmt.Sprintf("%s: %s (deadline %s each)", o.endpoint, o.answered(), o.timeout)
	if !network.GetStatus() {
		message += "; NetworkReady=false: " + explain(network)
	}
	return checks.Healthy(ReasonHealthy, message)
}

func (o observation) unreachable(calls []outcome) checks.Result {
	err := o.dialErr
	if err == nil {
		err = calls[0].err // the connection was made, and broke
	}
	message := fmt.Sprintf("%s: %s failed after %s (deadline %s): %v", o.endpoint, names(calls), calls[0].took, o.timeout, err)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return checks.CannotTell(ReasonNoAccess, message+"; run the detector as root")
	case errors.Is(err, fs.ErrNotExist):
		return checks.Problem(ReasonSocketMissing, message)
	case errors.Is(err, syscall.ECONNREFUSED):
		return checks.Problem(ReasonConnectionRefused, message)
	default:
		return checks.Problem(ReasonUnreachable, message)
	}
}

// failed returns the calls with an error that is of some kind; nil if there are
// none.
func (a answers) failed(is func(error) bool) (calls []outcome) {
	for _, call := range a.calls {
		if call.err != nil && is(call.err) {
			calls = append(calls, call)
		}
	}
	return calls
}

func isCode(code codes.Code) func(error) bool {
	return func(err error) bool { return grpcstatus.Code(err) == code }
}

func isError(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// answered tells of the calls that were; "" if none was.
func (a answers) answered() string {
	items := map[string]string{
		"ListPodSandbox": fmt.Sprintf(" with %d sandboxes", a.sandboxes),
		"ListContainers": fmt.Sprintf(" with %d containers", a.containers),
	}
	var parts []string
	for _, call := range a.calls {
		if call.err == nil {
			parts = append(parts, fmt.Sprintf("%s answered%s in %s", call.method, items[call.method], call.took))
		}
	}
	return strings.Join(parts, ", ")
}

// otherwise is answered, to be appended to what has failed.
func (a answers) otherwise() string {
	if answered := a.answered(); answered != "" {
		return "; " + answered
	}
	return ""
}

func (a answers) condition(conditionType string) *runtimeapi.RuntimeCondition {
	for _, c := range a.status.GetStatus().GetConditions() {
		if c.GetType() == conditionType {
			return c
		}
	}
	return nil
}

func explain(c *runtimeapi.RuntimeCondition) string {
	switch {
	case c == nil:
		return "the runtime does not report this condition"
	case c.GetReason() == "" && c.GetMessage() == "":
		return "the runtime gives no reason"
	default:
		return strings.TrimSpace(c.GetReason() + " " + c.GetMessage())
	}
}

// names lists methods as words of a sentence.
func names(calls []outcome) string {
	text := calls[0].method
	for i, call := range calls[1:] {
		separator := ", "
		if i == len(calls)-2 {
			separator = " and "
		}
		text += separator + call.method
	}
	return text
}
