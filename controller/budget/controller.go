package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	// Store is that of the cache.
	Store index.Store
}

// Loop returns the reconciler with what wakes it.
func (r *Reconciler) Loop() worker.Loop {
	return worker.Loop{
		Name: "budget", Key: "budget", Workers: 1, Reconciler: r,
		Watches: []worker.Watch{
			{Kind: &v1alpha1.RemediationBudget{}, Handler: r.onBudget()},
			{Kind: &corev1.Node{}, Handler: r.onNode()},
			{Kind: &v1alpha1.Remediation{}, Handler: r.onRemediation()},
			{Kind: &v1alpha1.RemedyPolicy{}, Handler: r.onPolicy()},
		},
	}
}

// Reconcile counts the nodes of one budget and writes what has changed.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var b v1alpha1.RemediationBudget
	if err := r.Client.Get(ctx, request.NamespacedName, &b); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	current := r.Permits.Newest(&b)
	seen, err := r.look(ctx, current)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("budget %s: %w", b.Name, err)
	}
	counted, err := seen.status(current)
	if err == nil && !equality.Semantic.DeepEqual(current.Status, counted) {
		err = r.Permits.change(ctx, b.Name, orderCount, func(_, b *v1alpha1.RemediationBudget) (err error) {
			b.Status, err = seen.status(b)
			return err
		})
	}
	behind := errors.Is(err, errBehind)
	if err != nil && !behind {
		return reconcile.Result{}, client.IgnoreNotFound(fmt.Errorf("counting the nodes of budget %s: %w", b.Name, err))
	}
	held, err := r.sweep(ctx, current)
	next := NextLook(&v1alpha1.RemediationBudget{Spec: b.Spec, Status: counted}, seen.at)
	if held && (next == 0 || next > sweepEvery) {
		next = sweepEvery
	}
	if behind {
		next = behindRecheck
	}
	return reconcile.Result{RequeueAfter: next}, err
}

// behindRecheck is after how long a controller that is behind looks again.
const behindRecheck = time.Second

// errBehind says that others know more: who left a node out of service, who counted
// last, or who has changed which nodes are to be counted.
var errBehind = errors.New("others know more of the nodes")

// view is what a budget's status is counted from.
type view struct {
	// of is the budget as it is known.
	of *v1alpha1.RemediationBudget
	// nodes that the budget selects, and the version up to which nodes are known.
	nodes   []NodeState
	version string
	open    []*v1alpha1.Remediation
	// live: the API server was asked for open. It is if the budget has to learn from them.
	live bool
	at   time.Time
}

// status counts, unless it is behind, or the budget is another by now, which may select
// other nodes; and lets a budget without a status, which somebody
// has created again, learn whose actions are under way.
func (v *view) status(b *v1alpha1.RemediationBudget) (v1alpha1.RemediationBudgetStatus, error) {
	if fleet.Later(v.version, b.Status.NodesVersion) != v.version || b.Status.Nodes == nil && !v.live ||
		b.Spec.GroupBy != v.of.Spec.GroupBy || !equality.Semantic.DeepEqual(b.Spec.NodeSelector, v.of.Spec.NodeSelector) {
		return b.Status, errBehind
	}
	counted, err := Groups(b, v.nodes, v.at)
	if err == nil && b.Status.Nodes == nil {
		learning := v1alpha1.RemediationBudget{ObjectMeta: b.ObjectMeta, Spec: b.Spec, Status: counted}
		learn(&learning, v.nodes, v.open)
		counted, err = Groups(&learning, v.nodes, v.at)
	}
	if err != nil {
		return b.Status, reconcile.TerminalError(err)
	}
	if !equality.Semantic.DeepEqual(b.Status, counted) {
		counted.NodesVersion = v.version
	}
	return counted, nil
}

// learn gives permits to those whose action is under way, as many as fit.
func learn(b *v1alpha1.RemediationBudget, nodes []NodeState, open []*v1alpha1.Remediation) {
	groupOf := make(map[string]string, len(nodes))
	for _, node := range nodes {
		groupOf[node.Name] = node.Group
	}
	acting := slices.DeleteFunc(slices.Clone(open), func(r *v1alpha1.Remediation) bool { return !underWay(r) })
	slices.SortFunc(acting, compare)
	for _, r := range acting {
		node, step := r.Spec.NodeName, next(r)
		group, selected := groupOf[node]
		g, counted := b.Status.Groups[group]
		if _, taken := g.Permits[node]; !selected || !counted || taken || Free(b, group) <= 0 {
			continue
		}
		disruptive := step != nil && step.Disruptive()
		permit := v1alpha1.Permit{Remediation: r.Name, Disruptive: disruptive && FreeDisruptions(b, group) > 0}
		replace(b, group, func(permits map[string]v1alpha1.Permit) { permits[node] = permit })
	}
}

// underWay reports whether an action of the remediation is, or may be. A maintenance that is
// announced may have been created since, and its node cordoned.
func underWay(r *v1alpha1.Remediation) bool {
	switch r.Status.Phase() {
	case v1alpha1.PhaseActionAnnounced, v1alpha1.PhaseActing, v1alpha1.PhaseMaintenanceAnnounced, v1alpha1.PhaseTakingOut:
		return true
	default:
		return !r.Ended() && r.BlockedBy() == v1alpha1.ReasonStillRunning
	}
}

// look reads the state of the nodes that the budget selects, and the open
// remediations.
func (r *Reconciler) look(ctx context.Context, b *v1alpha1.RemediationBudget) (*view, error) {
	all, version := r.Nodes()
	v := &view{of: b, at: r.Clock.Now(), version: version}
	selected, err := fleet.Selected(all, b.Spec.NodeSelector)
	if err != nil {
		return nil, err
	}
	v.live = b.Status.Nodes == nil
	if v.open, err = r.open(ctx, v.live); err != nil {
		return nil, fmt.Errorf("listing open remediations: %w", err)
	}
	var policies v1alpha1.RemedyPolicyList
	if err := r.Client.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing policies: %w", err)
	}
	v.nodes = states(b, selected, Sick(v.open, policies.Items))
	return v, nil
}

// open returns the open remediations, as the cache or as the API server has them. They must
// not be changed.
func (r *Reconciler) open(ctx context.Context, live bool) ([]*v1alpha1.Remediation, error) {
	if !live {
		return r.Store.Open(ctx), nil
	}
	var open []*v1alpha1.Remediation
	for next := ""; ; {
		var page v1alpha1.RemediationList
		if err := r.Live.List(ctx, &page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, err
		}
		for i := range page.Items {
			if !page.Items[i].Ended() {
				open = append(open, &page.Items[i])
			}
		}
		if next = page.Continue; next == "" {
			return open, nil
		}
	}
}

// pageSize is how many remediations are read at a time, most of which have ended.
const pageSize = 500
