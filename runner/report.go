package runner

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const (
	// shutdownTimeout is how long a runner that stops tries to report.
	shutdownTimeout = 5 * time.Second
	// shutdownRetry is the pause between its tries.
	shutdownRetry = 200 * time.Millisecond
)

// report writes the outcome of an attempt, unless the action, which has just
// been read or written, already has one: then an earlier write of ours had
// been committed although its answer was lost.
func (r *reconciler) report(ctx context.Context, action *v1alpha1.NodeAction, at *attempt) error {
	if c := action.Finished(); c != nil {
		if c.Reason != at.unreported.reason {
			log.FromContext(ctx).Info("Action was finished by somebody else",
				"reason", c.Reason, "ownReason", at.unreported.reason, "ownMessage", at.unreported.message)
		}
		r.metrics.observe(at.remedy, *at.unreported)
		at.unreported = nil
		return nil
	}
	if err := r.conclude(ctx, action, *at.unreported, at.remedy); err != nil {
		return err
	}
	at.unreported = nil
	return nil
}

// conclude finishes the action.
func (r *reconciler) conclude(ctx context.Context, action *v1alpha1.NodeAction, o outcome, remedy string) error {
	message := clip(o.message)
	action.Status.Result = o.result
	meta.SetStatusCondition(&action.Status.Conditions, metav1.Condition{
		Type:               v1alpha1.ActionFinished,
		Status:             metav1.ConditionTrue,
		ObservedGeneration: action.Generation,
		LastTransitionTime: metav1.NewTime(r.clock.Now()),
		Reason:             o.reason,
		Message:            message,
	})
	if err := r.api.updateStatus(ctx, action); err != nil {
		return fmt.Errorf("finishing NodeAction %s as %s: %w", action.Name, o.reason, err)
	}
	log.FromContext(ctx).Info("Action finished", "reason", o.reason, "message", message)
	r.metrics.observe(remedy, o)
	return nil
}

// Start implements manager.Runnable: at the end of ctx it waits for the action
// that is being worked on, which ends soon since ctx is its context as well,
// and reports what is not yet reported. It gives up after shutdownTimeout; the
// next runner then finds the claim without a result.
func (r *reconciler) Start(ctx context.Context) error {
	<-ctx.Done()
	r.working.Lock()
	defer r.working.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	for _, at := range r.attempts {
		logger := r.log.WithValues("NodeAction", at.name)
		ctx := log.IntoContext(ctx, logger)
		var lastErr error
		err := wait.PollUntilContextCancel(ctx, shutdownRetry, true, func(ctx context.Context) (bool, error) {
			lastErr = r.settle(ctx, at)
			return lastErr == nil, nil
		})
		if err != nil && lastErr != nil {
			logger.Error(lastErr, "Stopping without having reported a result")
		}
	}
	return nil
}

// settle reports what is known of one attempt. A claim whose answer was lost
// and that was committed is given up: nothing was executed for it.
func (r *reconciler) settle(ctx context.Context, at *attempt) error {
	if at.unreported == nil && at.progress != claiming {
		return nil
	}
	action, err := r.api.action(ctx, at.name)
	if err != nil {
		return err
	}
	switch {
	case action == nil || r.attempts[action.UID] != at:
		return nil
	case at.unreported != nil:
		return r.report(ctx, action, at)
	case action.Finished() == nil && action.Status.Claim != nil && action.Status.Claim.RunnerID == r.runnerID:
		return r.conclude(ctx, action, notStarted(), remedyUnknown)
	default:
		return nil
	}
}

// notStarted is the outcome of an action that was claimed but not begun.
func notStarted() outcome {
	return outcome{
		reason:  v1alpha1.ReasonNotStarted,
		message: "the runner was stopped before it started the remedy: nothing was executed",
	}
}
