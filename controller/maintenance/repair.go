package maintenance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/others"
)

// Karpenter since 1.15 repairs no node that has an annotation: it is set with the cordon, so that it does not reboot
// or replace the node meanwhile, and goes with it.

var (
	vetoPath     = annotationsPath + "/" + strings.ReplaceAll(others.DoNotRepairAnnotation, "/", "~1")
	vetoMarkPath = annotationsPath + "/" + strings.ReplaceAll(v1alpha1.RepairHeldAnnotation, "/", "~1")
)

// vetoed reports whether our mark says that we have forbidden Karpenter to repair the node.
func vetoed(node *corev1.Node) bool {
	_, is := node.Annotations[v1alpha1.RepairHeldAnnotation]
	return is
}

// mayVeto reports whether Karpenter may repair the node, and nobody has said anything about that.
func mayVeto(node *corev1.Node) bool {
	_, has := node.Labels[others.NodePoolLabel]
	_, said := node.Annotations[others.DoNotRepairAnnotation]
	return has && !said && !vetoed(node)
}

// vetoPatch returns the patch that forbids the repair of a node that we have cordoned.
func vetoPatch(node *corev1.Node, mark string) []operation {
	cordon, cordoned := marked(node)
	if !cordoned || !mayVeto(node) {
		return nil
	}
	return []operation{
		{Op: "test", Path: uidPath, Value: node.UID},
		{Op: "test", Path: markPath, Value: cordon},
		{Op: "test", Path: vetoPath, Value: optimistic.Absent()},
		{Op: "add", Path: vetoPath, Value: "true"},
		{Op: "add", Path: vetoMarkPath, Value: mark},
	}
}

// liftPatch returns the patch that takes back what we have forbidden, in one step that fails if it is not what it
// was; nil: nothing. What somebody else has written since stays.
func liftPatch(node *corev1.Node) []operation {
	if !vetoed(node) {
		return nil
	}
	patch := []operation{
		{Op: "test", Path: vetoMarkPath, Value: node.Annotations[v1alpha1.RepairHeldAnnotation]},
		{Op: "remove", Path: vetoMarkPath},
	}
	if node.Annotations[others.DoNotRepairAnnotation] == "true" && others.DoNotRepairIsOurs(node) {
		patch = append(patch, operation{Op: "test", Path: vetoPath, Value: "true"}, operation{Op: "remove", Path: vetoPath})
	}
	return patch
}

// repair has a node that we have cordoned not repaired by Karpenter for as long as somebody holds it who has
// something to do there, and then leaves it to Karpenter.
func (r *Reconciler) repair(ctx context.Context, node *corev1.Node, holders []*v1alpha1.NodeMaintenance) error {
	if !vetoed(node) && !mayVeto(node) {
		return nil
	}
	by, err := r.busy(ctx, r.Client, holders)
	if err != nil || (by != nil) == vetoed(node) {
		return err
	}
	var live corev1.Node
	if err := r.Live.Get(ctx, types.NamespacedName{Name: node.Name}, &live); err != nil {
		return fmt.Errorf("reading node %s: %w", node.Name, err)
	}
	if live.UID != node.UID {
		return nil // its event comes
	}
	patch := liftPatch(&live)
	if by != nil {
		patch = vetoPatch(&live, by.Name)
	} else if stands, err := r.forbids(ctx, &live, holders); err != nil || stands {
		return err // its event comes
	}
	if patch == nil {
		return nil
	}
	if err := r.patch(ctx, node.Name, patch); err != nil {
		return fmt.Errorf("telling Karpenter whether to repair node %s: %w", node.Name, err)
	}
	return nil
}

// forbids reports whether the repair of the node stays forbidden, although the cache shows that nobody who holds it has
// something to do there: it may be behind of what they are for, and of another one that holds the node.
func (r *Reconciler) forbids(ctx context.Context, node *corev1.Node, holders []*v1alpha1.NodeMaintenance) (bool, error) {
	if by, err := r.busy(ctx, r.Live, holders); by != nil || err != nil {
		return by != nil, err
	}
	name := node.Annotations[v1alpha1.RepairHeldAnnotation]
	if name == "" || slices.ContainsFunc(holders, func(m *v1alpha1.NodeMaintenance) bool { return m.Name == name }) {
		return false, nil
	}
	var m v1alpha1.NodeMaintenance
	if err := client.IgnoreNotFound(r.Live.Get(ctx, types.NamespacedName{Name: name}, &m)); err != nil {
		return false, fmt.Errorf("reading maintenance %s: %w", name, err)
	}
	return m.Name == name && m.Holds(node), nil
}

// busy returns the first maintenance whose node nobody else is to repair: a person's, or one of a remediation that
// has a step left, as it is read from there. nil: there is none.
func (r *Reconciler) busy(ctx context.Context, from client.Reader, holders []*v1alpha1.NodeMaintenance) (*v1alpha1.NodeMaintenance, error) {
	for _, m := range holders {
		owner := m.Spec.Remediation
		if owner == nil {
			return m, nil
		}
		var remediation v1alpha1.Remediation
		key := types.NamespacedName{Name: owner.Name}
		err := from.Get(ctx, key, &remediation)
		if apierrors.IsNotFound(err) || err == nil && remediation.UID != owner.UID { // which the cache may not have yet
			err = r.Live.Get(ctx, key, &remediation)
		}
		switch {
		case apierrors.IsNotFound(err) || err == nil && remediation.UID != owner.UID:
		case err != nil:
			return nil, fmt.Errorf("reading remediation %s: %w", owner.Name, err)
		case goesOn(&remediation):
			return m, nil
		}
	}
	return nil, nil
}

// goesOn reports whether there is something left to do for a remediation: its node is not left to others yet.
func goesOn(r *v1alpha1.Remediation) bool {
	state := r.State()
	return !r.Ended() && state != v1alpha1.ReasonExhausted && state != v1alpha1.ReasonStopped
}
