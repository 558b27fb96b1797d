package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/maintenance"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/internal/deadline"
)

const (
	// alone is after how long without a change nobody is believed to be at work, where
	// no controller says that it leads.
	alone = 20 * time.Second
	// settled is after how long with nothing left nothing is believed to be on its way
	// that was begun before its policy was deleted.
	settled = 2 * time.Second
	// undoTimeout bounds how long the end of a pause may take.
	undoTimeout = 15 * time.Second
	// uninstallReason is why the cluster is paused.
	uninstallReason = "being uninstalled"
)

// How the rest is removed. Helm leaves the namespace and the CustomResourceDefinitions.
const (
	removeByHelm = `  helm uninstall nodemend -n nodemend-system
  kubectl delete namespace nodemend-system
  kubectl get crd -o name | grep nodemend.dev | xargs kubectl delete
`
	removeByManifest = `  kubectl delete -f install.yaml
`
)

const uninstallHelp = `Prepare a cluster for the removal of Nodemend: nothing is left cordoned, held by a
finalizer, or running on a node. In this order:

  1. the cluster is paused, and actions that run, or may, are waited for;
  2. all RemedyPolicies are deleted (keep your files), then all Remediations,
     NodeMaintenances and NodemendRemediations: the controller gives their nodes
     back;
  3. where no controller runs, the nodes are uncordoned from here, those only
     that Nodemend has cordoned, and what it has told Karpenter is taken back;
     finalizers are removed;
  4. all RemediationBudgets are deleted, and NodeActions that nobody has deleted:
     where you may not do that, they go with their CustomResourceDefinition.

It can be repeated. If it fails, the cluster is no longer paused, unless somebody else has
paused it. Afterwards remove the rest the way it was installed: by

` + removeByHelm + `
or by

` + removeByManifest + `

Labels that keep nodes away from Nodemend (` + v1alpha1.ExcludeLabel + `) are people's and stay.`

func (t *tool) uninstallCommand() *cobra.Command {
	var yes bool
	patience := spanFlag(10 * time.Minute)
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Give all nodes back and delete all objects, to remove Nodemend",
		Long:  uninstallHelp,
		Example: `  kubectl nodemend uninstall --yes
  helm uninstall nodemend -n nodemend-system`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it; without it only what would be done is shown")
	cmd.Flags().Var(&patience, "timeout", "how long running actions are waited for, and then the controller")
	cmd.RunE = t.run(func(ctx context.Context, c client.WithWatch, _ []string) error {
		u := &uninstall{tool: t, c: c}
		if !yes {
			return u.show(ctx)
		}
		return u.do(ctx, time.Duration(patience))
	})
	return cmd
}

type uninstall struct {
	*tool
	c client.Client
}

// show counts what would go.
func (u *uninstall) show(ctx context.Context) error {
	for _, kind := range []struct {
		name string
		list client.ObjectList
	}{
		{"RemedyPolicy", &v1alpha1.RemedyPolicyList{}}, {"Remediation", &v1alpha1.RemediationList{}},
		{"NodeMaintenance", &v1alpha1.NodeMaintenanceList{}}, {"RemediationBudget", &v1alpha1.RemediationBudgetList{}},
		{"NodemendRemediation", &v1alpha1.NodemendRemediationList{}},
	} {
		found, err := u.all(ctx, kind.list)
		if err != nil {
			return err
		}
		u.printf("%s would be deleted\n", count(len(found), kind.name))
	}
	marked, err := u.marked(ctx)
	if err != nil {
		return err
	}
	u.printf("%s would be given back: uncordoned, and left to Karpenter again\n", count(len(marked), "node"))
	u.printf("nothing was changed; to do it: kubectl nodemend uninstall --yes\n")
	return nil
}

