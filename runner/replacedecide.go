package runner

import (
	"fmt"
	"slices"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/runner/remedy"
)

const (
	// replacePoll is how often a machine is looked at that is on its way out, and its group:
	// nobody watches objects of other programs.
	replacePoll = 10 * time.Second
	// groupPoll is how often the nodes are counted once the machine is gone: all of them are listed.
	groupPoll = 30 * time.Second
	// replaceStart is how long after its claim a machine may be deleted: what was known then is old.
	replaceStart = 5 * time.Minute
	// maxSaid is how many bytes are kept of what was seen.
	maxSaid = 1024
)

// decideReplace says what the remote runner does with an action that has a machine replaced, before
// its claim and until the owner of the machine has begun.
func decideReplace(in input) decision {
	return first(in, notRemote, finished, unkept, unclaimedInTime, refused, notSupported, rebootedSince, budgetPaused, inMaintenance, backInService)
}

// unkept refuses an action that could be deleted while its machine goes: then nothing would keep
// others from the node.
func unkept(in input) *decision {
	if slices.Contains(in.action.Finalizers, v1alpha1.PowerFinalizer) {
		return nil
	}
	return finishWith(v1alpha1.ReasonRefused, "nothing was deleted: NodeAction %s has no finalizer %s, so once it is deleted nothing would tell that a machine is being replaced. "+
		"Has somebody removed it, or is the controller of an earlier version?", in.action.Name, v1alpha1.PowerFinalizer)
}

// unclaimedInTime refuses what is found too late. What was claimed has more time.
func unclaimedInTime(in input) *decision {
	if in.action.Status.Claim == nil {
		return expired(in)
	}
	return nil
}

// backInService refuses to switch or take the machine of a node that somebody has put back since the
// action was created: the controller cordons it before.
func backInService(in input) *decision {
	if in.node.Spec.Unschedulable {
		return nil
	}
	return finishWith(v1alpha1.ReasonRefused, "%snode %s is not cordoned: somebody has put it back in service", in.undone(), in.nodeName)
}

// rebootedSince refuses what is about another boot than that in which the fault was confirmed (I5). The controller may
// have taken down the present boot since it has made the action.
func rebootedSince(in input) *decision {
	if is, was := in.node.Status.NodeInfo.BootID, in.remediation.Status.BootID; is != "" && was != "" && is != was {
		return finishWith(v1alpha1.ReasonRefused, "nothing was deleted: node %s has booted since the fault was last confirmed: its boot ID is %s, and was %s", in.nodeName, is, was)
	}
	if at := in.remediation.Status.BootedAt; at != nil {
		in.booted = at.Time
	}
	return unseen(in)
}

// replaceLook is what is known of a claimed action.
type replaceLook struct {
	action  *v1alpha1.NodeAction
	machine MachineSeen
	// nodeGone: there is no Node with the UID of the action's any more.
	nodeGone bool
	// group is known once machine and Node are gone, and ready how many of its nodes are.
	group MachineGroup
	ready int32
	// stands is what [decideReplace] says, nil if it was not asked: the machine is on its way out.
	stands *decision
	now    time.Time
}

// replaceVerb is what to do next.
type replaceVerb string

const (
	replaceWait     replaceVerb = "Wait"
	replaceWrite    replaceVerb = "Write"    // the progress
	replaceSend     replaceVerb = "Send"     // the deletion, or the mark
	replaceTakeBack replaceVerb = "TakeBack" // the mark
	replaceFinish   replaceVerb = "Finish"   // the action
)

// replaceDecision is what to do next about a claimed action.
type replaceDecision struct {
	verb replaceVerb
	// progress for replaceWrite.
	progress v1alpha1.ReplaceStatus
	// outcome for replaceFinish.
	outcome remedy.Outcome
	// executed: something was, for replaceFinish.
	executed bool
	// wait is after how long to look again.
	wait time.Duration
}

