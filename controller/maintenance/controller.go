// Package maintenance takes nodes out of service and gives them back: it cordons the
// node of every NodeMaintenance, drains it if asked to, and uncordons it when none
// holds it any more.
//
// A request is one node, with all that hold it, so that no decision about its cordon
// is taken twice at once. Nothing waits: what a drain waits for is looked at again.
package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/drain"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/worker"
)

// Drainer evicts the pods of a node, as drain.Drainer does.
type Drainer interface {
	Pass(ctx context.Context, node string, options *v1alpha1.Drain, mayEvict bool) (drain.Result, error)
	Arrived(ctx context.Context, node string, options *v1alpha1.Drain, ended *v1alpha1.DrainStatus) (*corev1.Pod, error)
	Forget(node string)
}

// Reconciler takes nodes out of service and gives them back.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Drainer evicts pods.
	Drainer Drainer
	// Clock tells when a drain takes too long.
	Clock clock.PassiveClock
	// Events tells people what has changed.
	Events events.EventRecorder
	// LeftOff counts the machines that are left to people; nil: nobody does.
	LeftOff prometheus.Counter
	// Leases: medik8s' Lease of a node is taken before it is cordoned.
	Leases bool

	backoff worker.Backoff
	// draining are the places of nodes that are drained, doorbell is rung for those that wait for one.
	draining worker.Places
	doorbell worker.Doorbell
}

// Reconcile looks at one node and at all that hold it.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	wait, err := r.reconcile(ctx, request.Name)
	return r.backoff.Result(request.Name, wait, err)
}

// reconcile returns after how long to look again; 0: when something changes.
func (r *Reconciler) reconcile(ctx context.Context, name string) (wait time.Duration, err error) {
	var list v1alpha1.NodeMaintenanceList
	if err := r.Client.List(ctx, &list, client.MatchingFields{index.MaintenancesByNode: name}); err != nil {
		return 0, fmt.Errorf("listing the maintenances of node %s: %w", name, err)
	}
	node, err := r.node(ctx, name, list.Items)
	if err != nil {
		return 0, err
	}
	var holders, leaving []*v1alpha1.NodeMaintenance
	var errs []error
	for i := range list.Items {
		m := &list.Items[i]
		switch {
		case m.DeletionTimestamp != nil:
			leaving = append(leaving, m)
		case m.Spec.NodeUID != "" && (node == nil || node.UID != m.Spec.NodeUID):
			errs = append(errs, r.end(ctx, m))
		default:
			holders = append(holders, m)
		}
	}
	for _, m := range holders {
		errs = append(errs, r.keep(ctx, m))
	}
	if err := errors.Join(errs...); err != nil {
		return 0, err // nothing is held that could not be given back
	}
	renew, err := r.lease(ctx, node, holders, leaving)
	if err != nil {
		return 0, err
	}
	wait = renew
	cordon, err := r.cordon(ctx, node, holders, leaving)
	if err != nil {
		return 0, err
	}
	for _, m := range holders {
		if cordon == leftToAnother { // the end of its action wakes us
			errs = append(errs, r.waitForAnother(ctx, m, node))
			continue
		}
		again, err := r.progress(ctx, m, node, cordon)
		errs = append(errs, err)
		if again > 0 && (wait == 0 || again < wait) {
			wait = again
		}
	}
	if len(holders) == 0 {
		r.Drainer.Forget(name)
	}
	if renew == 0 && len(list.Items) > 0 { // who holds it has nothing to do there any more
		errs = append(errs, r.returnLease(ctx, name))
	}
	for _, m := range leaving {
		again, err := r.release(ctx, m, len(holders) > 0)
		errs = append(errs, err)
		if again > 0 && (wait == 0 || again < wait) {
			wait = again
		}
	}
	return wait, errors.Join(errs...)
}

