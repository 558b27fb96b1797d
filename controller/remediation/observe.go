package remediation

import (
	"context"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
)

// observer reads what decisions are made from, and changes nothing.
type observer struct {
	// cache is read first.
	cache client.Reader
	// live reads from the API server.
	live client.Reader
	// store finds what there are thousands of.
	store index.Store
	// clock tells the time of decisions.
	clock clock.PassiveClock
	// seen remembers conditions; nil for who does not watch nodes.
	seen *evidence.Tracker
}

// observe reads all that a decision needs.
func (o observer) observe(ctx context.Context, remediation *v1alpha1.Remediation) (situation, error) {
	s := situation{remediation: remediation, now: o.clock.Now()}
	spec := &remediation.Spec

	var err error
	if s.node, err = o.node(ctx, spec); err != nil {
		return s, err
	}
	var policy v1alpha1.RemedyPolicy
	if found, err := o.get(ctx, spec.Policy.Name, &policy); err != nil {
		return s, err
	} else if found {
		s.policy = &policy
	}
	if err := o.maintenances(ctx, &s); err != nil {
		return s, err
	}
	if s.node != nil && s.givenBack() { // by a person, or by who knows already that the node is gone
		if s.node, err = o.liveNode(ctx, spec); err != nil {
			return s, err
		}
	}
	if s.attempt, s.others, err = o.attempts(ctx, remediation); err != nil {
		return s, err
	}
	if s.asked, err = o.request(ctx, spec.Request); err != nil {
		return s, err
	}
	if s.node == nil {
		return s, nil
	}
	s.seen = o.seenOf(s.node, spec.Match, s.now)
	var past v1alpha1.RemediationList
	if err := o.cache.List(ctx, &past, client.MatchingFields{index.ByNode: spec.NodeName}, client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("listing the remediations of node %s: %w", spec.NodeName, err)
	}
	for i := range past.Items {
		switch other := &past.Items[i]; {
		case other.Name == remediation.Name || stillThere(past.Items, other):
		case other.Spec.NodeUID == spec.NodeUID:
			s.past = append(s.past, *other)
		default:
			s.predecessors = append(s.predecessors, *other)
		}
	}
	var budgets v1alpha1.RemediationBudgetList
	if err := o.cache.List(ctx, &budgets, client.UnsafeDisableDeepCopy); err != nil {
		return s, fmt.Errorf("listing budgets: %w", err)
	}
	s.budgets = budget.Selecting(budgets.Items, s.node)
	// Or the cache is behind, and shows the maintenance as it was before it cordoned or drained the node.
	if s.cameBack() || s.notYetOut() {
		if err := o.liveMaintenance(ctx, &s); err != nil || s.node == nil {
			return s, err
		}
	}
	s.ahead = budget.Ahead(s.remediation, s.node, s.budgets, budgets.Items, func() []*v1alpha1.Remediation { return o.ahead(ctx) }, o.nodeOf(ctx))
	if s.controlPlane, err = o.controlPlane(ctx, s.node, budgets.Items); err != nil {
		return s, err
	}
	if slices.ContainsFunc(s.judged(&remediation.Status), func(m v1alpha1.ConditionMatch) bool { return evidence.NeedsLease(m.Type) }) {
		s.leaseRenewed, err = o.leaseRenewed(ctx, spec.NodeName)
	}
	return s, err
}

// seenOf returns what was seen of a node for the entries with debounce, by their index; nil: who
// asks has seen nothing.
func (o observer) seenOf(node *corev1.Node, match []v1alpha1.ConditionMatch, now time.Time) []evidence.Seen {
	if o.seen == nil {
		return nil
	}
	seen := make([]evidence.Seen, len(match))
	for i := range match {
		if m := &match[i]; m.Debounces() {
			seen[i] = o.seen.Seen(node, m, now)
		}
	}
	return seen
}

// attempts returns the attempt that the status names, nil if there is none, and the others on
// the node.
func (o observer) attempts(ctx context.Context, r *v1alpha1.Remediation) (underWay *attempt.Attempt, others []attempt.Attempt, err error) {
	if name := r.Status.Action; name != "" {
		get := func(name string, object client.Object) (bool, error) { return o.get(ctx, name, object) }
		if underWay, err = attempt.Get(attempt.By(r.Step(r.Status.Step)), name, get); err != nil {
			return nil, nil, err
		}
	}
	if others, err = attempt.OnNode(ctx, o.cache, r.Spec.NodeName); err != nil {
		return nil, nil, err
	}
	return underWay, slices.DeleteFunc(others, func(a attempt.Attempt) bool { return a.Name == r.Status.Action }), nil
}

