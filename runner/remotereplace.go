package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// Machines are those under nodes, as the programs have them that own them. All is asked anew
// each time.
type Machines interface {
	// Of returns the machine of a node, and who would replace it. The refusal says why it must
	// not be deleted, or that nobody would make a new one; then there is no machine. The request
	// is that by which another program has asked for the remediation, or nil.
	Of(ctx context.Context, node *corev1.Node, request *v1alpha1.Request) (m Machine, refusal string, err error)
	// Send deletes the machine, or marks it in the name of the action, as its method says, and
	// tells its owner if that does not watch marks. It fails with a conflict if the machine has
	// changed since it was read. That it is gone is success.
	Send(ctx context.Context, m Machine, action string) error
	// TakeBack takes the mark of the action away. It fails with a conflict if the machine has
	// changed since it was seen, and so may be on its way out.
	TakeBack(ctx context.Context, of *v1alpha1.ReplaceStatus, seen MachineSeen) error
	// Look returns what has become of a machine that the action is about. now is by the API server's clock, as
	// SentAt is.
	Look(ctx context.Context, of *v1alpha1.ReplaceStatus, action string, now time.Time) (MachineSeen, error)
	// Group returns the nodes that the owner has now.
	Group(ctx context.Context, of *v1alpha1.ReplaceStatus) (MachineGroup, error)
}

// Machine is one that may be replaced.
type Machine struct {
	// Object is the machine, Owner who makes a new one.
	Object, Owner v1alpha1.ExternalObject
	// Method is how it is replaced.
	Method v1alpha1.ReplaceMethod
	// Version is the resourceVersion of the object as it was read.
	Version string
}

// MachineSeen is what has become of a machine.
type MachineSeen struct {
	// There: an object of its UID is.
	There bool
	// Leaving: it is being deleted, or its owner is about to.
	Leaving bool
	// Marked: it has the mark of the action.
	Marked bool
	// Said is what it tells, for people.
	Said string
	// Version is the resourceVersion of the object as it was read.
	Version string
}

// MachineGroup are the nodes of an owner.
type MachineGroup struct {
	// Nodes are the names of those whose machines are not on their way out.
	Nodes []string
	// Wants is how many the owner wants; -1: it does not say.
	Wants int32
	// Gone says that the owner makes no new one any more, and why; "": it does.
	Gone string
}

// replacement is one action at work that has a machine replaced.
type replacement struct {
	*Worker
	w *RemoteWorker
	// action as it was read or written last.
	action *v1alpha1.NodeAction
}

// lookAgain says after how long to look at an action again, of which nothing is to be done before.
type lookAgain time.Duration

func (l lookAgain) Error() string { return "to be looked at again after " + time.Duration(l).String() }

// machineFresh is how long ago the reading of what is known of a machine may have begun when it is
// deleted. That it has not changed since, the deletion asks.
const machineFresh = 10 * time.Second

// replaceStraggle is how long a deletion, or a mark, may still arrive after it was last read that it
// may be sent, or after nobody has said whether it did.
const replaceStraggle = machineFresh + requestTimeout

// work takes the next steps.
func (t *replacement) work(ctx context.Context) error {
	switch {
	case t.action.Status.Claim == nil:
		if err := t.begin(ctx); err != nil || t.action.Finished() != nil {
			return err
		}
	case t.action.Status.Replace == nil: // the API server has dropped it, or somebody has written a claim of their own
		return t.conclude(ctx, t.action, remedy.Outcome{Reason: v1alpha1.ReasonNotStarted,
			Message: "nothing was deleted: the action was claimed, and does not say for which machine: are the CRDs of this version of Nodemend installed?"}, v1alpha1.RemedyReplace)
	case (t.action.Status.Replace.RunnerID != t.w.RunnerID || t.w.takesOver(t.action.UID)) && t.action.Status.Replace.SentAt == nil:
		if err := t.takeOver(ctx); err != nil {
			return err
		}
	}
	for {
		l, err := t.look(ctx)
		if err != nil {
			return err
		}
		switch d := followReplace(l); d.verb {
		case replaceWrite:
			err = t.write(ctx, d.progress)
		case replaceSend:
			if err = t.send(ctx); err == nil && t.action.Finished() == nil {
				err = lookAgain(time.Second)
			}
		case replaceTakeBack:
			err = t.w.Machines.TakeBack(ctx, t.action.Status.Replace, l.machine)
		case replaceFinish:
			if d.executed {
				d.outcome.Result = t.result()
			}
			return t.conclude(ctx, t.action, d.outcome, v1alpha1.RemedyReplace)
		default:
			return lookAgain(d.wait)
		}
		if err != nil || t.action.Finished() != nil {
			return err
		}
	}
}

