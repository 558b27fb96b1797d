// Package remediation carries one incident from its trigger to its outcome:
// permits, actions, verification, next step, release.
//
// What comes next is decided by decide, a pure function of what was read; the
// reconciler here only reads, writes the status under optimistic locking, and
// carries out the decision. Every write is repeatable, so that a controller
// that stops at any point is taken over by the next one.
package remediation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/budget"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/worker"
)

// Reconciler carries remediations to their outcome.
type Reconciler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// StillDrained reports whether no pod has come to the node of a maintenance since it was
	// drained, by the API server itself. If one has, the drain begins anew.
	StillDrained func(context.Context, *v1alpha1.NodeMaintenance) (bool, error)
	// Permits takes and releases permits.
	Permits *budget.Permits
	// Nodes are those of the cache.
	Nodes fleet.Nodes
	// Store is that of the cache.
	Store index.Store
	// Clock tells the time of decisions.
	Clock clock.PassiveClock
	// Seen remembers conditions of entries with debounce.
	Seen *evidence.Tracker
	// Metrics counts outcomes.
	Metrics *Metrics
	// Events tells people what has changed.
	Events events.EventRecorder

	backoff worker.Backoff
	// asking are the places of those who ask what other programs have.
	asking  worker.Places
	written written
	// sightings are of nodes that the open remediations are about.
	sightings sightings
	// olderCRDs is to be told of once.
	olderCRDs sync.Once
	// doorbell is rung for remediations that the cache does not have yet, or that wait for a place.
	doorbell worker.Doorbell
}

// Created has the first decision made at once about a remediation that this controller has
// just created, and which must not be changed any more: the watch takes longer to show it.
func (r *Reconciler) Created(remediation *v1alpha1.Remediation) {
	r.written.created(remediation, r.Clock.Now())
	r.doorbell.Ring(remediation.Name)
}

// observer reads what the next decision is made from.
func (r *Reconciler) observer() observer {
	return observer{cache: r.Client, live: r.Live, store: r.Store, clock: r.Clock, seen: r.Seen}
}

// Reconcile takes the next decision about one remediation and carries it out.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	wait, err := r.reconcile(ctx, request.Name)
	if apierrors.IsNotFound(err) {
		r.written.drop(request.Name)
		r.sightings.note(request.Name, sighting{})
	}
	return r.backoff.Result(request.Name, wait, err)
}

