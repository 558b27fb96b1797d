package match

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/index"
)

// Reconciler starts remediations: one request is one node, and costs
// O(policies), never a walk over the fleet.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Clock tells whether a condition has held for its time.
	Clock clock.PassiveClock
	// Seen remembers conditions of entries with debounce. It is shown what the watch of nodes
	// tells.
	Seen *evidence.Tracker
	// Nodes are those of the cache.
	Nodes fleet.Nodes
	// Created is told of each remediation that was created, which it must not change.
	Created func(*v1alpha1.Remediation)
}

// Reconcile starts the remediations that are due on one node, and comes back
// when the next condition will have held for its time.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var node corev1.Node
	if err := r.Client.Get(ctx, request.NamespacedName, &node, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var policies v1alpha1.RemedyPolicyList
	if err := r.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing policies: %w", err)
	}
	var known v1alpha1.RemediationList
	if err := r.Client.List(ctx, &known, client.MatchingFields{index.ByNode: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the remediations of node %s: %w", node.Name, err)
	}
	var next time.Duration
	var errs []error
	now := r.Clock.Now()
	for i := range policies.Items {
		policy := &policies.Items[i]
		if !policy.DeletionTimestamp.IsZero() {
			continue
		}
		trigger, wait := Policy(policy, &node, now, r.Seen.Seen, func(t *v1alpha1.Trigger) bool { return Covers(known.Items, &node, policy, t) })
		if trigger != nil {
			errs = append(errs, r.start(ctx, policy, &node, trigger, known.Items))
		}
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	// An error takes precedence over the time of the next look.
	return reconcile.Result{RequeueAfter: next}, errors.Join(errs...)
}

// start creates the remediation, unless there is one that leaves no room for it and
// that the cache does not show yet. Its name is that of the next one after those that
// are known: where the cache is behind, it is taken, and shows who came first. So
// nothing has to be listed first, which takes the API server long where many nodes
// report. A policy that is gone or was edited meanwhile starts none: the cache will show
// it, and the node is looked at again.
func (r *Reconciler) start(ctx context.Context, policy *v1alpha1.RemedyPolicy, node *corev1.Node, trigger *v1alpha1.Trigger, known []v1alpha1.Remediation) error {
	var live v1alpha1.RemedyPolicy
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(policy), &live)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading policy %s: %w", policy.Name, err)
	}
	if live.UID != policy.UID || live.Generation != policy.Generation {
		return nil
	}
	remediation := NewRemediation(policy, node, *trigger, Latest(known, node, policy))
	err = r.Client.Create(ctx, remediation, fieldmanager.Controller)
	for apierrors.IsAlreadyExists(err) {
		var existing v1alpha1.Remediation
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(remediation), &existing); err != nil {
			return fmt.Errorf("reading remediation %s: %w", remediation.Name, err)
		}
		if covers(&existing, node, policy, trigger) {
			return nil
		}
		remediation = NewRemediation(policy, node, *trigger, existing.UID)
		err = r.Client.Create(ctx, remediation, fieldmanager.Controller)
	}
	if err != nil {
		return fmt.Errorf("creating remediation %s: %w", remediation.Name, err)
	}
	r.Created(remediation)
	ctrl.LoggerFrom(ctx).Info("Remediation started", "remediation", remediation.Name, "policy", policy.Name,
		"condition", trigger.Type, "status", trigger.Status, "reason", trigger.Reason)
	return nil
}