// takeOver has this process go on with what another one has begun, and has not seen deleted or marked.
// What that has sent may still arrive, so it is waited for before anything is said of the machine.
func (t *replacement) takeOver(ctx context.Context) error {
	status, uid := t.action.Status.Replace, t.action.UID
	if status.RunnerID != t.w.RunnerID {
		logr.FromContextOrDiscard(ctx).Info("Going on with what another remote runner has begun", "runner", status.RunnerID, "machine", status.Machine.String())
		t.w.await(uid, true) // before the write, whose answer may be lost
		progress := *status.DeepCopy()
		progress.RunnerID = t.w.RunnerID
		if err := t.write(ctx, progress); err != nil {
			return err
		}
	}
	if err := t.pause(ctx, replaceStraggle); err != nil {
		return err
	}
	t.w.await(uid, false)
	return nil
}

// begin claims the action for the machine of its node, unless it must not begin.
func (t *replacement) begin(ctx context.Context) error {
	refuse := func(reason, message string) error {
		return t.conclude(ctx, t.action, remedy.Outcome{Reason: reason, Message: "nothing was deleted: " + message}, v1alpha1.RemedyReplace)
	}
	in, err := t.readAll(ctx)
	if err != nil {
		return err
	}
	if d := decideReplace(in); d.verb != execute {
		return t.refuse(ctx, d)
	}
	m, refusal, err := t.w.Machines.Of(ctx, in.node, in.remediation.Spec.Request)
	if err != nil && ctx.Err() == nil {
		return refuse(v1alpha1.ReasonStartFailed, err.Error())
	}
	if err != nil {
		return err
	}
	if refusal != "" {
		return refuse(v1alpha1.ReasonRefused, refusal)
	}
	status := &v1alpha1.ReplaceStatus{RunnerID: t.w.RunnerID, Machine: m.Object, Owner: m.Owner, Method: m.Method}
	if status.Wanted, err = t.ready(ctx, status); err != nil {
		return err
	}
	status.Wanted++
	// What took long was done. What people say is read again.
	if in, err = t.readAll(ctx); err != nil {
		return err
	}
	d := decideReplace(in)
	if d.verb != execute {
		return t.refuse(ctx, d)
	}
	order := newOrder(in, d, t.Clock.Now())
	order.Prepared.Execution, order.Prepared.Note = v1alpha1.ExecutionReplace, fmt.Sprintf("have %s replaced by %s", m.Object.String(), m.Owner.String())
	if t.w.DryRun {
		return t.conclude(ctx, t.action, remedy.Outcome{
			Reason: v1alpha1.ReasonDryRun, Message: "dry run, nothing was deleted; this runner would " + order.Prepared.Note,
		}, v1alpha1.RemedyReplace)
	}
	t.BootID = in.bootID
	t.action.Status.Replace = status
	if err := t.claim(ctx, t.action, order); err != nil {
		return err
	}
	if t.action.Status.Replace == nil {
		return errors.New("the API server drops status.replace of a NodeAction: install the CRDs of this version of Nodemend")
	}
	t.audit.claimed(ctx, in, order)
	return nil
}