// reconcile returns after how long to look again; 0: when something changes.
func (r *Reconciler) reconcile(ctx context.Context, name string) (wait time.Duration, err error) {
	remediation, err := r.read(ctx, name)
	if apierrors.IsNotFound(err) {
		return r.cleanUp(ctx, name)
	} else if err != nil {
		return 0, err
	}
	if remediation.Ended() {
		r.sightings.note(name, sighting{})
		if err := r.release(ctx, remediation); err != nil {
			return 0, err
		}
		if remediation.DeletionTimestamp == nil {
			return r.awaitHealthy(ctx, remediation)
		}
		return r.finalize(ctx, remediation)
	}
	s, err := r.observer().observe(ctx, remediation)
	if err != nil {
		return 0, err
	}
	if cancelled, err := r.cancelFormer(ctx, s); cancelled || err != nil {
		return 0, err // its event comes
	}
	d, err := r.decide(ctx, &s)
	if err != nil {
		return 0, err
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Decided", "rule", d.rule)
	return r.carryOut(ctx, s, d)
}

// decide decides by what was observed. That the node has recovered, or is to be taken out of service, and that another
// program is to let go of it, is decided by the node as the API server has it: the cache may show it as it was before.
// What has ended as recovered covers the incident, and before a drain nobody else asks what is so now.
func (r *Reconciler) decide(ctx context.Context, s *situation) (d decision, err error) {
	s.sighting = r.sightings.of(s.remediation.Name)
	defer func() { r.sightings.note(s.remediation.Name, d.sighting) }()
	d = decide(*s)
	if !d.recovers() && d.effect != takeOut && d.effect != recall {
		return d, nil
	}
	if s.node, err = r.observer().liveNode(ctx, &s.remediation.Spec); err != nil {
		return d, err
	}
	if s.node != nil {
		s.seen = r.observer().seenOf(s.node, s.remediation.Spec.Match, s.now)
	}
	return decide(*s), nil
}

// read returns the remediation as it is in the cache, or as this controller has written it since.
func (r *Reconciler) read(ctx context.Context, name string) (*v1alpha1.Remediation, error) {
	var cached v1alpha1.Remediation
	err := r.Client.Get(ctx, types.NamespacedName{Name: name}, &cached)
	if apierrors.IsNotFound(err) {
		if created := r.written.unseen(name, r.Clock.Now()); created != nil {
			return created, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading remediation %s: %w", name, err)
	}
	return r.written.latest(&cached), nil
}

// carryOut does what was decided, and returns after how long to look again. The
// order of its writes is what makes a stop between any two of them harmless:
// permits are taken before an action or a maintenance is announced, which is in the
// status before it is created, and permits are released after the status has
// said that they are not needed; whoever reads that status releases them again.
func (r *Reconciler) carryOut(ctx context.Context, s situation, d decision) (wait time.Duration, err error) {
	verdict, asked, err := r.othersMeanwhile(ctx, s, d)
	switch {
	case err != nil:
		return 0, err
	case !asked:
		return worker.PlaceRecheck, nil
	case verdict.Held() && d.effect == create:
		d.effect = void
	case verdict.Held() && d.effect == await:
		d = d.cancels(v1alpha1.ReasonCancelled, verdict.Message)
	case verdict.Held():
		return r.heldBack(ctx, s, verdict, v1alpha1.Permit{}, nil)
	}
	if d.effect == start || d.effect == create || d.effect == takeOut {
		if taken, wait, err := r.takePermits(ctx, s, d); !taken || err != nil {
			return wait, err
		}
	}
	if drained, err := r.stillDrained(ctx, s, d); !drained || err != nil {
		return 0, err // the drain goes on under the permits, and its event comes
	}
	written, err := r.write(ctx, s.remediation, d.status)
	if err != nil {
		return 0, err
	}
	if err := r.clear(ctx, s, d, written); err != nil {
		return 0, err
	}
	if d.effect == create && written == s.remediation { // announced long ago: others may have gone on since
		if err := r.unchanged(ctx, written); err != nil {
			return 0, err
		}
	}
	switch d.effect {
	case start, create:
		return d.wait, r.start(ctx, s, d)
	case void:
		if err := r.unchanged(ctx, written); err != nil {
			return 0, err // somebody may have seen it claimed
		}
		return d.wait, r.start(ctx, s, d)
	case cancel:
		return d.wait, s.attempt.Cancel(ctx, r.Client, attempt.End{Reason: d.cancelled.reason, Message: d.cancelled.message, At: r.Clock.Now()})
	case recall:
		return d.wait, s.attempt.Recall(ctx, r.Client, d.recalled)
	case takeOut:
		return d.wait, r.takeOut(ctx, s, d)
	case calm:
		return d.wait, r.changeMaintenance(ctx, s.maintenance, d.maintenance)
	case release:
		return d.wait, r.release(ctx, written)
	default:
		return d.wait, nil
	}
}

// stillDrained reports whether a node that was drained for the attempt that is to start is so
// now. An attempt that needs no drain has nothing to wait for.
func (r *Reconciler) stillDrained(ctx context.Context, s situation, d decision) (bool, error) {
	if d.effect != start && d.effect != create || !s.step(d.status.Step).Disruptive() {
		return true, nil
	}
	return r.StillDrained(ctx, s.maintenance)
}

// start starts the attempt that the decision's status names.
func (r *Reconciler) start(ctx context.Context, s situation, d decision) error {
	return attempt.By(s.step(d.status.Step)).Start(ctx, r.Client, attempt.Order{
		Name: d.status.Action, Remediation: s.remediation, Step: d.status.Step, Number: d.status.Attempt,
		At: s.now, Void: d.effect == void,
	})
}

// forget deletes the objects of attempts that have dropped out of the history: those that were
// not executed and are not among the newest.
func (r *Reconciler) forget(ctx context.Context, before, after *v1alpha1.Remediation) error {
	var errs []error
	for i := range before.Status.History {
		record := &before.Status.History[i]
		if !slices.ContainsFunc(after.Status.History, func(kept v1alpha1.ActionRecord) bool { return kept.Action == record.Action }) {
			errs = append(errs, attempt.Delete(ctx, r.Client, attempt.By(before.Step(record.Step)), record.Action))
		}
	}
	return errors.Join(errs...)
}

// takePermits takes the permits for what was decided, unless something holds it back that the
// cache did not know of. That is shown, and taken tells that there was nothing; wait is after
// how long to look again.
func (r *Reconciler) takePermits(ctx context.Context, s situation, d decision) (taken bool, wait time.Duration, err error) {
	held := func(verdict gates.Verdict, permit v1alpha1.Permit, taken []v1alpha1.RemediationBudget) (bool, time.Duration, error) {
		wait, err := r.heldBack(ctx, s, verdict, permit, taken)
		return false, wait, err
	}
	began := r.Clock.Now()
	verdict, err := r.pausedMeanwhile(ctx, s, d)
	if err != nil {
		return false, 0, err
	}
	if verdict.Held() {
		return held(verdict, v1alpha1.Permit{}, nil)
	}
	disrupts, err := r.disrupts(ctx, s, s.step(d.status.Step))
	if err != nil {
		return false, 0, err
	}
	if verdict, err = r.stormMeanwhile(ctx, s, d.status.Step, disrupts); err != nil {
		return false, 0, err
	}
	if verdict.Held() {
		return held(verdict, v1alpha1.Permit{}, nil)
	}
	permit := v1alpha1.Permit{Remediation: s.remediation.Name, Disruptive: disrupts}
	if d.effect != create { // which was announced: nothing takes that back
		permit.Version = s.remediation.ResourceVersion
	}
	known, err := r.nodesKnown(ctx, s.node)
	if err != nil {
		return false, 0, err
	}
	err = r.Permits.Take(ctx, s.budgets, s.node, permit, known)
	if errors.Is(err, budget.ErrExhausted) {
		wait, err = r.refused(ctx, s, permit, err)
		return false, wait, err
	}
	if err != nil {
		return false, 0, err
	}
	if took := r.Clock.Since(began); s.asksRunner(d) && took >= 0 && took < pauseFresh {
		return true, 0, nil
	}
	if verdict, err = r.pausedMeanwhile(ctx, s, d); err != nil {
		return false, 0, err
	}
	if verdict.Held() {
		return held(verdict, permit, s.budgets)
	}
	return true, 0, nil
}

// nodesKnown returns the version up to which all that has happened to nodes is known. It fails with
// a conflict if the node has other labels by then, and so may be of other budgets and groups.
func (r *Reconciler) nodesKnown(ctx context.Context, node *corev1.Node) (string, error) {
	_, version := r.Nodes()
	now := r.Store.Node(ctx, node.Name)
	if now != nil && now.UID == node.UID && !maps.Equal(now.Labels, node.Labels) {
		return "", apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errors.New("it was relabelled meanwhile"))
	}
	return version, nil
}

// pauseFresh is for how long it is known that nobody has paused the cluster, if the node's
// runner asks once more before it claims the action.
const pauseFresh = time.Second

// asksRunner reports whether the node's runner is asked to do what was decided.
func (s *situation) asksRunner(d decision) bool {
	return d.effect != takeOut && s.step(d.status.Step).NeedsRunner()
}

// stormMeanwhile holds a step that is about to be announced and that a storm holds, if too few
// nodes are healthy by now. The gates have asked the budgets, which may not have counted this
// remediation's own node yet.
func (r *Reconciler) stormMeanwhile(ctx context.Context, s situation, step int32, disrupts bool) (gates.Verdict, error) {
	announced := s.remediation.Status.Action != "" || s.remediation.Status.Maintenance != ""
	limited := slices.ContainsFunc(s.budgets, func(b v1alpha1.RemediationBudget) bool { return b.Spec.MinHealthy != nil })
	if announced || !limited || !disrupts && !gates.HeldInStorm(s.step(step), s.node, s.maintenance) {
		return gates.Verdict{}, nil
	}
	nodes, _ := r.Nodes()
	sick := r.observer().sick(ctx)
	sick[s.node.UID] = true // though the cache may not have its remediation yet
	b, err := budget.TooFewHealthy(s.budgets, s.node, nodes, sick)
	if b == nil || err != nil {
		return gates.Verdict{}, err
	}
	return gates.Verdict{
		Reason: gates.ReasonStorm, Recheck: gates.BudgetRecheck,
		Message: fmt.Sprintf("budget %s: fewer nodes are healthy than spec.minHealthy requires, %s", b.Name, b.Spec.MinHealthy),
	}, nil
}

// disrupts reports whether the step takes the node out of service. That it is out already
// is not concluded from a cache that is behind.
func (r *Reconciler) disrupts(ctx context.Context, s situation, step *v1alpha1.Step) (bool, error) {
	if !step.Disruptive() || fleet.Available(s.node) {
		return step.Disruptive(), nil
	}
	var node corev1.Node
	if err := client.IgnoreNotFound(r.Live.Get(ctx, types.NamespacedName{Name: s.node.Name}, &node)); err != nil {
		return false, fmt.Errorf("reading node %s: %w", s.node.Name, err)
	}
	return budget.Disrupts(step, &node), nil
}

// clear deletes maintenances of the remediation that its status does not name, and makes
// sure that one which is about to be created is announced by the latest status.
func (r *Reconciler) clear(ctx context.Context, s situation, d decision, written *v1alpha1.Remediation) error {
	announced := d.effect == takeOut && s.maintenance == nil && written == s.remediation // and not just now
	if len(s.strays) == 0 && !announced || d.effect == release {
		return nil
	}
	if err := r.unchanged(ctx, written); err != nil {
		return err
	}
	late, err := r.unnamed(ctx, written)
	if err != nil {
		return err
	}
	return r.giveBack(ctx, late)
}

// unchanged fails with a conflict if the remediation is not the latest: whoever changed
// it may have decided otherwise.
func (r *Reconciler) unchanged(ctx context.Context, remediation *v1alpha1.Remediation) error {
	var latest v1alpha1.Remediation
	if err := r.Live.Get(ctx, types.NamespacedName{Name: remediation.Name}, &latest); err != nil {
		return fmt.Errorf("reading remediation %s: %w", remediation.Name, err)
	}
	if latest.ResourceVersion != remediation.ResourceVersion {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("remediations").GroupResource(), remediation.Name,
			errors.New("it was changed meanwhile"))
	}
	return nil
}

