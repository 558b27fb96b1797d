package remediation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/internal/deadline"
)

// byAction executes by a NodeAction, which a runner claims.
type byAction struct{}

// observe implements executor.
func (byAction) observe(ctx context.Context, o observer, s *situation) error {
	name := s.remediation.Status.Action
	if name == "" {
		return nil
	}
	var action v1alpha1.NodeAction
	if found, err := o.get(ctx, name, &action); err != nil {
		return err
	} else if found {
		s.action = &action
	}
	return nil
}

// start implements executor. The action can be claimed until it expires: never, if it is to
// take its name only.
func (byAction) start(ctx context.Context, r *Reconciler, s situation, d decision) error {
	expiresAt := s.now.Add(deadline.ClaimTime)
	if d.effect == void {
		expiresAt = voidExpiry
	}
	return r.createAction(ctx, s, &d.status, expiresAt)
}

// cancel implements executor.
func (byAction) cancel(ctx context.Context, r *Reconciler, s situation, d decision) error {
	return r.cancelAction(ctx, s.action, d.cancelled)
}

// createAction creates the action that the status names, to be claimed until it
// expires. That it exists already is success: an earlier try got through.
func (r *Reconciler) createAction(ctx context.Context, s situation, status *v1alpha1.RemediationStatus, expiresAt time.Time) error {
	step := s.step(status.Step)
	hash, err := step.Hash()
	if err != nil {
		return err
	}
	action := &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: status.Action},
		Spec: v1alpha1.NodeActionSpec{
			NodeName:       s.remediation.Spec.NodeName,
			NodeUID:        s.remediation.Spec.NodeUID,
			Remediation:    s.remediation.Name,
			RemediationUID: s.remediation.UID,
			Policy:         s.remediation.Spec.Policy,
			StepHash:       hash,
			Step:           status.Step,
			Attempt:        status.Attempt,
			Timeout:        step.Timeout,
			ExpiresAt:      metav1.NewTime(expiresAt),
		},
	}
	if err := r.Client.Create(ctx, action, fieldmanager.Controller); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating action %s: %w", action.Name, err)
	}
	return nil
}

// cancelAction finishes an action that no runner has claimed. A claim that came
// first makes it fail with a conflict: then the action runs.
func (r *Reconciler) cancelAction(ctx context.Context, action *v1alpha1.NodeAction, why outcome) error {
	if action.Status.Claim != nil || action.Finished() != nil {
		return nil
	}
	cancelled := action.DeepCopy()
	meta.SetStatusCondition(&cancelled.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: why.reason, Message: why.message,
		LastTransitionTime: metav1.NewTime(r.Clock.Now()),
	})
	patch := optimistic.Since(action)
	if err := r.Client.Status().Patch(ctx, cancelled, patch, fieldmanager.Controller); err != nil {
		return fmt.Errorf("cancelling action %s: %w", action.Name, err)
	}
	return nil
}

// cancelFormer cancels what a former remediation of the same name has left
// unclaimed, and reports whether there was anything.
func (r *Reconciler) cancelFormer(ctx context.Context, s situation) (cancelled bool, err error) {
	for i := range s.others {
		if a := &s.others[i]; s.former(a) && a.Status.Claim == nil && a.Finished() == nil {
			return true, r.cancelAction(ctx, a, outcome{v1alpha1.ReasonCancelled, "the remediation was deleted"})
		}
	}
	return false, nil
}

// forget deletes the actions that have dropped out of the history: those that
// were not executed and are not among the newest.
func (r *Reconciler) forget(ctx context.Context, before, after *v1alpha1.Remediation) error {
	var errs []error
	for i := range before.Status.History {
		record := &before.Status.History[i]
		if !slices.ContainsFunc(after.Status.History, func(kept v1alpha1.ActionRecord) bool { return kept.Action == record.Action }) {
			action := &v1alpha1.NodeAction{ObjectMeta: metav1.ObjectMeta{Name: record.Action}}
			errs = append(errs, client.IgnoreNotFound(r.Client.Delete(ctx, action)))
		}
	}
	return errors.Join(errs...)
}
