package remediation

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/gates"
)

// Reasons of the events on the Remediation and on the Node. That an action was
// started and finished is told on the Remediation only; on the Node its runner
// tells it.
const (
	eventStarted   = "RemediationStarted"
	eventRetried   = "RemediationRetried"
	eventBlocked   = "RemediationBlocked"
	eventExhausted = "RemediationExhausted"
	eventRecovered = "RemediationRecovered"
	eventEnded     = "RemediationEnded"
	eventAction    = "ActionStarted"
	eventResult    = "ActionFinished"
)

// note is one event.
type note struct {
	kind, reason, message string
	// about tells events of one reason apart, which would be counted as one.
	about string
	// action that it is about, and its kind; "" if it is about the remediation: then it
	// is told on the Node as well.
	action string
	object schema.GroupVersionKind
}

// notes returns the events that a change of the status is worth. An attempt that is
// repeated since it was not executed is none, as long as it ends in the same way.
func notes(before, after *v1alpha1.Remediation) []note {
	var all []note
	add := func(kind, reason, about, message string) {
		all = append(all, note{kind: kind, reason: reason, about: about, message: message})
	}
	old, status, trigger := &before.Status, &after.Status, &after.Spec.Trigger
	if old.Step == 0 {
		why := fmt.Sprintf("%s is %s since %s: %s", trigger.Type, trigger.Status, clockTime(trigger.Since().Time), trigger.Message)
		if after.Spec.Request != nil {
			why = trigger.Message
		}
		add(corev1.EventTypeNormal, eventStarted, "Start", fmt.Sprintf("policy %s: %s", after.Spec.Policy.Name, why))
	}
	if status.Retried != old.Retried {
		add(corev1.EventTypeNormal, eventRetried, "Retry", fmt.Sprintf("%s starts over with step 1 (%s=%s)", retriedBy(status), v1alpha1.RetryAnnotation, status.Retried))
	}
	if record := newRecord(before, after); record != nil && repeats(status) == "" {
		all = append(all, resultNote(record, after.Step(record.Step)))
	}
	if name := status.Action; name != "" && name != old.Action && !tried(status) {
		all = append(all, note{
			kind: corev1.EventTypeNormal, reason: eventAction, about: "Act", action: name, object: objectOf(after.Step(status.Step)),
			message: fmt.Sprintf("step %d, attempt %d", status.Step, status.Attempt),
		})
	}
	if by := after.BlockedBy(); by != "" && by != before.BlockedBy() && by != repeats(status) {
		add(corev1.EventTypeWarning, eventBlocked, by, by+": "+message(after, v1alpha1.RemediationBlocked))
	}
	if state := after.State(); state != before.State() {
		switch text := message(after, v1alpha1.RemediationProgressing); state {
		case v1alpha1.ReasonExhausted:
			add(corev1.EventTypeWarning, eventExhausted, state, text)
		case v1alpha1.ReasonRecovered, v1alpha1.ReasonRecoveredByItself:
			add(corev1.EventTypeNormal, eventRecovered, state, text)
		case v1alpha1.ReasonNotReplaced:
			add(corev1.EventTypeWarning, eventEnded, state, text)
		case v1alpha1.ReasonStopped, v1alpha1.ReasonNodeGone, v1alpha1.ReasonReplaced, v1alpha1.ReasonReleased, v1alpha1.ReasonDeleted, v1alpha1.ReasonDuplicate:
			add(corev1.EventTypeNormal, eventEnded, state, text)
		}
	}
	return all
}

// retriedBy names who has started over last.
func retriedBy(status *v1alpha1.RemediationStatus) string {
	if last := status.LastDecision(v1alpha1.DecisionRetried); last != nil && last.By != "" {
		return last.By
	}
	return "a person"
}

// resultNote tells how an action ended.
func resultNote(record *v1alpha1.ActionRecord, step *v1alpha1.Step) note {
	kind := corev1.EventTypeWarning
	if record.Outcome == v1alpha1.ReasonSucceeded || record.Outcome == v1alpha1.ReasonReplaced {
		kind = corev1.EventTypeNormal
	}
	return note{
		kind: kind, reason: eventResult, about: record.Outcome, action: record.Action, object: objectOf(step),
		message: fmt.Sprintf("step %d, attempt %d (%s): %s: %s", record.Step, record.Attempt, record.Remedy, record.Outcome, record.Message),
	}
}

// objectOf returns the kind of what carries out the attempts of a step.
func objectOf(step *v1alpha1.Step) schema.GroupVersionKind {
	if step != nil && step.Kind().Executor == v1alpha1.ExecutorMaintenance {
		return v1alpha1.GroupVersion.WithKind("NodeMaintenance")
	}
	return attempt.By(step).Kind()
}

// tried reports whether the attempt that is next was tried before and not executed.
func tried(status *v1alpha1.RemediationStatus) bool {
	last := lastRecord(status)
	return last != nil && !last.Executed && !last.Former && last.Step == status.Step && last.Attempt == status.Attempt
}

// repeats returns the reason that blocks a remediation whose last attempt was not
// executed, and ended as it had the time before; "" if it did not.
func repeats(status *v1alpha1.RemediationStatus) string {
	if !tried(status) || len(status.History) < 2 {
		return ""
	}
	last, former := lastRecord(status), &status.History[len(status.History)-2]
	if former.Outcome != last.Outcome || former.Former || former.Step != last.Step || former.Attempt != last.Attempt {
		return ""
	}
	if last.Outcome == v1alpha1.ReasonExpired {
		return gates.ReasonRunnerAway
	}
	return last.Outcome
}

// send tells the note on the remediation and, unless it is about an action, on its
// node. Events never hold a decision up: what the API server does not take in time
// is lost.
func (n note) send(recorder events.EventRecorder, r *v1alpha1.Remediation) {
	about := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Remediation", Name: r.Name, UID: r.UID}
	// It has its place in the node's events, which name the node by its name as UID.
	node := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: r.Spec.NodeName, UID: types.UID(r.Spec.NodeName)}
	related := node
	if n.action != "" {
		apiVersion, kind := n.object.ToAPIVersionAndKind()
		related = &corev1.ObjectReference{APIVersion: apiVersion, Kind: kind, Name: n.action}
	}
	text := head(n.message)
	recorder.Eventf(about, related, n.kind, n.reason, n.about, "%s", text)
	if n.action == "" {
		recorder.Eventf(node, about, n.kind, n.reason, n.about, "%s", head(r.Name+": "+text))
	}
}