// refused shows that the API server refused a permit.
func (r *Reconciler) refused(ctx context.Context, s situation, permit v1alpha1.Permit, err error) (time.Duration, error) {
	reason := gates.ReasonBudgetExhausted
	switch {
	case errors.Is(err, budget.ErrPaused):
		reason = gates.ReasonPaused
	case errors.Is(err, budget.ErrDisruptionLimit):
		reason = gates.ReasonDisruptionLimit
	}
	var taken []v1alpha1.RemediationBudget
	var refused *budget.Refused
	if errors.As(err, &refused) {
		taken = refused.Taken
	}
	return r.heldBack(ctx, s, gates.Verdict{Reason: reason, Message: err.Error(), Recheck: gates.BudgetRecheck}, permit, taken)
}

// heldBack shows what holds the remediation back that its cache did not know of, and
// returns the permits that it has. An action that was about to be announced is
// not; one that was announced waits, with them. It returns after how long to look again.
func (r *Reconciler) heldBack(ctx context.Context, s situation, verdict gates.Verdict, permit v1alpha1.Permit, taken []v1alpha1.RemediationBudget) (time.Duration, error) {
	d := heldBack(s, verdict)
	written, err := r.write(ctx, s.remediation, d.status)
	if err != nil || d.status.Action != "" {
		return d.wait, err
	}
	if permit.Version == "" || len(taken) == 0 { // but perhaps for an earlier attempt
		return d.wait, r.release(ctx, written)
	}
	// Another controller may have the same view, and be about to announce an action
	// under the same permits.
	if written == s.remediation {
		if err := r.bumpVersion(ctx, written); err != nil {
			return 0, err
		}
	}
	return d.wait, r.Permits.Release(ctx, taken, s.node.Name, permit)
}