// node returns the node that a remediation is of, nil if it is gone.
func (o observer) node(ctx context.Context, spec *v1alpha1.RemediationSpec) (*corev1.Node, error) {
	var node corev1.Node
	switch found, err := o.get(ctx, spec.NodeName, &node); {
	case err != nil || !found:
		return nil, err
	case node.UID != spec.NodeUID: // the cache may still have a node from before, or this one may be gone
		return o.liveNode(ctx, spec)
	default:
		return &node, nil
	}
}

// liveNode is node as the API server has it now.
func (o observer) liveNode(ctx context.Context, spec *v1alpha1.RemediationSpec) (*corev1.Node, error) {
	var node corev1.Node
	err := o.live.Get(ctx, types.NamespacedName{Name: spec.NodeName}, &node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", spec.NodeName, err)
	case node.UID != spec.NodeUID:
		return nil, nil
	default:
		return &node, nil
	}
}

// ahead are those who wait for permits, and may come first.
func (o observer) ahead(ctx context.Context) []*v1alpha1.Remediation {
	return o.blocked(ctx, gates.ReasonBudgetExhausted, gates.ReasonDisruptionLimit)
}

// blocked are those whom one of the reasons blocks. They must not be changed.
func (o observer) blocked(ctx context.Context, reasons ...string) (all []*v1alpha1.Remediation) {
	for _, reason := range reasons {
		all = append(all, o.store.BlockedBy(ctx, reason)...)
	}
	return all
}

// sick are the nodes that are, as budgets count them. If the policies can't be read, all count.
func (o observer) sick(ctx context.Context) map[types.UID]bool {
	var policies v1alpha1.RemedyPolicyList
	if err := o.cache.List(ctx, &policies, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing policies")
	}
	return budget.Sick(o.store.Open(ctx), policies.Items)
}

// budgets are the cache's own: they must not be changed.
func (o observer) budgets(ctx context.Context) []v1alpha1.RemediationBudget {
	var list v1alpha1.RemediationBudgetList
	if err := o.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing budgets")
	}
	return list.Items
}

func (o observer) nodeOf(ctx context.Context) func(name string) *corev1.Node {
	return func(name string) *corev1.Node { return o.store.Node(ctx, name) }
}

// controlPlane returns the state of the control plane if the node is part of it.
func (o observer) controlPlane(ctx context.Context, node *corev1.Node, budgets []v1alpha1.RemediationBudget) (*gates.ControlPlane, error) {
	if !fleet.ControlPlane(node) {
		return nil, nil
	}
	var nodes corev1.NodeList
	if err := o.cache.List(ctx, &nodes, client.HasLabels{fleet.ControlPlaneLabel}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the nodes of the control plane: %w", err)
	}
	state := &gates.ControlPlane{
		Nodes: len(nodes.Items), ActingOn: budget.OtherInControlPlane(budgets, o.store.Open(ctx), node.Name, o.nodeOf(ctx)),
	}
	for i := range nodes.Items {
		if other := &nodes.Items[i]; other.Name != node.Name && fleet.Available(other) {
			state.ReadyOthers++
		}
	}
	return state, nil
}

// get reads an object from the cache, and from the API server when the cache
// does not have it: absence is never concluded from a cache that is behind.
func (o observer) get(ctx context.Context, name string, obj client.Object) (bool, error) {
	key := types.NamespacedName{Name: name}
	err := o.cache.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		err = o.live.Get(ctx, key, obj)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %T %s: %w", obj, name, err)
	}
	return true, nil
}

func (o observer) leaseRenewed(ctx context.Context, node string) (time.Time, error) {
	var lease coordinationv1.Lease
	err := o.live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	if apierrors.IsNotFound(err) || err == nil && lease.Spec.RenewTime == nil {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the lease of node %s: %w", node, err)
	}
	return v1alpha1.LeaseRenewed(&lease), nil
}