// node returns the node, nil if there is none. What holds a node of another UID, or
// one that the cache does not have, is decided on what the API server says.
func (r *Reconciler) node(ctx context.Context, name string, maintenances []v1alpha1.NodeMaintenance) (*corev1.Node, error) {
	var node corev1.Node
	key := types.NamespacedName{Name: name}
	err := r.Client.Get(ctx, key, &node)
	doubtful := apierrors.IsNotFound(err)
	for i := range maintenances {
		uid := maintenances[i].Spec.NodeUID
		doubtful = doubtful || err == nil && uid != "" && uid != node.UID
	}
	if doubtful {
		node = corev1.Node{}
		err = r.Live.Get(ctx, key, &node)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return &node, nil
}

// keep makes sure that the maintenance is not gone before its node is given back, and what the
// remote runner switches for it is switched back.
func (r *Reconciler) keep(ctx context.Context, m *v1alpha1.NodeMaintenance) error {
	kept := m.DeepCopy()
	added := controllerutil.AddFinalizer(kept, v1alpha1.MaintenanceFinalizer)
	if m.Spec.Identify || m.Spec.Power != "" {
		added = controllerutil.AddFinalizer(kept, v1alpha1.PowerFinalizer) || added
	}
	if !added {
		return nil
	}
	if err := r.Client.Patch(ctx, kept, optimistic.Since(m), fieldmanager.Controller); err != nil {
		return fmt.Errorf("adding the finalizer of maintenance %s: %w", m.Name, err)
	}
	*m = *kept
	return nil
}

// end deletes a maintenance whose node is gone.
func (r *Reconciler) end(ctx context.Context, m *v1alpha1.NodeMaintenance) error {
	err := r.Client.Delete(ctx, m, client.Preconditions{UID: &m.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting maintenance %s, whose node is gone: %w", m.Name, err)
	}
	return nil
}

// release lets a deleted maintenance go whose node was given back: at once, unless the remote runner
// has yet to switch back what it has switched for it. others says whether another maintenance holds
// the node. It returns after how long to look again; 0: when something changes.
func (r *Reconciler) release(ctx context.Context, m *v1alpha1.NodeMaintenance, others bool) (time.Duration, error) {
	released := m.DeepCopy()
	wait, awaited := awaitedFor(m, others, r.Clock.Now())
	changed := false
	if !awaited || !m.MayBeOff() { // else the node is not given back yet
		changed = controllerutil.RemoveFinalizer(released, v1alpha1.MaintenanceFinalizer)
	}
	if !awaited {
		changed = controllerutil.RemoveFinalizer(released, v1alpha1.PowerFinalizer) || changed
	}
	if !changed {
		return wait, nil
	}
	err := r.Client.Patch(ctx, released, optimistic.Since(m), fieldmanager.Controller)
	if client.IgnoreNotFound(err) != nil {
		return 0, fmt.Errorf("removing the finalizer of maintenance %s: %w", m.Name, err)
	}
	if !awaited {
		r.tellLeft(m)
	}
	return wait, nil
}

// passTime bounds one look at the pods of a node with what it evicts, so that there is
// time left to say what came of it.
const passTime = 20 * time.Second

// cordonState is whose cordon a node has.
type cordonState int

const (
	noNode cordonState = iota
	cordonedByUs
	cordonedByOthers
	// leftToAnother: another program is about to let go of the node, and may want it uncordoned.
	leftToAnother
)

// cordon cordons a node that is held and gives back one that is not.
func (r *Reconciler) cordon(ctx context.Context, node *corev1.Node, holders, leaving []*v1alpha1.NodeMaintenance) (cordonState, error) {
	if node == nil {
		return noNode, nil
	}
	_, isMarked := marked(node)
	switch {
	case len(holders) == 0 && (touched(node) || len(leaving) > 0): // the cache may not show the mark yet
		return noNode, r.giveBack(ctx, node.Name)
	case len(holders) == 0:
		return noNode, nil
	case !node.Spec.Unschedulable || slices.ContainsFunc(holders, func(m *v1alpha1.NodeMaintenance) bool { return !saidCordoned(m, node) }):
	case isMarked:
		return cordonedByUs, r.repair(ctx, node, holders)
	default:
		return cordonedByOthers, nil
	}
	// Rare: the patch is made from what the API server has, for the cache keeps only
	// a part of it. And a cache that is behind may show the cordon of a maintenance that is gone: whoever
	// took that for ours would say so, and from then on cordon without a permit.
	live, err := r.sameNode(ctx, node)
	if err != nil {
		return noNode, fmt.Errorf("cordoning node %s: %w", node.Name, err)
	}
	busy, err := r.busy(ctx, r.Client, holders)
	if err != nil {
		return noNode, err
	}
	if patch := cordonPatch(live, holders[0].Name, busy != nil); patch != nil {
		if action, err := r.leftToAnother(ctx, node.Name); action != "" || err != nil {
			return leftToAnother, err
		}
		for _, m := range holders {
			latest, err := r.latest(ctx, m)
			if err := errors.Join(err, r.mayCordon(ctx, m, live)); err != nil {
				return noNode, err
			}
			*m = *latest // the cache may not show yet that it was drained
			// Before the cordon hides that pods may have come.
			if err := r.reopen(ctx, m, live); err != nil {
				return noNode, err
			}
		}
		if err := r.patch(ctx, node.Name, patch); err != nil {
			return noNode, fmt.Errorf("cordoning node %s: %w", node.Name, err)
		}
		r.tell(holders[0], corev1.EventTypeNormal, eventCordoned, "cordoned: "+holders[0].Spec.Reason)
		return cordonedByUs, nil
	}
	if _, isMarked := marked(live); !isMarked {
		return cordonedByOthers, nil
	}
	return cordonedByUs, nil
}

// saidCordoned reports whether the maintenance says that it has this node cordoned.
func saidCordoned(m *v1alpha1.NodeMaintenance, node *corev1.Node) bool {
	return m.WasCordoned() && m.Status.NodeUID == node.UID
}

// leftToAnother returns the action of another program that is about to let go of the node, "" if there is none: it
// was told to stop, and its object is not gone. SelfNodeRemediation before 0.12 uncordons the node then, whoever has
// cordoned it, and lets go once it sees it uncordoned a second later. Who cordons it again at once
// keeps it from that for ever. Its own taint keeps pods away meanwhile.
func (r *Reconciler) leftToAnother(ctx context.Context, node string) (action string, err error) {
	attempts, err := attempt.OnNode(ctx, r.Client, node)
	if i := slices.IndexFunc(attempts, func(a attempt.Attempt) bool { return !a.Stopped.IsZero() }); i >= 0 {
		return attempts[i].Name, err
	}
	return "", err
}

// waitForAnother says that the node of a maintenance is left to another program. One that had the node cordoned goes
// on saying so: it is cordoned for it again, without permits.
func (r *Reconciler) waitForAnother(ctx context.Context, m *v1alpha1.NodeMaintenance, node *corev1.Node) error {
	action, err := r.leftToAnother(ctx, node.Name)
	if err != nil || action == "" || saidCordoned(m, node) {
		return err
	}
	return r.write(ctx, m, notYet(m, action, r.Clock.Now()))
}

// reopen lets a drain that was over begin anew: the node was not cordoned meanwhile.
func (r *Reconciler) reopen(ctx context.Context, m *v1alpha1.NodeMaintenance, node *corev1.Node) error {
	if m.Status.NodeUID != node.UID {
		return nil
	}
	return r.beginAnew(ctx, m, "the node was uncordoned meanwhile")
}

// StillDrained reports whether no pod has come to the node of a maintenance since it was
// drained. A person may have uncordoned the node and cordoned it again before a watch told of
// it. If a pod has come, the drain begins anew. It fails with a conflict if anybody has changed
// the maintenance since it was read, which must not be written to.
func (r *Reconciler) StillDrained(ctx context.Context, m *v1alpha1.NodeMaintenance) (bool, error) {
	if m.Spec.Drain == nil || !m.Drained() {
		return m.Drained(), nil
	}
	pod, err := r.Drainer.Arrived(ctx, m.Spec.NodeName, m.Spec.Drain, m.Status.Drain)
	if pod == nil || err != nil {
		return err == nil, err
	}
	return false, r.beginAnew(ctx, m.DeepCopy(), fmt.Sprintf("pod %s/%s has come to the node meanwhile", pod.Namespace, pod.Name))
}

// beginAnew lets the drain of a maintenance begin anew if it was over.
func (r *Reconciler) beginAnew(ctx context.Context, m *v1alpha1.NodeMaintenance, why string) error {
	status, changed := reopened(m, why, r.Clock.Now())
	if !changed {
		return nil
	}
	return r.write(ctx, m, status)
}

// giveBack uncordons a node that nothing holds, and whose machine is not yet to be switched on: pods
// would come to a machine that goes down. What the cache does not show yet may hold it.
func (r *Reconciler) giveBack(ctx context.Context, name string) error {
	var node corev1.Node
	if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		return fmt.Errorf("reading node %s: %w", name, err)
	}
	var list v1alpha1.NodeMaintenanceList
	if err := r.Live.List(ctx, &list, client.MatchingFields{index.MaintenancesByNode: name}); err != nil {
		return fmt.Errorf("listing the maintenances of node %s: %w", name, err)
	}
	for i := range list.Items {
		if list.Items[i].KeepsActionsFrom(&node) {
			return nil // its event comes
		}
	}
	patch := uncordonPatch(&node)
	if patch == nil {
		return nil
	}
	if err := r.patch(ctx, name, patch); err != nil {
		return fmt.Errorf("uncordoning node %s: %w", name, err)
	}
	if _, marked := marked(&node); node.Spec.Unschedulable && (!marked || !cordonIsOurs(&node)) {
		r.tellNode(name, corev1.EventTypeNormal, eventGivenBack, fmt.Sprintf("nothing holds it any more; "+
			"it stays cordoned, not by Nodemend; when nobody works on it any more: kubectl uncordon %s", name))
		return nil
	}
	r.tellNode(name, corev1.EventTypeNormal, eventGivenBack, "uncordoned: nothing holds it any more")
	return nil
}

func (r *Reconciler) patch(ctx context.Context, node string, patch []operation) error {
	return optimistic.PatchNode(ctx, r.Client, node, patch)
}

// progress takes one step of the node's drain for the maintenance, and writes how far
// it is. It returns after how long to look again.
func (r *Reconciler) progress(ctx context.Context, m *v1alpha1.NodeMaintenance, node *corev1.Node, cordon cordonState) (time.Duration, error) {
	s := begin(m, node, cordon, r.Clock.Now())
	if s.over {
		return 0, r.write(ctx, m, s.status)
	}
	if _, err := drain.Decide(nil, m.Spec.Drain, s.now); err != nil {
		s.failed(err) // a selector that is none: a person's to mend, which wakes us
		return 0, r.write(ctx, m, s.status)
	}
	if !r.draining.Take(drains, m.Spec.NodeName) {
		s.waits()
		return worker.PlaceRecheck, r.write(ctx, m, s.status)
	}
	defer r.draining.Leave(drains, &r.doorbell)
	if s.begins {
		// What there is to do is written before any of it is done: the first pod to go may
		// be the one of this controller.
		if wait, err := r.pass(ctx, m, s, false); err != nil || m.Drained() {
			return wait, err
		}
		s = begin(m, node, cordon, r.Clock.Now())
	}
	if _, err := r.latest(ctx, m); err != nil {
		return 0, err
	}
	mayEvict := s.mayEvict()
	if mayEvict && m.Spec.NodeUID != "" {
		if _, err := r.sameNode(ctx, node); err != nil {
			return 0, fmt.Errorf("draining node %s: %w", node.Name, err)
		}
	}
	return r.pass(ctx, m, s, mayEvict)
}

// sameNode returns the node as the API server has it. It fails with a conflict if there is another one of that name: what
// holds the one that the cache shows may not hold that one.
func (r *Reconciler) sameNode(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	var live corev1.Node
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(node), &live); err != nil {
		return nil, fmt.Errorf("reading it: %w", err)
	}
	if live.UID != node.UID {
		return nil, apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("there is another one of that name"))
	}
	return &live, nil
}

