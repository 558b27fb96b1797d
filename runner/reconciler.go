package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// conflictRetry is the pause after somebody else wrote the action first.
const conflictRetry = 20 * time.Millisecond

// reconciler brings one action after the other to its end.
type reconciler struct {
	api      api
	log      logr.Logger
	clock    clock.Clock
	metrics  *metrics
	nodeName string
	runnerID string
	bootID   string

	// working is held while an action is worked on: one at a time.
	working  sync.Mutex
	attempts attempts // guarded by working
}

// Reconcile takes the action as far as it can go now. An error means that the
// API server could not be asked or told something: the next call starts over
// with fresh reads and repeats no side effect.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	r.working.Lock()
	defer r.working.Unlock()
	err := r.work(ctx, req.Name)
	switch {
	case ctx.Err() != nil:
		return reconcile.Result{}, nil // what is left to be said, Start says
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	default:
		return reconcile.Result{}, err
	}
}

func (r *reconciler) work(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	action, err := r.api.action(ctx, name)
	if err != nil {
		return err
	}
	r.forget(ctx, name, action)
	if action == nil {
		return nil
	}
	if at := r.attempts[action.UID]; at != nil && at.unreported != nil {
		return r.report(ctx, action, at)
	}
	if action.Finished() != nil {
		return nil
	}
	in, err := r.read(ctx, action)
	if err != nil {
		return err
	}
	switch d := decide(in); d.verb {
	case finish:
		return r.conclude(ctx, action, outcome{reason: d.reason, message: d.message}, remedyUnknown)
	case claim:
		if err := r.claim(ctx, action); err != nil {
			return err
		}
		return r.run(ctx, action, d)
	case execute:
		return r.run(ctx, action, d)
	default:
		return nil
	}
}

// read collects what a decision about the action depends on.
func (r *reconciler) read(ctx context.Context, action *v1alpha1.NodeAction) (input, error) {
	policy, err := r.api.policy(ctx, action.Spec.Policy.Name)
	if err != nil {
		return input{}, err
	}
	node, err := r.api.node(ctx, r.nodeName)
	if err != nil {
		return input{}, err
	}
	return input{
		action:   action,
		policy:   policy,
		node:     node,
		progress: r.attempts.progressOf(action.UID),
		nodeName: r.nodeName,
		runnerID: r.runnerID,
		bootID:   r.bootID,
		now:      r.clock.Now(),
	}, nil
}

// claim returns nil only if the API server has confirmed the claim. After an
// error it may have been committed: the next reconcile reads it back.
func (r *reconciler) claim(ctx context.Context, action *v1alpha1.NodeAction) error {
	r.attempts.of(action.UID, action.Name).progress = claiming
	action.Status.Claim = &v1alpha1.Claim{
		RunnerID: r.runnerID,
		BootID:   r.bootID,
		Time:     metav1.NewTime(r.clock.Now()),
	}
	if err := r.api.updateStatus(ctx, action); err != nil {
		return fmt.Errorf("claiming NodeAction %s: %w", action.Name, err)
	}
	return nil
}

// run executes the remedy of a claimed action and reports the outcome.
func (r *reconciler) run(ctx context.Context, action *v1alpha1.NodeAction, d decision) error {
	at := r.attempts.of(action.UID, action.Name)
	at.progress = started
	at.remedy = remedyName(d.step)
	log.FromContext(ctx).Info("Executing remedy", "remedy", at.remedy, "policy", action.Spec.Policy.Name,
		"step", action.Spec.Step, "attempt", action.Spec.Attempt, "timeout", d.step.Timeout.String())
	o := notStarted()
	if ctx.Err() == nil {
		o = d.remedy.execute(ctx, r.clock, d.step.Timeout.Duration)
	}
	at.unreported = &o
	return r.report(ctx, action, at)
}

// forget drops what is remembered of earlier actions of this name. The action
// is the present one, or nil.
func (r *reconciler) forget(ctx context.Context, name string, action *v1alpha1.NodeAction) {
	var present types.UID
	if action != nil {
		present = action.UID
	}
	for _, lost := range r.attempts.forget(name, present) {
		log.FromContext(ctx).Info("Action was deleted before its result was written", "reason", lost.reason, "message", lost.message)
	}
}
