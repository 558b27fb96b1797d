package external

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
)

const (
	// poll is how often an object is looked at. Nobody watches kinds of other programs.
	poll = 10 * time.Second
	// createTime is how long the one create may take, createWindow until when an object that it
	// has made may still be seen for the first time.
	createTime   = 10 * time.Second
	createWindow = 2 * time.Minute
	// stopGrace is how long a remediator may take to stop before its object is deleted.
	stopGrace = time.Minute
	// backFor is how long a Node that has come back under the name is there and Ready before the
	// remediator has done its work on it.
	backFor = 2 * time.Minute
	// unservedFor is how long after the time of the remediator its kind may not be served before there
	// is taken to be no object: its operator was removed.
	unservedFor = 5 * time.Minute
	// maxSaid is how many bytes are kept of what a status tells.
	maxSaid = 1024
)

// look is what is known of a claimed action.
type look struct {
	action *v1alpha1.NodeAction
	// object under the name of its object, nil if there is none.
	object *unstructured.Unstructured
	// nodeGone: there is no Node with the UID of the action's any more. back: there is another one of
	// its name, which is well by now.
	nodeGone, back bool
	now            time.Time
}

// verb is what to do next.
type verb string

const (
	wait   verb = "Wait"
	write  verb = "Write"  // the progress
	expire verb = "Expire" // the object: it is told that its time is over
	remove verb = "Remove" // the object
	finish verb = "Finish" // the action
)

// outcome is how an action ends.
type outcome struct{ reason, message string }

func ends(reason, format string, args ...any) *outcome {
	return &outcome{reason, fmt.Sprintf(format, args...)}
}

// decision is what to do next about a claimed action.
type decision struct {
	verb verb
	// progress for write.
	progress v1alpha1.ExternalStatus
	// end for finish.
	end outcome
	// wait is after how long to look again.
	wait time.Duration
}

// follow decides what comes next for a claimed action. It is pure. One step is taken at a time, each
// of which may be repeated; what it has decided stands in the action before it is done.
func follow(l look) decision {
	external := l.action.Status.External
	if l.object == nil || !ours(l.object, l.action) {
		return l.missing()
	}
	said := tell(l.object)
	progress := *external.DeepCopy()
	progress.Object.UID = l.object.GetUID()
	progress.Succeeded = said.succeeded
	next := decision{verb: wait, wait: max(time.Second, min(poll, l.end().Sub(l.now)))}
	if external.Stop != nil {
		next = l.wind(said)
	}
	if next.verb != expire && next.verb != remove { // else it says why that is refused, if it is
		progress.Said = l.said(said)
	}
	if progress.Stop == nil {
		progress.Stop = l.stop(said)
	}
	if !same(&progress, external) {
		return decision{verb: write, progress: progress}
	}
	return next
}

// missing is for an object that is not there. It is never created anew: whoever has deleted it may
// have done so because it had done its work, or was not to do it.
func (l *look) missing() decision {
	external := l.action.Status.External
	if external.Object.UID != "" {
		if stop := external.Stop; stop != nil {
			return decision{verb: finish, end: outcome{stop.Reason, stop.Message}}
		}
		return decision{verb: finish, end: outcome{v1alpha1.ReasonFailed, fmt.Sprintf(
			"somebody has deleted %s while it was under way: it had told %s", external.Object.String(), external.Said)}}
	}
	if left := l.action.Status.Claim.Time.Add(createWindow).Sub(l.now); left > 0 {
		return decision{verb: wait, wait: min(poll, left)}
	}
	return decision{verb: finish, end: outcome{v1alpha1.ReasonInterrupted, fmt.Sprintf(
		"%s was to be created at %s, and nobody knows whether it was: there is none", external.Object.String(), l.action.Status.Claim.Time.UTC().Format(time.RFC3339))}}
}

// end is when the time of the remediator is over.
func (l *look) end() time.Time { return l.action.Status.Claim.Time.Add(l.action.Spec.Timeout.Duration) }

