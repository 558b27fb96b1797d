package budget

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/worker"
)

// Reconciler keeps the status of budgets up to date with their nodes, and takes
// back permits whose remediation is gone.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Permits writes.
	Permits *Permits
	// Clock tells how long a storm is over.
	Clock clock.PassiveClock
	// Nodes are those of the cache.
	Nodes fleet.Nodes
}

// Loop returns the reconciler with what wakes it.
func (r *Reconciler) Loop() worker.Loop {
	return worker.Loop{
		Name: "budget", Key: "budget", Workers: 1, Reconciler: r,
		Watches: []worker.Watch{
			{Kind: &v1alpha1.RemediationBudget{}, Handler: r.onBudget()},
			{Kind: &corev1.Node{}, Handler: r.onNode()},
			{Kind: &v1alpha1.Remediation{}, Handler: r.onRemediation()},
		},
	}
}

// Reconcile counts the nodes of one budget and writes what has changed.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var b v1alpha1.RemediationBudget
	if err := r.Client.Get(ctx, request.NamespacedName, &b); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	current := r.Permits.newer(&b)
	nodes, open, err := r.look(ctx, current)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("budget %s: %w", b.Name, err)
	}
	now := r.Clock.Now()
	counted, err := status(current, nodes, open, now)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("budget %s: %w", b.Name, err))
	}
	if !equality.Semantic.DeepEqual(current.Status, counted) {
		err := r.Permits.change(ctx, b.Name, orderCount, func(b *v1alpha1.RemediationBudget) (err error) {
			b.Status, err = status(b, nodes, open, now)
			return err
		})
		if err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(fmt.Errorf("counting the nodes of budget %s: %w", b.Name, err))
		}
	}
	held, err := r.sweep(ctx, current)
	next := NextLook(&v1alpha1.RemediationBudget{Spec: b.Spec, Status: counted}, now)
	if held && (next == 0 || next > sweepEvery) {
		next = sweepEvery
	}
	return reconcile.Result{RequeueAfter: next}, err
}

// status counts, and lets a budget without a status, which somebody has created
// again, learn whose actions are under way.
func status(b *v1alpha1.RemediationBudget, nodes []NodeState, open []v1alpha1.Remediation, now time.Time) (v1alpha1.RemediationBudgetStatus, error) {
	counted, err := Groups(b, nodes, now)
	if err != nil || b.Status.Nodes != nil {
		return counted, err
	}
	learning := v1alpha1.RemediationBudget{Spec: b.Spec, Status: counted}
	learn(&learning, nodes, open)
	return Groups(&learning, nodes, now)
}

// learn gives permits to those whose action is under way, as many as fit.
func learn(b *v1alpha1.RemediationBudget, nodes []NodeState, open []v1alpha1.Remediation) {
	groupOf := make(map[string]string, len(nodes))
	for _, node := range nodes {
		groupOf[node.Name] = node.Group
	}
	acting := slices.DeleteFunc(slices.Clone(open), func(r v1alpha1.Remediation) bool {
		return r.Status.Action == "" && r.State() != v1alpha1.ReasonTakingOut
	})
	slices.SortFunc(acting, func(x, y v1alpha1.Remediation) int { return compare(&x, &y) })
	for i := range acting {
		node, step := acting[i].Spec.NodeName, next(&acting[i])
		group, selected := groupOf[node]
		g, counted := b.Status.Groups[group]
		if _, taken := g.Permits[node]; !selected || !counted || taken || Free(b, group) <= 0 {
			continue
		}
		disruptive := step != nil && step.Disruptive()
		permits := maps.Clone(g.Permits)
		if permits == nil {
			permits = map[string]v1alpha1.Permit{}
		}
		permits[node] = v1alpha1.Permit{
			Remediation: acting[i].Name, Disruptive: disruptive && FreeDisruptions(b, group) > 0,
		}
		g.Permits = permits
		b.Status.Groups[group] = g
	}
}

// look reads the state of the nodes that the budget selects, and the open
// remediations.
func (r *Reconciler) look(ctx context.Context, b *v1alpha1.RemediationBudget) ([]NodeState, []v1alpha1.Remediation, error) {
	selected, err := r.Nodes.Selected(b.Spec.NodeSelector)
	if err != nil {
		return nil, nil, err
	}
	var open v1alpha1.RemediationList
	if err := r.Client.List(ctx, &open, client.MatchingFields{index.Open: index.IsOpen}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("listing open remediations: %w", err)
	}
	sick := make(map[types.UID]bool, len(open.Items))
	for i := range open.Items {
		sick[open.Items[i].Spec.NodeUID] = true
	}
	nodes := make([]NodeState, len(selected))
	for i, node := range selected {
		nodes[i] = NodeState{Name: node.Name, Group: GroupOf(b, node), Available: fleet.Available(node), Sick: sick[node.UID]}
	}
	return nodes, open.Items, nil
}
