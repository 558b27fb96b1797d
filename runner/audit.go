package runner

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/coreapi"
	"github.com/nodemend/nodemend/internal/standing"
	"github.com/nodemend/nodemend/runner/remedy"
)

// Reasons of the events on the Node.
const (
	eventClaimed  = "RemedyClaimed"
	eventFinished = "RemedyFinished"
)

// auditor leaves a trace of everything that a runner does: a line in its log and an
// event on its Node for each claim and for each result. Events never wait for the
// API server: what comes while it is away for long is in the log only.
type auditor struct {
	node   *corev1.ObjectReference
	events record.EventRecorder
}

// newAuditor returns an auditor that tells events to the recorder.
func newAuditor(nodeName string, events record.EventRecorder) auditor {
	// As its kubelet does, events name the Node by its name as UID: that is where
	// kubectl describe looks for them.
	return auditor{events: events, node: &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Node", Name: nodeName, UID: types.UID(nodeName), Namespace: corev1.NamespaceDefault,
	}}
}

// newRecorder returns what sends events of a component to the API server, and what stops it. It does
// not end with ctx, which carries the logger.
func newRecorder(ctx context.Context, core rest.Interface, component, nodeName string) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster(record.WithContext(context.WithoutCancel(ctx)))
	broadcaster.StartRecordingToSink(coreapi.Events(core))
	return broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component, Host: nodeName}), broadcaster.Shutdown
}

// claimed tells that an order is about to be executed.
func (a auditor) claimed(ctx context.Context, in input, order remedy.Order) {
	spec := &in.action.Spec
	what := clip(describe(order))
	keysAndValues := []any{
		"uid", order.UID, "remediation", spec.Remediation, "policy", spec.Policy.Name, "policyUID", spec.Policy.UID,
		"stepHash", spec.StepHash, "step", spec.Step, "attempt", spec.Attempt,
		"remedy", order.Step.Remedy(), "execution", order.Prepared.Execution, "what", what, "timeout", order.Step.Timeout.String(),
	}
	if c := standing.Matched(in.policy.Spec.Match, in.node); c != nil {
		keysAndValues = append(keysAndValues, "condition", c.Type, "conditionReason", c.Reason)
	}
	logr.FromContextOrDiscard(ctx).Info("Action claimed", keysAndValues...)
	a.events.Event(a.node, corev1.EventTypeNormal, eventClaimed,
		fmt.Sprintf("Action %s of policy %s, step %d, attempt %d: will %s", order.Action, spec.Policy.Name, spec.Step, spec.Attempt, what))
}

// finished tells how an action ended. Nothing of a command's output is told.
func (a auditor) finished(ctx context.Context, action *v1alpha1.NodeAction, name string, o remedy.Outcome) {
	message := clip(o.Message)
	keysAndValues := []any{
		"uid", action.UID, "remediation", action.Spec.Remediation, "policy", action.Spec.Policy.Name,
		"step", action.Spec.Step, "attempt", action.Spec.Attempt, "remedy", name, "reason", o.Reason, "message", message,
	}
	if o.Result != nil {
		keysAndValues = append(keysAndValues, "execution", o.Result.Execution, "took", o.Result.FinishedAt.Sub(o.Result.StartedAt.Time).String())
	}
	logr.FromContextOrDiscard(ctx).Info("Action finished", keysAndValues...)
	kind := corev1.EventTypeWarning
	if o.Reason == v1alpha1.ReasonSucceeded || o.Reason == v1alpha1.ReasonReplaced {
		kind = corev1.EventTypeNormal
	}
	a.events.Event(a.node, kind, eventFinished, fmt.Sprintf("Action %s of policy %s, step %d, attempt %d: %s: %s",
		action.Name, action.Spec.Policy.Name, action.Spec.Step, action.Spec.Attempt, o.Reason, message))
}