// followReplace decides what comes next for a claimed action. It is pure. One step is taken at a
// time, each of which may be repeated; what it has decided stands in the action before it is done.
func followReplace(l replaceLook) replaceDecision {
	status := l.action.Status.Replace
	on := !l.machine.There || l.machine.Leaving
	progress := *status.DeepCopy()
	progress.Said = l.said()
	if (on || l.machine.Marked) && progress.SentAt == nil {
		at := timeOf(l.now)
		progress.SentAt = &at
	}
	if !on && l.machine.Marked && progress.Withdrawn == "" {
		progress.Withdrawn, progress.Said = l.withdrawn(progress.Said)
	}
	if progress.Said != status.Said || (progress.SentAt == nil) != (status.SentAt == nil) || progress.Withdrawn != status.Withdrawn {
		return replaceDecision{verb: replaceWrite, progress: progress}
	}
	switch {
	case on:
		return l.leaving()
	case status.Withdrawn != "" && l.machine.Marked:
		return replaceDecision{verb: replaceTakeBack}
	case status.Withdrawn != "":
		return l.ends(status.Withdrawn, v1alpha1.Executed(status.Withdrawn), "%s", status.Said)
	case l.machine.Marked:
		return replaceDecision{verb: replaceWait, wait: max(time.Second, min(replacePoll, l.end().Sub(l.now)))}
	case status.SentAt != nil && status.Method == v1alpha1.ReplaceRemediate:
		return l.ends(v1alpha1.ReasonFailed, true, "somebody has taken the mark of %s back: it is not to be replaced any more", status.Machine.String())
	case status.SentAt != nil:
		return l.ends(v1alpha1.ReasonInterrupted, false, "%s was being deleted, and is not any more: was the API server restored from a backup?", status.Machine.String())
	case l.stands != nil && l.stands.verb == finish:
		return replaceDecision{verb: replaceFinish, outcome: l.stands.outcome}
	case l.now.After(l.action.Status.Claim.Time.Add(replaceStart)):
		return l.ends(v1alpha1.ReasonNotStarted, false, "nothing was deleted: runner %s claimed it at %s, and it is not begun later than %s after that",
			l.action.Status.Claim.RunnerID, clockTime(l.action.Status.Claim.Time.Time), replaceStart)
	default:
		return replaceDecision{verb: replaceSend}
	}
}

// leaving is for a machine that is on its way out, or gone: nobody can take that back.
func (l *replaceLook) leaving() replaceDecision {
	status := l.action.Status.Replace
	left := l.end().Sub(l.now)
	switch {
	case l.machine.There:
		return replaceDecision{verb: replaceWait, wait: replacePoll}
	case !l.nodeGone && left > 0:
		return replaceDecision{verb: replaceWait, wait: min(replacePoll, left)}
	case !l.nodeGone:
		return l.ends(v1alpha1.ReasonTimedOut, true, "%s is gone, and %s after the claim Node %s is still there: if its machine is gone, delete it",
			status.Machine.String(), l.action.Spec.Timeout.Duration, l.action.Spec.NodeName)
	case l.group.Gone != "":
		return l.ends(v1alpha1.ReasonNotReplaced, true, "%s and its Node are gone, and nobody makes a new one: %s", status.Machine.String(), l.group.Gone)
	case l.ready >= l.wanted():
		return l.ends(v1alpha1.ReasonReplaced, true, "%s and its Node are gone, and %s has %d Ready nodes", status.Machine.String(), status.Owner.String(), l.ready)
	case left <= 0:
		return l.ends(v1alpha1.ReasonNotReplaced, true, "%s and its Node are gone, and %s after the claim %s has %d Ready nodes, not %d: look why it makes no new one, or why that is not Ready",
			status.Machine.String(), l.action.Spec.Timeout.Duration, status.Owner.String(), l.ready, l.wanted())
	default:
		return replaceDecision{verb: replaceWait, wait: min(groupPoll, left)}
	}
}

// wanted is how many nodes of the group have to be Ready: its owner may want fewer by now.
func (l *replaceLook) wanted() int32 {
	wanted := l.action.Status.Replace.Wanted
	if l.group.Wants >= 0 && l.group.Wants < wanted {
		return l.group.Wants
	}
	return wanted
}

// end is when the time of the step is over.
func (l *replaceLook) end() time.Time {
	return l.action.Status.Claim.Time.Add(l.action.Spec.Timeout.Duration)
}

// said is what is kept of what was seen.
func (l *replaceLook) said() string {
	status := l.action.Status.Replace
	switch {
	case l.machine.There && status.Withdrawn != "":
		return status.Said // why
	case l.machine.There:
		return cut.Head(l.machine.Said, maxSaid)
	case !l.nodeGone:
		return "it is gone, and its Node is still there"
	default:
		return fmt.Sprintf("it is gone, and its Node; %d of %d nodes of %s are Ready", l.ready, l.wanted(), status.Owner.String())
	}
}

// withdrawn says for which reason the mark of a machine is taken back with whose remediation nobody
// has begun, and why; "" if it is not.
func (l *replaceLook) withdrawn(said string) (reason, why string) {
	status := l.action.Status.Replace
	switch {
	case l.stands != nil && l.stands.verb == finish:
		return l.stands.outcome.Reason, cut.Head(l.stands.outcome.Message, maxSaid)
	case !l.now.Before(l.end()):
		return v1alpha1.ReasonTimedOut, cut.Head(fmt.Sprintf("%s was marked for remediation, and %s has not begun with it within %s: the mark is taken back; %s",
			status.Machine.String(), status.Owner.String(), l.action.Spec.Timeout.Duration, l.machine.Said), maxSaid)
	default:
		return "", said
	}
}

func (l *replaceLook) ends(reason string, executed bool, format string, args ...any) replaceDecision {
	return replaceDecision{verb: replaceFinish, executed: executed, outcome: remedy.Outcome{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}
