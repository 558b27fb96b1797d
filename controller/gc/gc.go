// Package gc deletes remediations that have ended once nothing needs their record any more:
// neither a gate, nor evidence, nor an incident that lasts.
package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/match"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/internal/deadline"
)

// Reconciler deletes ended remediations, and with them their actions, once
// there are too many of a node or they are too old. One request is one node.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Clock tells how old a remediation is.
	Clock clock.PassiveClock
	// Limit is how many ended remediations of a node are kept. The latest one of each policy is
	// kept whatever their number.
	Limit int
	// Age is how long after its end a remediation is kept.
	Age time.Duration
}

// Loop returns the reconciler with what wakes it.
func (r *Reconciler) Loop() worker.Loop {
	ended := predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return e.Object.(*v1alpha1.Remediation).Ended() },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !e.ObjectOld.(*v1alpha1.Remediation).Ended() && e.ObjectNew.(*v1alpha1.Remediation).Ended()
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
	return worker.Loop{
		Name: "history", Key: "node", Workers: 1, Reconciler: r,
		Watches: []worker.Watch{{
			Kind: &v1alpha1.Remediation{}, Handler: handler.EnqueueRequestsFromMapFunc(nodeOf), Predicates: []predicate.Predicate{ended},
		}},
	}
}

func nodeOf(_ context.Context, obj client.Object) []reconcile.Request {
	return worker.Requests(obj.(*v1alpha1.Remediation).Spec.NodeName)
}

// Reconcile deletes what is no longer kept of one node, and comes back when more
// may go.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var all v1alpha1.RemediationList
	if err := r.Client.List(ctx, &all, client.MatchingFields{index.ByNode: request.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the remediations of node %s: %w", request.Name, err)
	}
	k := keeping{limit: r.Limit, age: r.Age, now: r.Clock.Now()}
	var node corev1.Node
	switch err := r.Client.Get(ctx, request.NamespacedName, &node, client.UnsafeDisableDeepCopy); {
	case err == nil:
		k.node = &node
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, fmt.Errorf("reading node %s: %w", request.Name, err)
	}
	var policies v1alpha1.RemedyPolicyList
	var budgets v1alpha1.RemediationBudgetList
	if err := errors.Join(r.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy), r.Client.List(ctx, &budgets, client.UnsafeDisableDeepCopy)); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing policies and budgets: %w", err)
	}
	k.policies, k.budgets = policies.Items, budgets.Items

	expendable, next := k.sort(all.Items)
	var errs []error
	for _, e := range expendable {
		preconditions := client.Preconditions{UID: ptr.To(e.UID), ResourceVersion: ptr.To(e.ResourceVersion)}
		obj := &v1alpha1.Remediation{}
		obj.Name = e.Name
		if err := client.IgnoreNotFound(r.Client.Delete(ctx, obj, preconditions)); err != nil {
			errs = append(errs, fmt.Errorf("deleting remediation %s: %w", e.Name, err))
		}
	}
	return reconcile.Result{RequeueAfter: next}, errors.Join(errs...)
}

// keeping is what decides which ended remediations of a node are kept.
type keeping struct {
	limit    int
	age      time.Duration
	node     *corev1.Node // nil when it is gone
	policies []v1alpha1.RemedyPolicy
	budgets  []v1alpha1.RemediationBudget
	now      time.Time
}

// lookAgain is for what is kept since its incident lasts: its end is no event here.
const lookAgain = time.Hour

// sort returns those of a node's remediations that are to be deleted, and after how
// long to look again; 0: when one more has ended.
func (k *keeping) sort(remediations []v1alpha1.Remediation) (expendable []*v1alpha1.Remediation, next time.Duration) {
	var ended []*v1alpha1.Remediation
	for i := range remediations {
		if r := &remediations[i]; r.Ended() && r.DeletionTimestamp == nil {
			ended = append(ended, r)
		}
	}
	slices.SortFunc(ended, func(a, b *v1alpha1.Remediation) int { return b.Status.EndTime.Compare(a.Status.EndTime.Time) })
	latest := k.latest(remediations)
	for i, r := range ended {
		until := k.neededUntil(r)
		kept := i < k.limit || latest[r.UID] || latest[types.UID(r.Annotations[v1alpha1.TombstoneUIDAnnotation])]
		if expiry := r.Status.EndTime.Add(k.age); kept && expiry.After(until) {
			until = expiry
		}
		left := until.Sub(k.now)
		if left <= 0 && !k.lasts(r) {
			expendable = append(expendable, r)
			continue
		}
		if left <= 0 {
			left = lookAgain
		}
		if next == 0 || left < next {
			next = left
		}
	}
	return expendable, next
}

// latest returns the UIDs of those after which a policy's next remediation on the node is
// named. If one were deleted just when the next starts, who sees the deletion and not yet the
// next one would start it again, under another name.
func (k *keeping) latest(remediations []v1alpha1.Remediation) map[types.UID]bool {
	latest := map[types.UID]bool{}
	if k.node == nil {
		return latest
	}
	for i := range k.policies {
		if uid := match.Latest(remediations, k.node, &k.policies[i]); uid != "" {
			latest[uid] = true
		}
	}
	return latest
}

// lasts reports whether the incident of the remediation lasts, so that without it
// the policy would start another one.
func (k *keeping) lasts(r *v1alpha1.Remediation) bool {
	if !k.sameNode(r) {
		return false
	}
	if len(r.AwaitedHealthy()) > 0 {
		return true
	}
	for i := range k.node.Status.Conditions {
		c := &k.node.Status.Conditions[i]
		trigger := v1alpha1.Trigger{Type: string(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime}
		if r.Covers(&trigger, v1alpha1.Duration{}) {
			return true
		}
	}
	return false
}

// neededUntil returns until when the gates count the remediation, or evidence must be later
// than its last action: also that of a node which is registered anew.
func (k *keeping) neededUntil(r *v1alpha1.Remediation) time.Time {
	last := r.Status.LastActed()
	if last == nil {
		return time.Time{}
	}
	until := deadline.Ended(r, last).Add(evidence.MaxHealthyAge)
	if !k.sameNode(r) && !r.HandedOver() { // whose Node may come back
		return until
	}
	need := func(from time.Time, long time.Duration) {
		if t := from.Add(long); t.After(until) {
			until = t
		}
	}
	for i := range k.policies {
		p := &k.policies[i]
		if p.UID != r.Spec.Policy.UID {
			continue
		}
		if p.Spec.Cooldown != nil {
			need(r.Status.EndTime.Time, p.Spec.Cooldown.Duration)
		}
		if p.Spec.MaxRemediations != nil {
			need(last.FinishedAt.Time, p.Spec.MaxRemediations.Per.Duration)
		}
	}
	rebooted := slices.ContainsFunc(r.Status.History, func(a v1alpha1.ActionRecord) bool { return v1alpha1.RemedyNamed(a.Remedy).CountsAsReboot })
	for i := range k.budgets {
		if rate := k.budgets[i].Spec.MaxReboots; rebooted && rate != nil {
			need(last.FinishedAt.Time, rate.Per.Duration)
		}
	}
	return until
}

func (k *keeping) sameNode(r *v1alpha1.Remediation) bool {
	return k.node != nil && k.node.UID == r.Spec.NodeUID
}
