package remediation

import (
	"context"
	"slices"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/worker"
)

// onBudget wakes whom a change of a budget concerns. Of its spec: all on its nodes
// that are blocked. Of its permits: who got one, for who no longer needs it
// releases it, and as many of those that wait as there are free ones.
func (r *Reconciler) onBudget() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			b := e.Object.(*v1alpha1.RemediationBudget)
			wake(q, append(newHolders(&v1alpha1.RemediationBudget{}, b), r.blockedOnNodes(ctx, *b)...))
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			old, updated := e.ObjectOld.(*v1alpha1.RemediationBudget), e.ObjectNew.(*v1alpha1.RemediationBudget)
			wake(q, newHolders(old, updated))
			if worker.SpecChanged(old, updated) {
				wake(q, r.blockedOnNodes(ctx, *old, *updated))
			} else {
				wake(q, r.next(ctx, updated, r.observer().budgets(ctx)))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			wake(q, r.blockedOnNodes(ctx, *e.Object.(*v1alpha1.RemediationBudget)))
		},
	}
}

// onRemediation wakes the remediation; if it waited for a permit and something else holds it
// now, or it is no more, those who come after it; and if it is new, of which the others may be
// duplicates, or done with the node, the others of that node.
func (r *Reconciler) onRemediation() handler.EventHandler {
	after := func(ctx context.Context, q queue, remediation *v1alpha1.Remediation) {
		node := r.Store.Node(ctx, remediation.Spec.NodeName)
		if node == nil {
			return // it counted nowhere
		}
		budgets := r.observer().budgets(ctx)
		for _, b := range budget.Selecting(budgets, node) {
			wake(q, r.next(ctx, &b, budgets))
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			created := e.Object.(*v1alpha1.Remediation)
			wake(q, []string{created.Name})
			if !created.Ended() { // as most are when a controller starts
				add(q, r.openOnNode(ctx, created.Spec.NodeName))
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			old, updated := e.ObjectOld.(*v1alpha1.Remediation), e.ObjectNew.(*v1alpha1.Remediation)
			wake(q, []string{updated.Name})
			if waits(old) && !waits(updated) && (updated.BlockedBy() != "" || updated.Ended()) {
				after(ctx, q, updated)
			}
			if gates.Acts(old) && !gates.Acts(updated) {
				add(q, r.openOnNode(ctx, updated.Spec.NodeName))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			old := e.Object.(*v1alpha1.Remediation)
			wake(q, []string{old.Name})
			if waits(old) {
				after(ctx, q, old)
			}
			if gates.Acts(old) {
				add(q, r.openOnNode(ctx, old.Spec.NodeName))
			}
		},
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func wake(q queue, names []string) { add(q, worker.Requests(names...)) }

func add(q queue, requests []reconcile.Request) {
	for _, request := range requests {
		q.Add(request)
	}
}

// next returns who is to look again for the permits of a budget. Whom its storm holds is left
// alone, or would take the places of those who may go on; the end of the storm wakes it, or the
// clock that of its cooldown.
func (r *Reconciler) next(ctx context.Context, b *v1alpha1.RemediationBudget, all []v1alpha1.RemediationBudget) []string {
	nodeOf := r.observer().nodeOf(ctx)
	return budget.Wake(b, all, func() []*v1alpha1.Remediation {
		return slices.DeleteFunc(r.waiting(ctx), func(waits *v1alpha1.Remediation) bool {
			node := nodeOf(waits.Spec.NodeName)
			return waits.BlockedBy() == gates.ReasonStorm && node != nil && b.Status.Groups[budget.GroupOf(b, node)].Storm != nil
		})
	}, nodeOf)
}

// newHolders returns who holds a permit now and did not before, or of another version: the
// one before was looked for in vain by who releases it.
func newHolders(old, updated *v1alpha1.RemediationBudget) (names []string) {
	for name, group := range updated.Status.Groups {
		before := old.Status.Groups[name].Permits
		for node, permit := range group.Permits {
			if old := before[node]; old.Remediation != permit.Remediation || old.Version != permit.Version {
				names = append(names, permit.Remediation)
			}
		}
	}
	return names
}

// reasonsToWait are those of who waits for what permits of others change.
func reasonsToWait() []string {
	return []string{gates.ReasonBudgetExhausted, gates.ReasonDisruptionLimit, gates.ReasonStorm, gates.ReasonControlPlane}
}

func waits(remediation *v1alpha1.Remediation) bool {
	return !remediation.Ended() && slices.Contains(reasonsToWait(), remediation.BlockedBy())
}

// waiting are those whom a change of permits may let go on.
func (r *Reconciler) waiting(ctx context.Context) []*v1alpha1.Remediation {
	return r.observer().blocked(ctx, reasonsToWait()...)
}

// blockedOnNodes returns the remediations that are blocked, for whatever reason, or have
// an action under way or their node taken out, on the nodes of a budget: it may be the one
// that blocks them, or be it from now.
func (r *Reconciler) blockedOnNodes(ctx context.Context, budgets ...v1alpha1.RemediationBudget) (names []string) {
	nodeOf := r.observer().nodeOf(ctx)
	for _, remediation := range r.Store.Open(ctx) {
		status := &remediation.Status // the off switch stops a drain, and an action that nobody has claimed
		if remediation.BlockedBy() == "" && status.Maintenance == "" && status.Action == "" {
			continue
		}
		if node := nodeOf(remediation.Spec.NodeName); node != nil && len(budget.Selecting(budgets, node)) > 0 {
			names = append(names, remediation.Name)
		}
	}
	return names
}