// pass looks at the pods of the node, evicts those that may go now if it may, and writes
// what it has seen. It returns after how long to look again.
func (r *Reconciler) pass(ctx context.Context, m *v1alpha1.NodeMaintenance, s *state, mayEvict bool) (time.Duration, error) {
	passCtx, done := context.WithTimeout(ctx, passTime)
	defer done()
	result, err := r.Drainer.Pass(passCtx, m.Spec.NodeName, m.Spec.Drain, mayEvict)
	if err != nil {
		s.failed(err)
		return 0, errors.Join(err, r.write(ctx, m, s.status))
	}
	s.passed(result)
	return s.wait, r.write(ctx, m, s.status)
}

// mayCordon fails with a conflict if the node is not to be cordoned for the maintenance of a
// remediation: it does not name it any more, and is about to delete it; or it holds no
// permits for that, since the node was not available when it took them.
func (r *Reconciler) mayCordon(ctx context.Context, m *v1alpha1.NodeMaintenance, node *corev1.Node) error {
	owner := m.Spec.Remediation
	if owner == nil {
		return nil
	}
	forestalled := func(why string) error {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodemaintenances").GroupResource(), m.Name, errors.New(why))
	}
	var remediation v1alpha1.Remediation
	if err := client.IgnoreNotFound(r.Live.Get(ctx, types.NamespacedName{Name: owner.Name}, &remediation)); err != nil {
		return fmt.Errorf("reading remediation %s: %w", owner.Name, err)
	}
	switch gone := remediation.UID != owner.UID; {
	case !gone && remediation.Status.Maintenance != m.Name:
		return forestalled("its remediation does not name it")
	case m.WasCordoned(): // which a person has undone, or its tombstone may name it
		return nil
	case gone:
		return forestalled("its remediation is gone")
	case !fleet.Available(node): // this takes nothing away
		return nil
	}
	var budgets v1alpha1.RemediationBudgetList
	if err := r.Live.List(ctx, &budgets); err != nil {
		return fmt.Errorf("listing budgets: %w", err)
	}
	if !budget.MayTakeOut(budget.Selecting(budgets.Items, node), node.Name, owner.Name) {
		return forestalled("its remediation holds no permit to take the node out")
	}
	return nil
}

