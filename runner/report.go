package runner

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/runner/ledger"
	"github.com/nodemend/nodemend/runner/remedy"
)

// maxMessage bounds the message of a condition, in bytes.
const maxMessage = 1 << 10

// report writes the outcome of an order, unless the action, which has just been
// read or written, already has one: then an earlier write of ours had been
// committed although its answer was lost.
func (w *Worker) report(ctx context.Context, action *v1alpha1.NodeAction, entry *ledger.Entry) error {
	if entry.Reported {
		return w.reportAgain(ctx, action)
	}
	name, outcome := entry.Order.Step.Remedy(), *entry.Outcome
	if action.Status.Claim == nil && action.Finished() == nil {
		// The API server has been restored from a backup. It refuses a result without a claim.
		outcome = remedy.Outcome{
			Reason:  v1alpha1.ReasonInterrupted,
			Message: fmt.Sprintf("this node executed it, and its claim has been removed since; it ended as %s: %s", outcome.Reason, outcome.Message),
		}
	}
	if c := action.Finished(); c == nil {
		if err := w.conclude(ctx, action, outcome, name); err != nil {
			return err
		}
	} else {
		if c.Reason != outcome.Reason {
			logr.FromContextOrDiscard(ctx).Info("Action was finished by somebody else",
				"reason", c.Reason, "ownReason", outcome.Reason, "ownMessage", clip(outcome.Message))
		}
		w.metrics.observe(name, outcome)
	}
	remedy.Reached(ctx, "after-report")
	if err := w.Ledger.Reported(entry.Order.Action); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "A restart will look at the action once more")
	}
	if entry.Outcome.Result != nil {
		if err := w.Recheck(ctx); err != nil {
			logr.FromContextOrDiscard(ctx).Info("The detector was not asked to check at once", "err", err.Error())
		}
	}
	return nil
}

// reportAgain finishes an action that was reported before, and whose status
// somebody has wiped since: it never is executed again.
func (w *Worker) reportAgain(ctx context.Context, action *v1alpha1.NodeAction) error {
	if action.Finished() != nil {
		return nil
	}
	return w.conclude(ctx, action, remedy.Outcome{
		Reason:  v1alpha1.ReasonInterrupted,
		Message: "this node executed it and reported so, and somebody has removed the report: see the node's events and the runner's log",
	}, "")
}

// conclude finishes the action.
func (w *Worker) conclude(ctx context.Context, action *v1alpha1.NodeAction, o remedy.Outcome, name string) error {
	// Whatever becomes of this write, the action is not executed any more under a
	// claim that is there already: the write may arrive late.
	delete(w.claiming, action.UID)
	err := w.write(ctx, action, o)
	if apierrors.IsInvalid(err) && o.Result != nil {
		// Rather a result without details than none.
		logr.FromContextOrDiscard(ctx).Error(err, "The API server refuses the details of the result")
		action.Status.Result = nil
		err = w.write(ctx, action, remedy.Outcome{Reason: o.Reason, Message: o.Message})
	}
	if err != nil {
		return fmt.Errorf("finishing NodeAction %s as %s: %w", action.Name, o.Reason, err)
	}
	w.metrics.observe(name, o)
	w.audit.finished(ctx, action, name, o)
	return nil
}

func (w *Worker) write(ctx context.Context, action *v1alpha1.NodeAction, o remedy.Outcome) error {
	remedy.Reached(ctx, "before-report")
	action.Status.Result = o.Result
	meta.SetStatusCondition(&action.Status.Conditions, metav1.Condition{
		Type:               v1alpha1.ActionFinished,
		Status:             metav1.ConditionTrue,
		ObservedGeneration: action.Generation,
		LastTransitionTime: metav1.NewTime(w.ServerClock.Now()),
		Reason:             o.Reason,
		Message:            clip(o.Message),
	})
	return w.API.UpdateStatus(ctx, action)
}

// clip bounds a message to maxMessage bytes of valid UTF-8.
func clip(message string) string {
	return cut.Valid(message, maxMessage)
}