// do pauses the cluster and gives it back. If that fails, its own pause does not stay.
func (u *uninstall) do(ctx context.Context, patience time.Duration) error {
	mine, err := u.pause(ctx)
	if err != nil {
		return err
	}
	err = u.giveBack(ctx, patience)
	if err == nil || mine == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout) // it may have been interrupted
	defer cancel()
	if undoErr := u.undo(ctx, mine); undoErr != nil {
		return fmt.Errorf("%w; the cluster stays paused (%w): kubectl nodemend resume", err, undoErr)
	}
	u.printf("the pause of this uninstall is undone\n")
	return err
}

// pause pauses the cluster and returns the pause; nil if there is one of somebody else, or
// the cluster does not know the kind any more.
func (u *uninstall) pause(ctx context.Context) (*v1alpha1.RemediationBudget, error) {
	var theirs v1alpha1.RemediationBudget
	switch err := u.c.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterPauseBudget}, &theirs); {
	case meta.IsNoMatchError(err):
		return nil, nil
	case err == nil && theirs.PausesCluster():
		return nil, nil
	case err == nil:
		_, err := pauseCluster(ctx, u.c, true, uninstallReason)
		return nil, err
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	mine := clusterPause(uninstallReason)
	switch err := u.c.Create(ctx, mine, fieldOwner); {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return mine, nil
}

// undo deletes the pause unless somebody has made it his own meanwhile.
func (u *uninstall) undo(ctx context.Context, mine *v1alpha1.RemediationBudget) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var now v1alpha1.RemediationBudget
		err := u.c.Get(ctx, client.ObjectKeyFromObject(mine), &now)
		if err != nil || now.UID != mine.UID || now.Spec.PauseReason != mine.Spec.PauseReason {
			return client.IgnoreNotFound(err)
		}
		return client.IgnoreNotFound(u.c.Delete(ctx, &now, client.Preconditions{UID: &now.UID, ResourceVersion: &now.ResourceVersion}))
	})
}

// giveBack does all that comes after the pause.
func (u *uninstall) giveBack(ctx context.Context, patience time.Duration) error {
	if err := u.idle(ctx, patience); err != nil {
		return err
	}
	if err := u.deleteAll(ctx, &v1alpha1.RemedyPolicyList{}); err != nil {
		return err
	}
	if err := u.empty(ctx, patience, &v1alpha1.RemediationList{}, &v1alpha1.NodeMaintenanceList{}, &v1alpha1.NodemendRemediationList{}); err != nil {
		return err
	}
	nodes, err := u.marked(ctx)
	if err != nil {
		return err
	}
	for i := range nodes {
		if _, err := maintenance.GiveBack(ctx, u.c, &nodes[i]); err != nil {
			return fmt.Errorf("uncordoning node %s: %w", nodes[i].Name, err)
		}
		u.printf("node %s is given back\n", nodes[i].Name)
	}
	if err := u.tellOutOfService(ctx); err != nil {
		return err
	}
	if err := u.deleteAll(ctx, &v1alpha1.RemediationBudgetList{}); err != nil {
		return err
	}
	if err := u.deleteActions(ctx); apierrors.IsForbidden(err) {
		u.printf("NodeActions are left: only the controller and system:masters may delete them; they go with their CustomResourceDefinition\n")
	} else if err != nil {
		return err
	}
	u.printf("all nodes are given back; now remove the rest the way it was installed: by\n%sor by\n%s", removeByHelm, removeByManifest)
	return nil
}

// all are the objects of a kind, none if the cluster does not know it.
func (u *uninstall) all(ctx context.Context, list client.ObjectList) ([]client.Object, error) {
	err := u.c.List(ctx, list)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			objects = append(objects, obj)
		}
		return nil
	})
	return objects, err
}

// marked are the nodes that Nodemend has cordoned, or forbidden Karpenter to repair.
func (u *uninstall) marked(ctx context.Context) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := u.c.List(ctx, &nodes); err != nil {
		return nil, err
	}
	var marked []corev1.Node
	for i := range nodes.Items {
		_, cordoned := nodes.Items[i].Annotations[v1alpha1.CordonedAnnotation]
		if _, held := nodes.Items[i].Annotations[v1alpha1.RepairHeldAnnotation]; cordoned || held {
			marked = append(marked, nodes.Items[i])
		}
	}
	return marked, nil
}

