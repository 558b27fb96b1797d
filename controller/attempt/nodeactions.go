package attempt

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/internal/deadline"
)

// nodeActions has a runner carry out attempts, which claims a NodeAction before it begins: that of
// the node or the remote one, as the action says. For another program package external does.
type nodeActions struct {
	// executor is for whom those are that are started; "": the node's runner.
	executor v1alpha1.Executor
}

// voidExpiry is when an action expires that no runner may claim.
var voidExpiry = time.Unix(1, 0)

// Who implements Executor.
func (by nodeActions) Who() string {
	switch by.executor {
	case v1alpha1.ExecutorRemote:
		return "the remote runner"
	case v1alpha1.ExecutorExternal:
		return "another program"
	default:
		return "the node's runner"
	}
}

// Kind implements Executor.
func (nodeActions) Kind() schema.GroupVersionKind {
	return v1alpha1.GroupVersion.WithKind("NodeAction")
}

// Object implements Executor.
func (nodeActions) Object() client.Object { return &v1alpha1.NodeAction{} }

// Tell implements Executor.
func (nodeActions) Tell(object client.Object) Attempt {
	action := object.(*v1alpha1.NodeAction)
	a := Attempt{
		Name:        action.Name,
		Remediation: action.Spec.Remediation, RemediationUID: action.Spec.RemediationUID,
		Step: action.Spec.Step, Number: action.Spec.Attempt,
		Created: action.CreationTimestamp.Time,
		Void:    !action.Spec.ExpiresAt.After(voidExpiry),
		BeginBy: deadline.Claimable(action), Over: deadline.Over(action),
		Object: action, by: nodeActions{executor: action.Spec.Executor},
	}
	if claim := action.Status.Claim; claim != nil {
		a.Begun = &Begun{At: claim.Time.Time, BootID: claim.BootID}
	}
	if f := action.Finished(); f != nil {
		a.End = &End{Reason: f.Reason, Message: f.Message, At: f.LastTransitionTime.Time}
	}
	if result := action.Status.Result; result != nil {
		a.Output = result.Output
	}
	if external := action.Status.External; external != nil {
		a.Succeeded = external.Succeeded
		a.Recallable = a.Begun != nil && a.End == nil && external.Stop == nil
		if external.Stop != nil && a.End == nil {
			a.Stopped = external.Stop.Time.Time
		}
		a.Progress = external.Object.String()
		if external.Said != "" {
			a.Progress += ": " + external.Said
		}
	}
	if replace := action.Status.Replace; replace != nil && a.Endless() {
		a.Due = a.Begun.At.Add(action.Spec.Timeout.Duration)
		a.Progress = replace.Machine.String() + " of " + replace.Owner.String()
		if replace.Said != "" {
			a.Progress += ": " + replace.Said
		}
	}
	return a
}

// OnNode implements Executor.
func (by nodeActions) OnNode(ctx context.Context, cache client.Reader, node string) ([]Attempt, error) {
	return by.list(ctx, cache, client.MatchingFields{index.ActionsByNode: node}, client.UnsafeDisableDeepCopy)
}

// OfRemediation implements Executor.
func (by nodeActions) OfRemediation(ctx context.Context, live client.Reader, name string) ([]Attempt, error) {
	return by.list(ctx, live, client.MatchingFields{index.ActionsByRemediation: name})
}

func (by nodeActions) list(ctx context.Context, from client.Reader, opts ...client.ListOption) (all []Attempt, err error) {
	var actions v1alpha1.NodeActionList
	if err := from.List(ctx, &actions, opts...); err != nil {
		return nil, fmt.Errorf("listing actions: %w", err)
	}
	for i := range actions.Items {
		all = append(all, by.Tell(&actions.Items[i]))
	}
	return all, nil
}

// Start implements Executor. The action can be claimed until it expires: never, if it is void.
func (by nodeActions) Start(ctx context.Context, c client.Client, o Order) error {
	step := o.Remediation.Step(o.Step)
	hash, err := step.Hash()
	if err != nil {
		return err
	}
	expiresAt := o.At.Add(deadline.ClaimTime)
	if o.Void {
		expiresAt = voidExpiry
	}
	spec := &o.Remediation.Spec
	err = c.Create(ctx, &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Finalizers: by.finalizers()},
		Spec: v1alpha1.NodeActionSpec{
			NodeName:       spec.NodeName,
			NodeUID:        spec.NodeUID,
			Executor:       by.executor,
			Remediation:    o.Remediation.Name,
			RemediationUID: o.Remediation.UID,
			Policy:         spec.Policy,
			StepHash:       hash,
			Step:           o.Step,
			Attempt:        o.Number,
			Timeout:        step.Timeout,
			ExpiresAt:      metav1.NewTime(expiresAt),
		},
	}, fieldmanager.Controller)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating action %s: %w", o.Name, err)
	}
	return nil
}

// finalizers keep an action by which a machine may be off, or another program at work: it is all that
// tells of that.
func (by nodeActions) finalizers() []string {
	switch by.executor {
	case v1alpha1.ExecutorRemote:
		return []string{v1alpha1.PowerFinalizer}
	case v1alpha1.ExecutorExternal:
		return []string{v1alpha1.ExternalFinalizer}
	default:
		return nil
	}
}

// Cancel implements Executor. It says that the action has finished, unless a runner has claimed
// it: then it runs.
func (nodeActions) Cancel(ctx context.Context, c client.Client, object client.Object, end End) error {
	action := object.(*v1alpha1.NodeAction)
	cancelled := action.DeepCopy()
	meta.SetStatusCondition(&cancelled.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: end.Reason, Message: end.Message,
		LastTransitionTime: metav1.NewTime(end.At),
	})
	if err := c.Status().Patch(ctx, cancelled, optimistic.Since(action), fieldmanager.Controller); err != nil {
		return fmt.Errorf("cancelling action %s: %w", action.Name, err)
	}
	return nil
}

// Recall implements Executor: it writes down that the other program's object is to go. A runner
// can't be told.
func (nodeActions) Recall(ctx context.Context, c client.Client, object client.Object, why Recall) error {
	action := object.(*v1alpha1.NodeAction)
	recalled := action.DeepCopy()
	reason := v1alpha1.ReasonFailed
	if why.Clear {
		reason = v1alpha1.ReasonSucceeded
	}
	recalled.Status.External.Stop = &v1alpha1.ExternalStop{
		Reason: reason, Message: cut.Head(why.Message, MaxText), Time: metav1.NewTime(why.At), Clear: why.Clear,
	}
	if err := c.Status().Patch(ctx, recalled, optimistic.Since(action), fieldmanager.Controller); err != nil {
		return fmt.Errorf("recalling action %s: %w", action.Name, err)
	}
	return nil
}