// pausedMeanwhile asks the API server itself whether a person has just paused the
// cluster, or the policy of a step for which no runner asks that: the cache may be
// behind, and somebody relies on it. Of other budgets the permit tells.
func (r *Reconciler) pausedMeanwhile(ctx context.Context, s situation, d decision) (gates.Verdict, error) {
	in := gates.Input{Node: s.node, Budgets: make([]v1alpha1.RemediationBudget, 1)}
	err := r.Live.Get(ctx, types.NamespacedName{Name: v1alpha1.ClusterPauseBudget}, &in.Budgets[0])
	if !s.asksRunner(d) && client.IgnoreNotFound(err) == nil {
		in.Policy = &v1alpha1.RemedyPolicy{}
		err = r.Live.Get(ctx, types.NamespacedName{Name: s.remediation.Spec.Policy.Name}, in.Policy)
	}
	if client.IgnoreNotFound(err) != nil {
		return gates.Verdict{}, fmt.Errorf("asking whether somebody has paused: %w", err)
	}
	verdict := gates.Paused(in)
	if verdict.Held() {
		verdict.Recheck = gates.BudgetRecheck // by then the cache has it
	}
	return verdict, nil
}

// write writes the status if it has changed since it was read, and returns the
// remediation as it is then: the same one if nothing of it was stored. It fails with a conflict if anybody else has changed
// the object since it was read.
func (r *Reconciler) write(ctx context.Context, remediation *v1alpha1.Remediation, status v1alpha1.RemediationStatus) (*v1alpha1.Remediation, error) {
	status.Summarize()
	if equality.Semantic.DeepEqual(remediation.Status, status) {
		return remediation, nil
	}
	updated := remediation.DeepCopy()
	updated.Status = status
	patch := optimistic.Since(remediation)
	if err := r.Client.Status().Patch(ctx, updated, patch, fieldmanager.Controller); err != nil {
		return nil, fmt.Errorf("writing the status of remediation %s: %w", remediation.Name, err)
	}
	if updated.ResourceVersion == remediation.ResourceVersion { // all that has changed was dropped
		r.olderCRDs.Do(func() {
			ctrl.LoggerFrom(ctx).Info("The API server drops what this version writes into a Remediation's status: install the CRDs of this version of Nodemend")
		})
		return remediation, nil
	}
	r.written.keep(updated)
	if remediation.Ended() { // whose records the cache has only in part: none is new, and none drops out
		return updated, nil
	}
	if !isTombstone(remediation) { // what it tells was told before
		r.report(ctx, remediation, updated)
	}
	return updated, r.forget(ctx, remediation, updated)
}