// tellOutOfService tells of the nodes that keep the taint out-of-service: nobody takes it away any more.
func (u *uninstall) tellOutOfService(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := u.c.List(ctx, &nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; n.Annotations[v1alpha1.OutOfServiceAnnotation] != "" {
			u.printf("look at node %s: it is out of service by Nodemend. When it is Ready after another boot, and no pod and volume of the one before is left: "+
				"kubectl taint nodes %s %s- && kubectl annotate node %s %s-\n", n.Name, n.Name, corev1.TaintNodeOutOfService, n.Name, v1alpha1.OutOfServiceAnnotation)
		}
	}
	return nil
}

// idle waits until no action runs on any node.
func (u *uninstall) idle(ctx context.Context, patience time.Duration) error {
	var running []string
	err := wait.PollUntilContextTimeout(ctx, lookEvery, patience, true, func(ctx context.Context) (bool, error) {
		var actions v1alpha1.NodeActionList
		if _, err := u.all(ctx, &actions); err != nil {
			return false, err
		}
		before := len(running)
		running = running[:0]
		for i := range actions.Items {
			if a := &actions.Items[i]; deadline.MayRun(a, u.clock.Now()) {
				running = append(running, a.Name)
			}
		}
		if len(running) > 0 && len(running) != before {
			u.printf("waiting for actions that run: %s\n", some(running, false))
		}
		return len(running) == 0, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("these actions still run: %s; wait, or repeat with a longer --timeout", some(running, true))
	}
	return err
}

// led reports whether a controller says that it leads.
func (u *uninstall) led(ctx context.Context) (bool, error) {
	var leases coordinationv1.LeaseList
	if err := u.c.List(ctx, &leases, client.MatchingFields{"metadata.name": leaderLease}); err != nil {
		return false, err
	}
	return slices.ContainsFunc(leases.Items, func(l coordinationv1.Lease) bool { return u.leads(&l) }), nil
}

// kind is the name of an object's kind, as people know it.
func (u *uninstall) kind(obj client.Object) string {
	gvk, err := u.c.GroupVersionKindFor(obj)
	if err != nil {
		return "object"
	}
	return gvk.Kind
}

func (u *uninstall) deleteAll(ctx context.Context, list client.ObjectList) error {
	objects, err := u.all(ctx, list)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		if obj.GetDeletionTimestamp() != nil {
			continue
		}
		if err := client.IgnoreNotFound(u.c.Delete(ctx, obj)); err != nil {
			return fmt.Errorf("deleting %s %s: %w", u.kind(obj), obj.GetName(), err)
		}
	}
	return nil
}

// empty deletes all objects of the kinds until there is none. Where nothing moves, no
// controller runs, and the finalizers are removed from here.
func (u *uninstall) empty(ctx context.Context, patience time.Duration, kinds ...client.ObjectList) error {
	began := u.clock.Now()
	moved, left := began, -1
	return wait.PollUntilContextCancel(ctx, lookEvery, true, func(ctx context.Context) (bool, error) {
		var objects []client.Object
		for _, kind := range kinds {
			if err := u.deleteAll(ctx, kind); err != nil {
				return false, err
			}
			found, err := u.all(ctx, kind)
			if err != nil {
				return false, err
			}
			objects = append(objects, found...)
		}
		if len(objects) != left {
			left, moved = len(objects), u.clock.Now()
			if left > 0 {
				u.printf("waiting for the controller to give back: %s left\n", count(left, "object"))
			}
		}
		if left == 0 {
			return u.clock.Since(moved) >= settled, nil
		}
		quiet, late := u.clock.Since(moved) > alone, u.clock.Since(began) > patience
		if !quiet && !late {
			return false, nil
		}
		switch led, err := u.led(ctx); {
		case err != nil:
			return false, err
		case led && late:
			return false, fmt.Errorf("the controller has not given back %s: see kubectl get remediations,nodemaintenances, or repeat with a longer --timeout", some(names(objects), false))
		case led || !quiet:
			return false, nil
		}
		u.printf("no controller leads: finalizers are removed from here\n")
		return true, u.release(ctx, objects)
	})
}

