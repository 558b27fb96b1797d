package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/index"
)

// ErrExhausted is wrapped by the error of Take when a budget refuses.
var ErrExhausted = errors.New("no permit")

// ErrPaused is an ErrExhausted of a budget that a person has paused.
var ErrPaused = fmt.Errorf("%w while it is paused", ErrExhausted)

// ErrDisruptionLimit is an ErrExhausted that concerns disruptive steps alone.
var ErrDisruptionLimit = fmt.Errorf("%w for a disruptive step", ErrExhausted)

// Refused is the error of Take when a budget refuses.
type Refused struct {
	// Taken are the budgets whose permits are held for the version that was asked for.
	Taken []v1alpha1.RemediationBudget
	err   error
}

// Error says which budget refuses, and why.
func (r *Refused) Error() string { return r.err.Error() }

// Unwrap returns an ErrExhausted.
func (r *Refused) Unwrap() error { return r.err }

// Take takes the permit for the node in every one of the budgets, in their
// order. Taking a permit that the remediation holds already succeeds, and may
// make it one for a disruptive step, which it is until it is released, and change its
// version for a later one; without a version it keeps the one it has. Version known is that up to
// which all that has happened to nodes is known to whoever asks, with the node as it was then: if
// somebody knows more who has counted, the error is a conflict, for the node may be in
// another group by now. When one refuses, the error is a Refused, and the permits of those
// before it are held: another controller may have taken them for the same version, and be about
// to use them, so whoever releases them makes sure of that first. After any other error
// the permits may or may not be held, and Take or Release is to be called again.
//
// No two control-plane nodes get permits at once, whatever budgets select them and however
// many controllers there are.
func (p *Permits) Take(ctx context.Context, budgets []v1alpha1.RemediationBudget, node *corev1.Node, permit v1alpha1.Permit, known string) error {
	if refused := p.foresee(budgets, node, permit, known); refused != nil {
		return refused
	}
	controlPlane := fleet.ControlPlane(node)
	if controlPlane {
		select {
		case p.controlPlane <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		defer func() { <-p.controlPlane }()
		if err := p.aloneInControlPlane(ctx, node); err != nil {
			return err
		}
	}
	for i := range budgets {
		name := budgets[i].Name
		err := p.change(ctx, name, orderTake, func(was, b *v1alpha1.RemediationBudget) error { return take(was, b, node, permit, known) })
		switch {
		case errors.Is(err, ErrExhausted):
			return &Refused{Taken: budgets[:i], err: err}
		case err != nil:
			return fmt.Errorf("taking the permit of budget %s: %w", name, err)
		}
	}
	if controlPlane {
		// Another controller may have done the same at once. One of both sees the other now.
		if err := p.aloneInControlPlane(ctx, node); errors.Is(err, ErrExhausted) {
			return &Refused{Taken: budgets, err: err}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// foresee returns the refusal of any of several budgets as far as they are known, nil if
// there is none. Taking from the first what the last is known to refuse would be done and
// undone for as long as the cache is behind.
func (p *Permits) foresee(budgets []v1alpha1.RemediationBudget, node *corev1.Node, permit v1alpha1.Permit, known string) error {
	if len(budgets) < 2 {
		return nil
	}
	refused := &Refused{}
	for i := range budgets {
		newest := p.Newest(&budgets[i])
		if held, _, taken := Permit(newest, node.Name); taken && held.Remediation == permit.Remediation && held.Version == permit.Version {
			refused.Taken = append(refused.Taken, budgets[i])
		}
		if err := take(newest, newest.DeepCopy(), node, permit, known); refused.err == nil && errors.Is(err, ErrExhausted) {
			refused.err = err
		}
	}
	if refused.err == nil {
		return nil
	}
	return refused
}

// Release gives back the permits for the node in these budgets, if they are of the permit's
// remediation and version. A permit of another version was taken later, and is left alone.
//
// A disruptive permit is kept while the node may still be cordoned for the remediation; then
// the error is a conflict. After one is released, the nodes are counted again only by who has
// seen what the API server has of the node now.
func (p *Permits) Release(ctx context.Context, budgets []v1alpha1.RemediationBudget, node string, permit v1alpha1.Permit) error {
	var errs []error
	var left *corev1.Node
	free := func(_, b *v1alpha1.RemediationBudget) error { return release(b, node, permit, left) }
	for i := range budgets {
		name := budgets[i].Name
		err := p.change(ctx, name, orderRelease, free)
		if errors.Is(err, errNotLookedAt) {
			if left, err = p.leave(ctx, node, permit.Remediation); err == nil {
				err = p.change(ctx, name, orderRelease, free)
			}
		}
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("releasing the permit of budget %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// leave returns a node as the remediation leaves it; one that is gone has no version. It
// fails with a conflict as long as the node may yet be cordoned for the remediation: the
// permit for that could be another node's by then.
func (p *Permits) leave(ctx context.Context, name, remediation string) (*corev1.Node, error) {
	var node corev1.Node
	if err := client.IgnoreNotFound(p.live.Get(ctx, types.NamespacedName{Name: name}, &node)); err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	if node.Name == "" || node.Spec.Unschedulable {
		return &node, nil
	}
	var list v1alpha1.NodeMaintenanceList
	if err := p.live.List(ctx, &list, client.MatchingFields{index.MaintenancesByNode: name}); err != nil {
		return nil, fmt.Errorf("listing the maintenances of node %s: %w", name, err)
	}
	for i := range list.Items {
		m := &list.Items[i]
		leaving := m.DeletionTimestamp != nil && controllerutil.ContainsFinalizer(m, v1alpha1.MaintenanceFinalizer)
		if m.Spec.Remediation != nil && m.Spec.Remediation.Name == remediation && (leaving || m.Holds(&node)) {
			return nil, apierrors.NewConflict(corev1.Resource("nodes"), name, fmt.Errorf("it may yet be cordoned for maintenance %s", m.Name))
		}
	}
	return &node, nil
}

// take gives the node's permit to the remediation, if the limits leave one. A permit
// that the API server has for another one can't be passed on in the write that releases it.
// One for a later version of the remediation stays, and the error is a conflict: who took it may
// be about to announce an action under it, and an earlier version could be released unnoticed.
// It is a conflict, too, if the group in which the node is may be another by now, of which somebody
// knew who has counted.
func take(was, b *v1alpha1.RemediationBudget, node *corev1.Node, permit v1alpha1.Permit, known string) error {
	for _, state := range []*v1alpha1.RemediationBudget{was, b} {
		held, _, taken := Permit(state, node.Name)
		switch {
		case taken && held.Remediation != permit.Remediation:
			return exhausted(b, "remediation %s acts on node %s", held.Remediation, node.Name)
		case taken && permit.Version != "" && fleet.Later(permit.Version, held.Version) != permit.Version:
			return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("remediations").GroupResource(), permit.Remediation,
				fmt.Errorf("budget %s has its permit for the later version %s", b.Name, held.Version))
		}
	}
	held, group, taken := Permit(b, node.Name)
	// If the node was relabelled meanwhile, what is begun now counts where it is.
	former, moved := group, taken && permit.Version != "" && group != GroupOf(b, node)
	anew := !taken || moved
	if permit.Version == "" {
		permit.Version = held.Version
	}
	permit.Disruptive = permit.Disruptive || held.Disruptive
	switch {
	case !anew && held == permit:
		return nil
	case anew && fleet.Later(known, b.Status.NodesVersion) != known:
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("remediationbudgets").GroupResource(), b.Name, errBehind)
	case anew && len(Selecting([]v1alpha1.RemediationBudget{*b}, node)) == 0: // whoever asks has an earlier view of it
		return exhausted(b, "it does not select node %s any more", node.Name)
	case b.Spec.Paused:
		return fmt.Errorf("%w: budget %s", ErrPaused, b.Name)
	case anew:
		group = GroupOf(b, node)
	}
	g := b.Status.Groups[group]
	switch {
	case !Counted(b, group):
		return exhausted(b, "the nodes of group %s are not counted yet", group)
	case anew && Free(b, group) <= 0:
		return exhausted(b, "%d of %d permits of group %s are taken", len(g.Permits), Allowed(b, group), group)
	case permit.Disruptive && (anew || !held.Disruptive) && FreeDisruptions(b, group) <= 0:
		return fmt.Errorf("%w: budget %s: %d of %d permits of group %s for disruptive steps are taken",
			ErrDisruptionLimit, b.Name, Disruptive(g.Permits), Disruptions(b, group), group)
	}
	if moved {
		delete(b.Status.Groups[former].Permits, node.Name)
	}
	if g.Permits == nil {
		g.Permits = map[string]v1alpha1.Permit{}
	}
	g.Permits[node.Name] = permit
	b.Status.Groups[group] = g
	return nil
}

// errNotLookedAt says that a permit was for a disruptive step, so that the node has to be
// looked at before it is released.
var errNotLookedAt = errors.New("the node was not looked at")

// release takes the permit back for a node that was left like that.
func release(b *v1alpha1.RemediationBudget, node string, permit v1alpha1.Permit, left *corev1.Node) error {
	held, group, taken := Permit(b, node)
	if !taken || held.Remediation != permit.Remediation || held.Version != permit.Version {
		return nil
	}
	if held.Disruptive && left == nil {
		return errNotLookedAt
	}
	g := b.Status.Groups[group]
	delete(g.Permits, node)
	if held.Disruptive {
		holdBack(&g)
		b.Status.NodesVersion = fleet.Later(b.Status.NodesVersion, left.ResourceVersion)
	}
	b.Status.Groups[group] = g
	return nil
}

// holdBack keeps a permit for a disruptive step that was returned from everybody
// else until the group is counted again by who knows whether the node is still out.
func holdBack(g *v1alpha1.BudgetGroup) {
	if g.DisruptionLimit != nil && *g.DisruptionLimit > 0 {
		fewer := *g.DisruptionLimit - 1
		g.DisruptionLimit = &fewer
	}
}

func exhausted(b *v1alpha1.RemediationBudget, format string, args ...any) error {
	return fmt.Errorf("%w: budget %s: %s", ErrExhausted, b.Name, fmt.Sprintf(format, args...))
}

// aloneInControlPlane refuses while another node of the control plane is acted on.
func (p *Permits) aloneInControlPlane(ctx context.Context, node *corev1.Node) error {
	other, err := p.otherInControlPlane(ctx, node.Name)
	if err == nil && other != "" {
		err = fmt.Errorf("%w: control-plane node %s is being acted on, and only one at a time is", ErrExhausted, other)
	}
	return err
}

// otherInControlPlane returns another node of the control plane that holds a permit or has an
// action under way, "" if there is none. Such nodes are few, so the API server is asked about
// each: in the cache a budget that was created again is missing for a moment, and so is what
// was begun lately. Of nodes that are gone only the cache knows.
func (p *Permits) otherInControlPlane(ctx context.Context, node string) (string, error) {
	var budgets v1alpha1.RemediationBudgetList
	if err := p.live.List(ctx, &budgets); err != nil {
		return "", fmt.Errorf("listing budgets: %w", err)
	}
	var remediations v1alpha1.RemediationList
	if err := p.client.List(ctx, &remediations, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing remediations: %w", err)
	}
	open := make([]*v1alpha1.Remediation, len(remediations.Items))
	for i := range remediations.Items {
		open[i] = &remediations.Items[i]
	}
	var nodes corev1.NodeList
	if err := p.client.List(ctx, &nodes, client.HasLabels{fleet.ControlPlaneLabel}, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing the nodes of the control plane: %w", err)
	}
	for i := range nodes.Items {
		name := nodes.Items[i].Name
		if name == node {
			continue
		}
		var latest v1alpha1.RemediationList
		if err := p.live.List(ctx, &latest, client.MatchingFields{index.ByNode: name}); err != nil {
			return "", fmt.Errorf("listing the remediations of node %s: %w", name, err)
		}
		for i := range latest.Items {
			open = append(open, &latest.Items[i])
		}
	}
	return OtherInControlPlane(budgets.Items, open, node, func(name string) *corev1.Node {
		var other corev1.Node
		if p.client.Get(ctx, types.NamespacedName{Name: name}, &other, client.UnsafeDisableDeepCopy) != nil {
			return nil
		}
		return &other
	}), nil
}

// OtherInControlPlane returns a node of the control plane, other than this one, on which
// something may be done; "" if there is none. Such a node holds a permit, or, as somebody may
// have deleted the budget, one of the remediations has an action under way on it. A node that is
// gone, for which nodeOf returns nil, counts as one of the control plane unless the remediation has
// seen that it was none: what was begun on it may still run.
func OtherInControlPlane(budgets []v1alpha1.RemediationBudget, remediations []*v1alpha1.Remediation, node string, nodeOf func(name string) *corev1.Node) string {
	first := ""
	look := func(name string, isNone func() bool) {
		if name == node || first != "" && first < name {
			return
		}
		if other := nodeOf(name); other == nil && !isNone() || other != nil && fleet.ControlPlane(other) {
			first = name
		}
	}
	seesNone := func(r *v1alpha1.Remediation) bool { return !ptr.Deref(r.Status.ControlPlane, true) }
	for i := range budgets {
		for _, group := range budgets[i].Status.Groups {
			for name, permit := range group.Permits {
				look(name, func() bool {
					return slices.ContainsFunc(remediations, func(r *v1alpha1.Remediation) bool { return r.Name == permit.Remediation && seesNone(r) })
				})
			}
		}
	}
	for _, r := range remediations {
		if underWay(r) {
			look(r.Spec.NodeName, func() bool { return seesNone(r) })
		}
	}
	return first
}
