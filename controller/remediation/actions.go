package remediation

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/index"
)

// createAction creates the action that the status names. That it exists
// already is success: an earlier try got through.
func (r *Reconciler) createAction(ctx context.Context, s situation, status *v1alpha1.RemediationStatus) error {
	hash, err := s.step(status).Hash()
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
			ExpiresAt:      metav1.NewTime(s.now.Add(claimTime)),
		},
	}
	if err := r.Client.Create(ctx, action, budget.FieldOwner); err != nil && !apierrors.IsAlreadyExists(err) {
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
	patch := client.MergeFromWithOptions(action, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, cancelled, patch, budget.FieldOwner); err != nil {
		return fmt.Errorf("cancelling action %s: %w", action.Name, err)
	}
	return nil
}

// cleanUp ends what a deleted remediation left behind: actions that nobody has
// claimed are cancelled, finished ones deleted, and the permits are released
// once nothing runs any more. The same name may belong to a new remediation by
// now; what carries another UID is left to that one.
func (r *Reconciler) cleanUp(ctx context.Context, name string) error {
	var remediation v1alpha1.Remediation
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, &remediation)
	if err == nil {
		return nil // the cache is behind; its event comes
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading remediation %s: %w", name, err)
	}
	var actions v1alpha1.NodeActionList
	if err := r.Client.List(ctx, &actions, client.MatchingFields{index.ActionsByRemediation: name}); err != nil {
		return fmt.Errorf("listing the actions of remediation %s: %w", name, err)
	}
	var errs []error
	running := false
	for i := range actions.Items {
		switch action := &actions.Items[i]; {
		case action.Finished() != nil:
			errs = append(errs, client.IgnoreNotFound(r.Client.Delete(ctx, action)))
		case action.Status.Claim != nil:
			running = true
		default:
			running = true
			errs = append(errs, r.cancelAction(ctx, action,
				outcome{v1alpha1.ReasonCancelled, "the remediation was deleted"}))
		}
	}
	if err := errors.Join(errs...); err != nil || running {
		return err
	}
	var budgets v1alpha1.RemediationBudgetList
	if err := r.Client.List(ctx, &budgets); err != nil {
		return fmt.Errorf("listing budgets: %w", err)
	}
	for i := range budgets.Items {
		for node, permit := range budgets.Items[i].Status.Permits {
			if permit.Remediation == name {
				errs = append(errs, budget.Release(ctx, r.Client, budgets.Items[i:i+1], node, name))
			}
		}
	}
	return errors.Join(errs...)
}