func names(objects []client.Object) []string {
	names := make([]string, len(objects))
	for i := range objects {
		names[i] = objects[i].GetName()
	}
	return names
}

// deleteActions deletes what is left of the NodeActions. Before it tells of what they have left, and lets them go, so
// that they do not keep their CustomResourceDefinition: not everybody may delete them.
func (u *uninstall) deleteActions(ctx context.Context) error {
	left, err := u.all(ctx, &v1alpha1.NodeActionList{})
	if err != nil {
		return err
	}
	for _, obj := range left {
		for _, remains := range remains(obj.(*v1alpha1.NodeAction), u.clock.Now()) {
			u.printf("look at %s\n", remains)
		}
	}
	if err := u.release(ctx, left); err != nil {
		return err
	}
	return u.deleteAll(ctx, &v1alpha1.NodeActionList{})
}

// remains says what an action has left that nobody brings to its end any more, and how to end it.
func remains(a *v1alpha1.NodeAction, now time.Time) (all []string) {
	if deadline.MayBeOff(a, now) {
		all = append(all, fmt.Sprintf("node %s: its power may be off by action %s, which no remote runner has brought to its end", a.Spec.NodeName, a.Name))
		if host := a.Status.Power.Host; host != nil {
			where := ""
			if host.Kubeconfig != "" {
				where = ", in the cluster of " + host.Kubeconfig
			}
			all = append(all, fmt.Sprintf("BareMetalHost %s/%s%s: it may keep that machine off: kubectl -n %[1]s annotate baremetalhost %[2]s reboot.metal3.io/nodemend-", host.Namespace, host.Name, where))
		}
	}
	if a.Finished() != nil {
		return all
	}
	if r := a.Status.Replace; r != nil && r.SentAt != nil && r.Method == v1alpha1.ReplaceRemediate {
		take := fmt.Sprintf("kubectl -n %s annotate machines.cluster.x-k8s.io %s cluster.x-k8s.io/remediate-machine-", r.Machine.Namespace, r.Machine.Name)
		if r.Machine.Kind == "Server" {
			take = fmt.Sprintf("openstack server unset --property nodemend-replace %s", r.Machine.UID)
		}
		all = append(all, fmt.Sprintf("%s: it is marked to be replaced by action %s. If it is not to be: %s", r.Machine.String(), a.Name, take))
	}
	if e := a.Status.External; e != nil {
		all = append(all, fmt.Sprintf("%s: its program may be at work for action %s, and nobody deletes it when that is done", e.Object.String(), a.Name))
	}
	return all
}

// release removes the finalizers of Nodemend, and those of nobody else.
func (u *uninstall) release(ctx context.Context, objects []client.Object) error {
	var errs []error
	for _, obj := range objects {
		before := obj.DeepCopyObject().(client.Object)
		ours := false
		for _, finalizer := range []string{v1alpha1.RemediationFinalizer, v1alpha1.MaintenanceFinalizer, v1alpha1.PowerFinalizer, v1alpha1.RequestFinalizer, v1alpha1.ExternalFinalizer} {
			ours = controllerutil.RemoveFinalizer(obj, finalizer) || ours
		}
		if !ours {
			continue
		}
		if m, is := obj.(*v1alpha1.NodeMaintenance); is && m.MayBeOff() {
			u.printf("look at node %s: its machine may be off for maintenance %s, and no remote runner has switched it on\n", m.Spec.NodeName, m.Name)
		}
		patch := optimistic.Since(before)
		if err := client.IgnoreNotFound(u.c.Patch(ctx, obj, patch, fieldOwner)); err != nil {
			errs = append(errs, fmt.Errorf("removing the finalizer of %s %s: %w", u.kind(obj), obj.GetName(), err))
		}
	}
	return errors.Join(errs...)
}