// said is what is kept of what the object tells.
func (l *look) said(said told) string {
	text := said.text
	if at := l.object.GetDeletionTimestamp(); at != nil {
		text = fmt.Sprintf("it is being deleted since %s, and waits for its finalizers (%s); %s",
			at.UTC().Format(time.RFC3339), strings.Join(l.object.GetFinalizers(), ", "), text)
	}
	return cut.Head(text, maxSaid)
}

// stop says why the object is to go, nil if it is not.
func (l *look) stop(said told) *v1alpha1.ExternalStop {
	stop := func(reason, message string) *v1alpha1.ExternalStop {
		return &v1alpha1.ExternalStop{Reason: reason, Message: cut.Head(message, maxSaid), Time: metav1.NewTime(l.now.Truncate(time.Second))}
	}
	name := l.action.Status.External.Object.String()
	switch {
	case l.object.GetDeletionTimestamp() != nil:
		return stop(v1alpha1.ReasonFailed, fmt.Sprintf("somebody has deleted %s while it was under way: %s", name, said.text))
	case l.action.DeletionTimestamp != nil:
		return stop(v1alpha1.ReasonFailed, fmt.Sprintf("NodeAction %s was deleted while %s was under way: %s", l.action.Name, name, said.text))
	case said.failed:
		return stop(v1alpha1.ReasonFailed, fmt.Sprintf("%s has failed: %s", name, said.text))
	case l.now.Before(l.end()):
		return nil
	case said.succeeded:
		return stop(v1alpha1.ReasonSucceeded, fmt.Sprintf("%s says that it has succeeded, and the node was not clear within %s: %s", name, l.action.Spec.Timeout.Duration, said.text))
	default:
		return stop(v1alpha1.ReasonTimedOut, fmt.Sprintf("%s has not made the node well within %s: %s", name, l.action.Spec.Timeout.Duration, said.text))
	}
}

// grace is how long the remediator may still take to stop.
func (l *look) grace() time.Duration {
	return l.action.Status.External.Stop.Time.Add(stopGrace).Sub(l.now)
}

// wind ends the remediator's work: it is told that its time is over, unless the node is clear, and
// gets some time to stop. Then its object is deleted, and its finalizer waited for.
//
// That the Node goes may be a part of its work: Metal3Remediation deletes it while the machine is off,
// and it comes back. So that stops nobody who is at work and has time left.
func (l *look) wind(said told) decision {
	stop := l.action.Status.External.Stop
	_, told := l.object.GetAnnotations()[timedOutAnnotation]
	grace, left := l.grace(), l.end().Sub(l.now)
	deleted, atWork := l.object.GetDeletionTimestamp() != nil, said.goes || said.processing && !stop.Clear && !l.back
	switch {
	case deleted && l.nodeGone && said.idle && grace <= 0: // FenceAgentsRemediation keeps it for ever
		return decision{verb: finish, end: outcome{stop.Reason, fmt.Sprintf(
			"%s; the Node is gone, and %s, which says that it does nothing, is left with its finalizers (%s)",
			stop.Message, l.action.Status.External.Object.String(), strings.Join(l.object.GetFinalizers(), ", "))}}
	case deleted:
		return decision{verb: wait, wait: poll}
	case l.nodeGone && atWork && !said.succeeded && !said.failed && left > 0:
		return decision{verb: wait, wait: min(poll, left)}
	case stop.Clear || l.back:
		return decision{verb: remove}
	case !told:
		return decision{verb: expire}
	case said.processing && grace > 0:
		return decision{verb: wait, wait: min(poll, grace)}
	default:
		return decision{verb: remove}
	}
}

// same compares what is kept.
func same(a, b *v1alpha1.ExternalStatus) bool {
	return a.Object == b.Object && a.Said == b.Said && a.Succeeded == b.Succeeded && (a.Stop == nil) == (b.Stop == nil)
}
