// Package attempt carries out the attempts of steps, whoever does the work, as cert-manager's
// solvers do. An attempt has its name, which stands in the status of its remediation, before it
// is started: so that each call may be repeated after a stop at any point.
package attempt

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
)

// Attempt is one that was started, as the object of its executor tells.
type Attempt struct {
	// Name of the object.
	Name string
	// Remediation that it is of: its name and UID.
	Remediation    string
	RemediationUID types.UID
	// Step and Number say which attempt of which step it is, both from 1.
	Step, Number int32
	// Created is when the API server has created the object.
	Created time.Time
	// Void: it only takes its name, so that no create of it that is on its way gets through.
	// Nobody may begin it.
	Void bool
	// Begun tells that its work has begun, or may have; nil: it can be cancelled.
	Begun *Begun
	// End tells how it has ended; nil: nobody has said so.
	End *End
	// Output is the end of what its work printed.
	Output string
	// BeginBy is until when somebody may say that its work begins. Over is when it is over at
	// the latest, what is said about its end included.
	BeginBy, Over time.Time
	// Recallable: its work has begun, and who does it can be told to stop, and was not yet.
	Recallable bool
	// Stopped is since when who does it is to stop, the zero time if they are not.
	Stopped time.Time
	// Due is until when people need not be told that it is under way, where only its object tells
	// when it is over; the zero time: they are told of what is Stopped.
	Due time.Time
	// Succeeded: who does it says so, which is no proof. Only another program does.
	Succeeded bool
	// Progress tells people how far it is, "" if its object does not.
	Progress string

	// Object that tells all this. It must not be changed.
	Object client.Object
	// by is who carries it out.
	by Executor
}

// Begun is that work has begun.
type Begun struct {
	// At is when, by the clock of who does it.
	At time.Time
	// BootID is the node's boot that it began in, "" if who does it is not on the node.
	BootID string
}

// End is how an attempt has ended.
type End struct {
	// Reason is one of those of the Finished condition of a NodeAction.
	Reason string
	// Message for people.
	Message string
	// At is when, by the clock of who said so.
	At time.Time
}

// Recall is why who does the work is to stop.
type Recall struct {
	// Clear: the node is, so there is nothing to do any more.
	Clear bool
	// Message for people.
	Message string
	// At is the time now.
	At time.Time
}

// Endless reports whether only its object tells when it is over, however long that takes.
func (a *Attempt) Endless() bool { return a.Over.Equal(deadline.Never) }

// Cancellable reports whether nobody has begun it, and it has not ended.
func (a *Attempt) Cancellable() bool { return a.Begun == nil && a.End == nil }

// MayRun reports whether its work may be running, until it is Over: it was begun, and has not
// ended, or nobody knows whether it has.
func (a *Attempt) MayRun() bool {
	return a.Begun != nil && (a.End == nil || v1alpha1.MayHaveExecuted(a.End.Reason) && !v1alpha1.Executed(a.End.Reason))
}

// RunsUntil returns until when its work may be running although nobody says so: the zero time
// if it is not.
func (a *Attempt) RunsUntil() time.Time {
	if !a.MayRun() {
		return time.Time{}
	}
	return a.Over
}

// Cancel sees that it never begins, unless it has begun or ended. It fails with a conflict if
// that was since it was read.
func (a *Attempt) Cancel(ctx context.Context, c client.Client, end End) error {
	if !a.Cancellable() {
		return nil
	}
	return a.by.Cancel(ctx, c, a.Object, end)
}

// Recall tells who does its work to stop, if they can be told. It fails with a conflict if the
// object has changed since it was read.
func (a *Attempt) Recall(ctx context.Context, c client.Client, why Recall) error {
	if !a.Recallable {
		return nil
	}
	return a.by.Recall(ctx, c, a.Object, why)
}

// Delete deletes its object. That there is none is success.
func (a *Attempt) Delete(ctx context.Context, c client.Client) error {
	return Delete(ctx, c, a.by, a.Name)
}

// Order is what an attempt is started by.
type Order struct {
	// Name that the attempt gets.
	Name string
	// Remediation that it is of.
	Remediation *v1alpha1.Remediation
	// Step and Number say which attempt of which step it is.
	Step, Number int32
	// At is the time now.
	At time.Time
	// Void has it take its name only.
	Void bool
}
