package runner

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// An off, an on, or a deletion, is sent only by what an object says. The write that takes this back may be
// lost, late, or stored without an answer. What is decided after that may be otherwise: then the late
// one would arrive in the middle of it. So such a write is repeated, as it was, until somebody says
// what became of it. The repeated one changes the object's version, by which the late one is refused.

// mayArrive reports whether a write with this error may have been stored, or may still be. Who is refused for
// another reason than the object, as for too many requests, may have sent it before: clients try again by
// themselves.
func mayArrive(err error) bool {
	return err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err)
}

// lastWords is the API server, to which the end of a claimed action is written by writeLast.
type lastWords struct {
	RemoteAPI
	w *RemoteWorker
}

// UpdateStatus implements API.
func (l lastWords) UpdateStatus(ctx context.Context, action *v1alpha1.NodeAction) error {
	if action.Finished() == nil || action.Status.Claim == nil {
		return l.RemoteAPI.UpdateStatus(ctx, action)
	}
	return l.w.writeLast(ctx, action)
}

// writeLast writes the status of an action by which nothing is switched off or deleted any more.
func (w *RemoteWorker) writeLast(ctx context.Context, action *v1alpha1.NodeAction) error {
	meant := action.DeepCopy()
	err := w.API.UpdateStatus(ctx, action)
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unheard, action.Name)
	if mayArrive(err) {
		w.unheard[action.Name] = meant
	}
	return err
}

// settle repeats what writeLast has written to the action, if nobody has said what became of it. Then
// the action is as it is written now.
func (w *RemoteWorker) settle(ctx context.Context, action *v1alpha1.NodeAction) error {
	w.mu.Lock()
	meant := w.unheard[action.Name]
	w.mu.Unlock()
	if meant == nil || meant.UID != action.UID || meant.ResourceVersion != action.ResourceVersion {
		w.forget(action.Name) // it was stored, or never will be
		return nil
	}
	if f := meant.Finished(); f != nil {
		name := meant.Status.Claim.Remedy
		return w.worker(action, name).conclude(ctx, action, remedy.Outcome{Reason: f.Reason, Message: f.Message, Result: meant.Status.Result}, name)
	}
	written := meant.DeepCopy()
	if err := w.writeLast(ctx, written); err != nil {
		return err
	}
	*action = *written
	return nil
}

// forget drops what is kept of an action.
func (w *RemoteWorker) forget(action string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unheard, action)
}

// writeLast writes the status of a maintenance by which its machine is not asked to shut down, or switched,
// any more.
func (t *machineAtWork) writeLast(ctx context.Context, m *v1alpha1.NodeMaintenance) error {
	meant := m.DeepCopy()
	err := t.API.UpdateMaintenance(ctx, m)
	known := t.tried[m.UID]
	known.unheard = nil
	if mayArrive(err) {
		known.unheard = meant
	}
	t.tried[m.UID] = known
	return err
}

// settle is as for actions.
func (t *machineAtWork) settle(ctx context.Context, m *v1alpha1.NodeMaintenance) error {
	meant := t.tried[m.UID].unheard
	if meant == nil || meant.ResourceVersion != m.ResourceVersion {
		return nil
	}
	written := meant.DeepCopy()
	if err := t.writeLast(ctx, written); err != nil {
		return err
	}
	*m = *written
	t.entered(ctx, m)
	return nil
}
