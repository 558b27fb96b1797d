package budget

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/worker"
)

// recount is after how long a budget is counted for changes that can wait, so
// that a burst of them is counted once. What takes something away from what may
// be disrupted does not wait.
const recount = 500 * time.Millisecond

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func enqueue(q queue, budget string, now bool) {
	request := worker.Request(budget)
	if now {
		q.Add(request)
	} else {
		q.AddAfter(request, recount)
	}
}

func (r *Reconciler) onBudget() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { enqueue(q, e.Object.GetName(), true) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			old, updated := e.ObjectOld.(*v1alpha1.RemediationBudget), e.ObjectNew.(*v1alpha1.RemediationBudget)
			switch {
			case worker.SpecChanged(old, updated) || updated.Status.Nodes == nil:
				enqueue(q, updated.Name, true)
			case !equality.Semantic.DeepEqual(old.Status, updated.Status):
				enqueue(q, updated.Name, false) // also when what was counted before arrives late
			}
		},
	}
}

func (r *Reconciler) onNode() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { r.node(ctx, q, nil, e.Object.(*corev1.Node)) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { r.node(ctx, q, e.Object.(*corev1.Node), nil) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			old, updated := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			if fleet.Available(old) != fleet.Available(updated) || old.UID != updated.UID || !maps.Equal(old.Labels, updated.Labels) {
				r.node(ctx, q, old, updated)
			}
		},
	}
}

// node enqueues the budgets in which the node counts otherwise than before.
func (r *Reconciler) node(ctx context.Context, q queue, old, updated *corev1.Node) {
	for _, b := range r.budgets(ctx) {
		before, was := place(&b, old)
		after, is := place(&b, updated)
		switch {
		case !was && !is, was && is && before == after && old.UID == updated.UID:
		default:
			enqueue(q, b.Name, is && !after.Available && (!was || before.Available) && disruptable(&b, after.Group))
		}
	}
}

func (r *Reconciler) onRemediation() handler.EventHandler {
	changed := func(ctx context.Context, q queue, object client.Object, opened bool) {
		remediation := object.(*v1alpha1.Remediation)
		var node corev1.Node
		if r.Client.Get(ctx, types.NamespacedName{Name: remediation.Spec.NodeName}, &node, client.UnsafeDisableDeepCopy) != nil {
			return // it counts nowhere
		}
		for _, b := range r.budgets(ctx) {
			if at, is := place(&b, &node); is {
				enqueue(q, b.Name, opened && b.Spec.MinHealthy != nil && disruptable(&b, at.Group))
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.Object.(*v1alpha1.Remediation).Ended() {
				changed(ctx, q, e.Object, true)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if !e.ObjectOld.(*v1alpha1.Remediation).Ended() && e.ObjectNew.(*v1alpha1.Remediation).Ended() {
				changed(ctx, q, e.ObjectNew, false)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { changed(ctx, q, e.Object, false) },
	}
}

// onPolicy enqueues all budgets when a policy goes on trial, or is enforced from now on: its
// remediations count otherwise than before.
func (r *Reconciler) onPolicy() handler.EventHandler {
	trial := func(o client.Object) bool { return o.(*v1alpha1.RemedyPolicy).Spec.Mode == v1alpha1.ModeDryRun }
	all := func(ctx context.Context, q queue, now bool) {
		for _, b := range r.budgets(ctx) {
			enqueue(q, b.Name, now)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if trial(e.ObjectOld) != trial(e.ObjectNew) {
				all(ctx, q, trial(e.ObjectOld))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if trial(e.Object) {
				all(ctx, q, true)
			}
		},
	}
}

// disruptable reports whether the status allows a disruptive step in the group:
// only then is it urgent to say that there may be fewer.
func disruptable(b *v1alpha1.RemediationBudget, group string) bool {
	limit := b.Status.Groups[group].DisruptionLimit
	return limit != nil && *limit > 0
}

// place is how the node counts in the budget; false if it does not.
func place(b *v1alpha1.RemediationBudget, node *corev1.Node) (NodeState, bool) {
	if node == nil {
		return NodeState{}, false
	}
	if selected, err := fleet.Selects(b.Spec.NodeSelector, node); err != nil || !selected {
		return NodeState{}, false
	}
	return NodeState{Name: node.Name, Group: GroupOf(b, node), Available: fleet.Available(node)}, true
}

// budgets are the cache's own: they must not be changed.
func (r *Reconciler) budgets(ctx context.Context) []v1alpha1.RemediationBudget {
	var list v1alpha1.RemediationBudgetList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing budgets")
	}
	return list.Items
}
