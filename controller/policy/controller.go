// Package policy tells people in the status of their policies whether these can act, and what
// they did. Nothing is decided by what is told.
package policy

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/worker"
)

// Reconciler keeps the status of policies. There is one request, for all of them: the nodes
// are walked over once, however many policies there are.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Nodes are those of the cache.
	Nodes fleet.Nodes
	// Clock tells when a condition changed.
	Clock clock.PassiveClock
}

// all is the name of the only request.
const all = "all"

// Times after which all is counted again.
const (
	// soon is for what people have just written and look at.
	soon = 500 * time.Millisecond
	// burst is for what happens, so that a burst of it is counted once and makes one write.
	burst = 5 * time.Second
	// behind is for what somebody else has changed meanwhile.
	behind = time.Second
	// anyway is without an event.
	anyway = 10 * time.Minute
)

// Loop returns the reconciler with what wakes it.
func (r *Reconciler) Loop() worker.Loop {
	return worker.Loop{
		Name: "policy", Key: "policies", Workers: 1, Reconciler: r,
		Watches: []worker.Watch{
			{Kind: &v1alpha1.RemedyPolicy{}, Handler: onChange(soon, specChanged)},
			{Kind: &v1alpha1.RemedyPolicy{}, Handler: onChange(burst, statusChanged)},
			{Kind: &v1alpha1.RemediationBudget{}, Handler: onChange(soon, specChanged)},
			{Kind: &corev1.Node{}, Handler: onChange(burst, countsOtherwise)},
			{Kind: &v1alpha1.Remediation{}, Handler: onChange(burst, ended)},
		},
	}
}

// Reconcile counts, and writes the status of those policies that have another one.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var policies v1alpha1.RemedyPolicyList
	var budgets v1alpha1.RemediationBudgetList
	var remediations v1alpha1.RemediationList
	for _, list := range []client.ObjectList{&policies, &budgets, &remediations} {
		if err := r.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return reconcile.Result{}, fmt.Errorf("counting for the status of policies: %w", err)
		}
	}
	if len(policies.Items) == 0 {
		return reconcile.Result{}, nil
	}
	nodes, _ := r.Nodes()
	counts, tallies := Count(policies.Items, budgets.Items, nodes), Tallies(remediations.Items)
	next, now := anyway, metav1.NewTime(r.Clock.Now())
	var errs []error
	for i := range policies.Items {
		p := &policies.Items[i]
		switch err := r.write(ctx, p, Status(p, &counts[i], tallies[p.UID], now)); {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err): // the cache will show it
			next = behind
		case err != nil:
			errs = append(errs, err)
		}
	}
	return reconcile.Result{RequeueAfter: next}, errors.Join(errs...)
}

// Status returns the status of a policy.
func Status(p *v1alpha1.RemedyPolicy, c *Counts, t Tally, now metav1.Time) v1alpha1.RemedyPolicyStatus {
	status := v1alpha1.RemedyPolicyStatus{
		ObservedGeneration: p.Generation,
		Nodes:              ptr.To(c.Nodes), NodesWithoutBudget: ptr.To(c.WithoutBudget), Reports: c.Reports,
		OpenRemediations: ptr.To(t.Open), LastRemediation: latest(p.Status.LastRemediation, t.Last).DeepCopy(),
		Conditions: p.Status.DeepCopy().Conditions,
	}
	ready := Ready(&p.Spec, c)
	ready.ObservedGeneration, ready.LastTransitionTime = p.Generation, now
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}

// write writes the status if it is another one. It fails with a conflict if anybody has changed
// the policy since it was read. The policy is the cache's own.
func (r *Reconciler) write(ctx context.Context, p *v1alpha1.RemedyPolicy, status v1alpha1.RemedyPolicyStatus) error {
	if equality.Semantic.DeepEqual(p.Status, status) {
		return nil
	}
	updated := p.DeepCopy()
	updated.Status = status
	if err := r.Client.Status().Patch(ctx, updated, optimistic.Since(p), fieldmanager.Controller); err != nil {
		return fmt.Errorf("writing the status of policy %s: %w", p.Name, err)
	}
	return nil
}
