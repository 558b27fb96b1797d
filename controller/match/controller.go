package match

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
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
	// Started counts started remediations by policy.
	Started *prometheus.CounterVec
}

// workers is how many nodes are looked at at the same time, so that one slow
// write does not delay the others.
const workers = 8

// NewStarted registers the counter of started remediations.
func NewStarted(registry prometheus.Registerer) (*prometheus.CounterVec, error) {
	started := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nodemend_remediations_started_total",
		Help: "Remediations started, by policy.",
	}, []string{"policy"})
	return started, registry.Register(started)
}

// Register adds the reconciler to the manager.
func (r *Reconciler) Register(mgr ctrl.Manager) error {
	changed := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return fleet.Changed(e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node))
	}}
	// The node may have another incident by the time a remediation is over.
	over := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !e.ObjectOld.(*v1alpha1.Remediation).Ended() && e.ObjectNew.(*v1alpha1.Remediation).Ended()
		},
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("match").
		For(&corev1.Node{}, builder.WithPredicates(changed)).
		Watches(&v1alpha1.RemedyPolicy{}, handler.EnqueueRequestsFromMapFunc(r.selected),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.Remediation{}, handler.EnqueueRequestsFromMapFunc(ofRemediation), builder.WithPredicates(over)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

func ofRemediation(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.(*v1alpha1.Remediation).Spec.NodeName}}}
}

// selected returns the nodes that a policy selects.
func (r *Reconciler) selected(ctx context.Context, obj client.Object) []reconcile.Request {
	policy := obj.(*v1alpha1.RemedyPolicy)
	nodes, err := fleet.Selected(ctx, r.Client, policy.Spec.NodeSelector)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "policy selects no node", "policy", policy.Name)
		return nil
	}
	requests := make([]reconcile.Request, len(nodes))
	for i := range nodes {
		requests[i].Name = nodes[i].Name
	}
	return requests
}

// Reconcile starts the remediations that are due on one node, and comes back
// when the next condition will have held for its time.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var node corev1.Node
	if err := r.Client.Get(ctx, request.NamespacedName, &node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var policies v1alpha1.RemedyPolicyList
	if err := r.Client.List(ctx, &policies); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing policies: %w", err)
	}
	var open v1alpha1.RemediationList
	if err := r.Client.List(ctx, &open, client.MatchingFields{index.OpenByNode: node.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the remediations of node %s: %w", node.Name, err)
	}
	var next time.Duration
	var errs []error
	now := r.Clock.Now()
	for i := range policies.Items {
		policy := &policies.Items[i]
		if !policy.DeletionTimestamp.IsZero() || hasOpen(open.Items, &node, policy) {
			continue
		}
		trigger, wait := Policy(policy, &node, now)
		if trigger != nil {
			errs = append(errs, r.start(ctx, policy, &node, *trigger))
		}
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	// An error takes precedence over the time of the next look.
	return reconcile.Result{RequeueAfter: next}, errors.Join(errs...)
}

func hasOpen(remediations []v1alpha1.Remediation, node *corev1.Node, policy *v1alpha1.RemedyPolicy) bool {
	for i := range remediations {
		r := &remediations[i]
		if !r.Ended() && r.Spec.NodeUID == node.UID && r.Spec.Policy.UID == policy.UID {
			return true
		}
	}
	return false
}

// start creates the remediation, unless one of the node and the policy is open
// that the cache does not show yet: with two entries of match the trigger, and
// so the name, can change from one look to the next.
func (r *Reconciler) start(ctx context.Context, policy *v1alpha1.RemedyPolicy, node *corev1.Node, trigger v1alpha1.Trigger) error {
	var live v1alpha1.RemediationList
	if err := r.Live.List(ctx, &live, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
		return fmt.Errorf("listing the remediations of node %s: %w", node.Name, err)
	}
	if hasOpen(live.Items, node, policy) {
		return nil
	}
	remediation := NewRemediation(policy, node, trigger)
	err := r.Client.Create(ctx, remediation, budget.FieldOwner)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("creating remediation %s: %w", remediation.Name, err)
	}
	r.Started.WithLabelValues(policy.Name).Inc()
	ctrl.LoggerFrom(ctx).Info("Remediation started", "remediation", remediation.Name, "policy", policy.Name,
		"condition", trigger.Type, "status", trigger.Status, "reason", trigger.Reason)
	return nil
}