// report logs, counts and tells people a change of the status that was written.
func (r *Reconciler) report(ctx context.Context, before, after *v1alpha1.Remediation) {
	if after.State() != before.State() || after.BlockedBy() != before.BlockedBy() {
		ctrl.LoggerFrom(ctx).Info("Remediation changed", "node", after.Spec.NodeName, "policy", after.Spec.Policy.Name,
			"step", after.Status.Step, "attempt", after.Status.Attempt, "state", after.State(), "blockedBy", after.BlockedBy())
	}
	r.Metrics.changed(before, after)
	for _, n := range notes(before, after) {
		n.send(r.Events, after)
	}
}

// release gives back the node, unless the remediation still has it in maintenance, and
// the permits that the remediation is seen to hold. A permit
// that is not seen yet comes with an event of its budget, which leads here. It
// fails with a conflict if the remediation is not the latest: whoever changed it
// may have taken the permit again.
func (r *Reconciler) release(ctx context.Context, remediation *v1alpha1.Remediation) error {
	name, node := remediation.Name, remediation.Spec.NodeName
	late, err := r.unnamed(ctx, remediation)
	if err != nil {
		return err
	}
	var budgets v1alpha1.RemediationBudgetList
	if err := r.Client.List(ctx, &budgets, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing budgets: %w", err)
	}
	var held []v1alpha1.RemediationBudget
	for i := range budgets.Items {
		if b := r.Permits.Newest(&budgets.Items[i]); budget.Holds(b, node, name) {
			held = append(held, *b)
		}
	}
	if len(held) == 0 && len(late) == 0 {
		return nil
	}
	if err := r.unchanged(ctx, remediation); err != nil {
		return err
	}
	if err := r.fencePermit(ctx, remediation, held); err != nil {
		return err
	}
	errs := []error{r.giveBack(ctx, late)}
	for i := range held {
		permit, _, _ := budget.Permit(&held[i], node)
		errs = append(errs, r.Permits.Release(ctx, held[i:i+1], node, permit))
	}
	return errors.Join(errs...)
}

// fencePermit bumps the remediation's resourceVersion before its permit is released, if the
// permit was taken for the current version. Another controller that is about to announce an
// action under that permit then gets a conflict; or this one gets it, if it is too late.
func (r *Reconciler) fencePermit(ctx context.Context, remediation *v1alpha1.Remediation, held []v1alpha1.RemediationBudget) error {
	version := remediation.ResourceVersion
	if remediation.Ended() || !slices.ContainsFunc(held, func(b v1alpha1.RemediationBudget) bool {
		permit, _, _ := budget.Permit(&b, remediation.Spec.NodeName)
		return permit.Version == version
	}) {
		return nil
	}
	return r.bumpVersion(ctx, remediation)
}

// bumpVersion writes the remediation, so that nobody announces an action for this version
// of it any more. It fails with a conflict if somebody has.
func (r *Reconciler) bumpVersion(ctx context.Context, remediation *v1alpha1.Remediation) error {
	changed := remediation.DeepCopy()
	changed.Status.UnusedPermit = remediation.ResourceVersion
	patch := optimistic.Since(remediation)
	if err := r.Client.Status().Patch(ctx, changed, patch, fieldmanager.Controller); err != nil {
		return fmt.Errorf("writing the status of remediation %s: %w", remediation.Name, err)
	}
	if changed.ResourceVersion == remediation.ResourceVersion {
		return fmt.Errorf("the API server drops status.unusedPermit of remediation %s: install the CRDs of this version of Nodemend", remediation.Name)
	}
	r.written.keep(changed)
	return nil
}