// send has the machine deleted, or marked, after all was read again that has to hold.
func (t *replacement) send(ctx context.Context) error {
	refuse := func(reason, message string) error {
		return t.conclude(ctx, t.action, remedy.Outcome{Reason: reason, Message: "nothing was deleted: " + message}, v1alpha1.RemedyReplace)
	}
	if t.w.DryRun {
		return nil // that of another runner
	}
	status := t.action.Status.Replace
	since := t.Clock.Now()
	node, err := t.API.Node(ctx, t.NodeName)
	if err != nil {
		return err
	}
	remediation, err := t.API.Remediation(ctx, t.action.Spec.Remediation)
	if err != nil {
		return err
	}
	if node == nil || node.UID != t.action.Spec.NodeUID || remediation == nil {
		return refuse(v1alpha1.ReasonRefused, fmt.Sprintf("Node %s, or Remediation %s, is gone", t.NodeName, t.action.Spec.Remediation))
	}
	m, refusal, err := t.w.Machines.Of(ctx, node, remediation.Spec.Request)
	switch {
	case err != nil:
		return err
	case refusal != "":
		return refuse(v1alpha1.ReasonRefused, refusal)
	case m.Object != status.Machine || m.Method != status.Method:
		return refuse(v1alpha1.ReasonRefused, fmt.Sprintf("node %s has another machine, or it is to be replaced in another way, than when the action was claimed: %s", t.NodeName, m.Object.String()))
	}
	action, err := t.API.Action(ctx, t.action.Name)
	if err != nil {
		return err
	}
	if action == nil || action.UID != t.action.UID || action.ResourceVersion != t.action.ResourceVersion {
		return fmt.Errorf("NodeAction %s was changed since its machine was looked at", t.action.Name)
	}
	in, err := t.readAll(ctx)
	if err != nil {
		return err
	}
	if d := decideReplace(in); d.verb != execute {
		return t.refuse(ctx, d)
	}
	if took := t.Clock.Now().Sub(since); took < 0 || took > machineFresh {
		return fmt.Errorf("reading what has to hold until %s is deleted took %s, which is too long", m.Object.String(), took.Round(time.Millisecond))
	}
	remedy.Reached(ctx, "before-send")
	if err := t.w.Machines.Send(ctx, m, t.action.Name); err != nil {
		if !apierrors.IsConflict(err) { // it may still arrive
			err = errors.Join(err, t.pause(ctx, replaceStraggle))
		}
		return err
	}
	remedy.Reached(ctx, "after-send")
	logr.FromContextOrDiscard(ctx).Info("Had a machine replaced", "node", t.NodeName, "machine", m.Object.String(), "uid", m.Object.UID, "owner", m.Owner.String(), "method", m.Method)
	return nil
}

// look reads what is known of a claimed action.
func (t *replacement) look(ctx context.Context) (replaceLook, error) {
	status := t.action.Status.Replace
	l := replaceLook{action: t.action, group: MachineGroup{Wants: -1}}
	var err error
	if l.machine, err = t.w.Machines.Look(ctx, status, t.action.Name, t.ServerClock.Now()); err != nil {
		return l, err
	}
	in, err := t.readAll(ctx)
	if err != nil {
		return l, err
	}
	l.nodeGone, l.now = in.node == nil || in.node.UID != t.action.Spec.NodeUID, in.now
	if l.machine.There && !l.machine.Leaving {
		d := decideReplace(in)
		l.stands = &d
		return l, nil
	}
	if l.machine.There || !l.nodeGone {
		return l, nil
	}
	if l.group, err = t.w.Machines.Group(ctx, status); err != nil || l.group.Gone != "" {
		return l, err
	}
	l.ready, err = t.w.API.Ready(ctx, l.group.Nodes, t.action.Spec.NodeUID)
	return l, err
}

// ready counts the nodes of the group, but this one, that are Ready.
func (t *replacement) ready(ctx context.Context, of *v1alpha1.ReplaceStatus) (int32, error) {
	group, err := t.w.Machines.Group(ctx, of)
	if err != nil {
		return 0, err
	}
	return t.w.API.Ready(ctx, group.Nodes, t.action.Spec.NodeUID)
}

// readAll reads all that a decision depends on but the machine.
func (t *replacement) readAll(ctx context.Context) (input, error) {
	holds, err := t.w.API.Holds(ctx, t.NodeName)
	if err != nil {
		return input{}, err
	}
	in, err := t.read(ctx, t.action)
	in.remote, in.holds = true, holds
	if in.node != nil {
		in.bootID = in.node.Status.NodeInfo.BootID
	}
	return in, err
}

func (t *replacement) refuse(ctx context.Context, d decision) error {
	if d.verb == leave {
		return nil
	}
	return t.conclude(ctx, t.action, d.outcome, v1alpha1.RemedyReplace)
}

// write writes the progress into the action, unless anybody has written it since it was read.
func (t *replacement) write(ctx context.Context, progress v1alpha1.ReplaceStatus) error {
	written := t.action.DeepCopy()
	written.Status.Replace = &progress
	if err := t.API.UpdateStatus(ctx, written); err != nil {
		return fmt.Errorf("writing the status of NodeAction %s: %w", t.action.Name, err)
	}
	t.action = written
	return nil
}

// result is that of an action that was executed.
func (t *replacement) result() *v1alpha1.ActionResult {
	return &v1alpha1.ActionResult{
		Execution: v1alpha1.ExecutionReplace,
		StartedAt: v1alpha1.NewMicroTime(t.action.Status.Claim.Time.Time), FinishedAt: v1alpha1.NewMicroTime(t.ServerClock.Now()),
	}
}

func timeOf(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