// latest returns the maintenance as the API server has it. It fails with a conflict if
// something else is wanted than the cache says: for one that somebody has deleted no node is
// cordoned and nothing is evicted.
func (r *Reconciler) latest(ctx context.Context, m *v1alpha1.NodeMaintenance) (*v1alpha1.NodeMaintenance, error) {
	var live v1alpha1.NodeMaintenance
	if err := r.Live.Get(ctx, types.NamespacedName{Name: m.Name}, &live); err != nil {
		return nil, fmt.Errorf("reading maintenance %s: %w", m.Name, err)
	}
	if live.UID != m.UID || live.Generation != m.Generation { // which a deletion changes, too
		return nil, apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodemaintenances").GroupResource(), m.Name,
			errors.New("it was changed meanwhile"))
	}
	return &live, nil
}

// write writes the status if it has changed. It fails with a conflict if anybody else
// has changed the object since it was read.
func (r *Reconciler) write(ctx context.Context, m *v1alpha1.NodeMaintenance, status v1alpha1.NodeMaintenanceStatus) error {
	if equality.Semantic.DeepEqual(m.Status, status) {
		return nil
	}
	updated := m.DeepCopy()
	updated.Status = status
	patch := optimistic.Since(m)
	if err := r.Client.Status().Patch(ctx, updated, patch, fieldmanager.Controller); err != nil {
		return fmt.Errorf("writing the status of maintenance %s: %w", m.Name, err)
	}
	r.report(m, updated)
	*m = *updated
	return nil
}
