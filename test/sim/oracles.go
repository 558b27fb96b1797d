package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/others"
	"github.com/nodemend/nodemend/controller/worker"
	"github.com/nodemend/nodemend/test/apiserver"
)

// oracles look at every state that is reached, and know what is true of the hosts.
type oracles struct {
	world     *world
	violation *Violation
	// off: nobody looks, but at the simulation itself.
	off bool

	// checks has by node and condition what checks have seen.
	checks map[string][]seen
	// written is how many of them there were when the detector last sent the condition,
	// turned when it last wrote another status or transition time.
	written map[string]int
	turned  map[string]time.Time
	// links is what agents have reported of the links of nodes.
	links map[types.UID]*link
	// cordoned is when the node of a maintenance was cordoned for it first, named are those
	// that a remediation has named while they were there.
	// idle are those whose node was not available then.
	cordoned    map[types.UID]time.Time
	named, idle map[types.UID]bool
	// actions are all that there ever were, deleted is when one ceased to be, by its name; forgotten is when a remediation
	// ceased to wait for one.
	actions map[types.UID]*v1alpha1.NodeAction
	deleted map[string]time.Time
	// unasked are those that came when nobody waited for them any more.
	unasked   map[types.UID]bool
	forgotten map[string]time.Time
	requests  requests
	// cutting are the actions that have said that they cut power, tainted is when a node last got the taint
	// out-of-service.
	// switching is since when an action says how far it is with the power.
	cutting   map[types.UID]bool
	switching map[types.UID]time.Time
	tainted   map[string]time.Time
	// unproved is when an action has last taken back a proof.
	unproved map[types.UID]time.Time
	// handed has the actions for which there was an object of another program, and when it was gone.
	handed map[string]time.Time
	// tallied is when a policy was last changed, or a remediation began, ended or went.
	tallied time.Time
	// edited is when a policy last changed, labelled when the labels of a node did, rebooted
	// when the kubelet last said that it has booted.
	edited, labelled, rebooted map[string]time.Time
	// rest is when there was last nothing left to do before time went on.
	rest time.Time
	// returned is when a node was last put back by hand, or one of its maintenances was
	// deleted; drained when one ceased to drain it. released are the maintenances that a
	// person has deleted. recordoned is when a node was last cordoned again that was put back.
	returned, drained, recordoned map[string]time.Time
	released                      map[string]bool
	// freed is when a node last lost a maintenance.
	freed map[string]time.Time
	// born is the turn at which a maintenance was created, drainedAt the one at which a
	// maintenance of a node last ceased to drain it.
	born      map[types.UID]uint64
	drainedAt map[string]uint64
	// waiting is since when a remediation waits for a permit that is free, keeping since when
	// one keeps a permit although it waits. undrained is since when a node that is said to be
	// drained has a pod.
	waiting, keeping, undrained lasting

	// outWhenDeleted is the maintenance that a remediation named when it was deleted.
	outWhenDeleted map[types.UID]string
	// remediations are all as they last were, also of those that are no more; collected are
	// those that no person has deleted.
	remediations map[types.UID]*v1alpha1.Remediation
	collected    map[types.UID]bool
	// givenBack is when a person deleted the maintenance that a remediation had taken its
	// node out for.
	givenBack map[types.UID]time.Time
	// paused is since when a budget is.
	paused map[string]time.Time

	// current are the times at which every controller knew everything.
	current []time.Time
	// former are the nodes as they last were, also those that are gone.
	former map[string]*corev1.Node
	// filed is when the permit of a budget for a node last came to the group in which that is.
	filed map[string]time.Time
	// regrouped is when a node last came, went, or was labelled.
	regrouped time.Time
	// touched is when a node, remediation, policy or budget was last written, or went.
	touched time.Time
	// unwell is since when a node is not available, by the reason; acting since when the
	// action of a remediation is under way.
	unwell map[string]map[string]time.Time
	acting map[string]time.Time
	// out are the nodes that are out of service, by the budgets under whose permit for a
	// disruptive step they were taken out.
	out map[string]map[budgetUID]bool
	// stormy is when there last was a storm that everybody knew of.
	stormy map[storm]time.Time
	// wrote is how often a controller has written a remediation since time last went on.
	wrote map[string]int
	// seenGone is when a controller last saw that a budget of the name is gone.
	seenGone map[string]time.Time
	// foundOut is when a controller last asked for a node and was told that it is not
	// available.
	foundOut map[string]time.Time
}

type budgetUID = types.UID

// rested looks at a state in which nothing will happen before time goes on.
func (o *oracles) rested() {
	clear(o.wrote)
	o.rest = time.Now()
	if o.violation == nil && !o.off {
		o.caughtUp()
		o.storms()
		o.permitsUsed()
		o.waitWithoutPermits()
		o.nodesCounted()
		o.wellCounted()
		o.policiesTold()
		o.noticed()
		o.linksNoticed()
		o.onlyOne()
		o.staysDrained()
	}
}

func newOracles(w *world) *oracles {
	return &oracles{
		world: w, requests: requests{map[types.UID]time.Time{}, map[types.UID]map[types.UID]bool{}}, checks: map[string][]seen{}, written: map[string]int{}, turned: map[string]time.Time{}, links: map[types.UID]*link{}, waiting: lasting{}, keeping: lasting{}, undrained: lasting{}, cordoned: map[types.UID]time.Time{}, remediations: map[types.UID]*v1alpha1.Remediation{}, collected: map[types.UID]bool{}, paused: map[string]time.Time{}, givenBack: map[types.UID]time.Time{}, outWhenDeleted: map[types.UID]string{}, named: map[types.UID]bool{}, idle: map[types.UID]bool{},
		actions: map[types.UID]*v1alpha1.NodeAction{}, deleted: map[string]time.Time{}, unasked: map[types.UID]bool{}, forgotten: map[string]time.Time{}, handed: map[string]time.Time{}, cutting: map[types.UID]bool{}, switching: map[types.UID]time.Time{}, tainted: map[string]time.Time{}, unproved: map[types.UID]time.Time{}, seenGone: map[string]time.Time{},
		edited: map[string]time.Time{}, labelled: map[string]time.Time{}, filed: map[string]time.Time{}, rebooted: map[string]time.Time{}, born: map[types.UID]uint64{}, drainedAt: map[string]uint64{},
		returned: map[string]time.Time{}, recordoned: map[string]time.Time{}, drained: map[string]time.Time{}, released: map[string]bool{}, freed: map[string]time.Time{},
		unwell: map[string]map[string]time.Time{}, acting: map[string]time.Time{}, out: map[string]map[budgetUID]bool{},
		stormy: map[storm]time.Time{}, former: map[string]*corev1.Node{}, wrote: map[string]int{}, foundOut: map[string]time.Time{},
	}
}

func (o *oracles) violated(rule, message string) {
	if o.violation == nil {
		o.violation = &Violation{rule, message}
		o.world.say("ORACLE", "%s: %s", rule, message)
	}
}

// checked remembers what a check has seen.
func (o *oracles) checked(n *node, s seen) {
	key := n.name + "/" + s.condition
	o.checks[key] = append(o.checks[key], s)
}

// saw reports whether a check has seen this status of a condition in a run that began
// after a time, in the present boot.
func (o *oracles) saw(n *node, condition string, status corev1.ConditionStatus, after time.Time) bool {
	all := o.checks[n.name+"/"+condition]
	for i := len(all) - 1; i >= 0 && !all[i].began.Before(after); i-- {
		if all[i].status == status && all[i].boot == n.boot {
			return true
		}
	}
	return false
}

// sawInAnyBoot is saw for whatever boot: nobody may know yet that the node has booted.
func (o *oracles) sawInAnyBoot(n *node, condition string, status corev1.ConditionStatus, after time.Time) bool {
	return slices.ContainsFunc(o.checks[n.name+"/"+condition], func(s seen) bool { return s.status == status && !s.began.Before(after) })
}

// changed looks at a change.
func (o *oracles) changed(c apiserver.Change) {
	if o.violation != nil {
		return
	}
	o.handedOver(c)
	if c.New == nil {
		o.touched = time.Now()
		o.tallied = o.touched
		o.gone(c.By, c.Old)
		return
	}
	switch c.New.(type) {
	case *corev1.Node, *v1alpha1.Remediation, *v1alpha1.RemediationBudget:
		o.touched = time.Now()
	}
	switch updated := c.New.(type) {
	case *v1alpha1.RemediationBudget:
		if _, known := o.paused[updated.Name]; !updated.Spec.Paused {
			delete(o.paused, updated.Name)
		} else if !known {
			o.paused[updated.Name] = time.Now()
		}
		if old, ok := c.Old.(*v1alpha1.RemediationBudget); ok {
			o.budgetWritten(old, updated)
		}
	case *corev1.Node:
		o.felt(updated.Name)
		o.former[updated.Name] = updated
		old, ok := c.Old.(*corev1.Node)
		if !ok || !maps.Equal(old.Labels, updated.Labels) {
			o.regrouped = time.Now()
		}
		if ok {
			o.cordonKept(c.By, old, updated)
			if !maps.Equal(old.Labels, updated.Labels) {
				o.labelled[old.Name] = time.Now()
			}
			if old.Status.NodeInfo.BootID != updated.Status.NodeInfo.BootID {
				o.rebooted[old.Name] = time.Now()
			}
			o.tookOut(c.By, old, updated)
			o.freedOf(c.By, old, updated)
			if !old.Spec.Unschedulable && updated.Spec.Unschedulable && !o.returned[old.Name].IsZero() {
				o.recordoned[old.Name] = time.Now() // which may be held for long: another program is to let go of it first
			}
			switch {
			case c.By == "controller":
				o.uncordoned(old, updated)
				o.marked(old, updated)
				o.karpenterTold(old, updated)
				o.cordonedAsNamed(old, updated)
				o.cordonedUnderPermit(old, updated)
				o.cordonedWithinLimits(old, updated)
			case old.Spec.Unschedulable && !updated.Spec.Unschedulable:
				o.returned[old.Name] = time.Now()
			}
			o.conditionsSeen(c.By, old, updated)
		}
	case *v1alpha1.Remediation:
		old, _ := c.Old.(*v1alpha1.Remediation)
		if old == nil || old.Ended() != updated.Ended() {
			o.tallied = time.Now()
		}
		o.remediations[updated.UID] = updated
		o.acted(updated)
		o.counted(old, updated)
		if m := find[*v1alpha1.NodeMaintenance](o, updated.Status.Maintenance); m != nil {
			o.named[m.UID] = true
		}
		if old == nil {
			o.startedOnce(updated)
			o.oneForARequest(updated)
			if c.By == "controller" {
				o.startedUnderPolicy(updated)
				o.startedWhileItCounts(updated)
				o.startedByDebounce(updated)
				o.startedAsBuried(updated)
			}
			o.heldForLong(updated)
			return
		}
		if old.Status.Action != "" && updated.Status.Action != old.Status.Action {
			o.forgotten[old.Status.Action] = time.Now()
		}
		if old.DeletionTimestamp == nil && updated.DeletionTimestamp != nil {
			o.outWhenDeleted[updated.UID] = updated.Status.Maintenance
			o.collected[updated.UID] = c.By == "controller"
		}
		if c.By == "controller" {
			o.announced(old, updated)
			o.gentlestFirst(old, updated)
			o.writtenInVain(updated)
		}
		o.heldByAge(old, updated)
		o.lostOnlyIfGone(old, updated)
		o.endedOnlyIfGone(old, updated)
		o.releasedOnlyByPeople(old, updated)
		o.advancedOnEvidence(old, updated)
		o.recoveredOnEvidence(old, updated)
		o.recoveredForLong(old, updated)
		o.recoveredFromItsFault(old, updated)
		o.recoveredByDebounce(old, updated)
		o.recoveredAsReady(old, updated)
		o.releasedByPeople(old, updated)
		o.startedOverAsAsked(old, updated)
		if c.By == "controller" {
			o.takenOutAsDisruptive(old, updated)
		}
	case *v1alpha1.NodemendRemediation:
		old, _ := c.Old.(*v1alpha1.NodemendRemediation)
		o.requestChanged(old, updated)
	case *corev1.Pod:
		if old, ok := c.Old.(*corev1.Pod); ok && c.By == "controller" && old.DeletionTimestamp == nil && updated.DeletionTimestamp != nil {
			o.evicted(old)
		}
	case *v1alpha1.RemedyPolicy:
		if c.Old == nil || worker.SpecChanged(c.Old, updated) { // else it is our status
			o.touched, o.tallied, o.edited[updated.Name] = time.Now(), time.Now(), time.Now()
		}
	case *v1alpha1.NodeMaintenance:
		old, _ := c.Old.(*v1alpha1.NodeMaintenance)
		o.maintained(c.By, old, updated)
	case *coordinationv1.Lease:
		if old, ok := c.Old.(*coordinationv1.Lease); ok && c.By == "controller" {
			o.leaseKept(old)
		}
	case *v1alpha1.NodeAction:
		o.actions[updated.UID] = updated
		old, _ := c.Old.(*v1alpha1.NodeAction)
		o.expiredOnlyWhenDue(old, updated)
		o.executedAsReported(old, updated)
		o.poweredAs(old, updated)
		if c.By == "runner" {
			o.reportedAsEnded(old, updated)
		}
		if old == nil {
			o.unasked[updated.UID] = o.world.serving != nil && o.world.serving.abandoned
			o.dueWhenCreated(updated)
			o.createdAsAnnounced(updated)
			o.createdUnderPermit(updated)
			o.createdBesideOthers(updated)
			o.createdBesideKarpenter(updated)
		}
	}
}

// gone looks at an object that is no more.
func (o *oracles) gone(by string, obj client.Object) {
	switch old := obj.(type) {
	case *v1alpha1.NodemendRemediation:
		if by == "controller" { // the last finalizer was its own
			o.requestGone(old)
		}
		o.requests.over[old.UID] = time.Now()
	case *v1alpha1.RemediationBudget:
		delete(o.paused, old.Name)
	case *v1alpha1.RemedyPolicy:
		o.edited[old.Name] = time.Now()
	case *v1alpha1.NodeMaintenance:
		o.maintained(by, old, nil)
		if by == "controller" {
			o.letGo(old)
		}
		o.freed[old.Spec.NodeName] = time.Now()
	case *corev1.Node:
		o.regrouped = time.Now()
		o.felt(old.Name)
		delete(o.out, old.Name)
	case *v1alpha1.Remediation:
		delete(o.acting, old.Name)
		if old.DeletionTimestamp == nil { // it had no finalizer
			o.collected[old.UID] = by == "controller"
		}
		if old.Status.Action != "" {
			o.forgotten[old.Status.Action] = time.Now()
		}
		if by == "controller" {
			o.buried(old)
			o.goneWhenOver(old)
		}
	case *coordinationv1.Lease:
		if by == "controller" {
			o.leaseKept(old)
		}
	case *v1alpha1.NodeAction:
		o.deleted[old.Name] = time.Now()
		o.stays(old)
	case *corev1.Pod:
		if by == "controller" && old.DeletionTimestamp == nil {
			o.evicted(old)
		}
	}
}

// find returns the object of this name, nil if there is none. It must not be changed.
func find[T client.Object](o *oracles, name string) T {
	return apiserver.Peek[T](o.world.server, types.NamespacedName{Name: name})
}

// stored returns all objects of a kind. They must not be changed.
func stored[T client.Object](o *oracles) []T { return apiserver.Stored[T](o.world.server) }

// allWell reports whether all that was open has ended, and nothing is left.
func (o *oracles) allWell() bool { return len(o.world.calls) == 0 && o.left() == "" }

// notWell says what is left although nothing went wrong for hours.
func (o *oracles) notWell() {
	if left := o.left(); left != "" {
		o.violated("Liveness: once all faults end, everything ends and is given back", left)
	}
}

// left says what has not ended, "" if nothing.
func (o *oracles) left() string {
	for _, r := range stored[*v1alpha1.Remediation](o) {
		if !r.Ended() || r.DeletionTimestamp != nil {
			return describe(r)
		}
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		for _, group := range b.Status.Groups {
			if len(group.Permits) > 0 {
				return describe(b)
			}
		}
	}
	for _, asked := range stored[*v1alpha1.NodemendRemediation](o) {
		return "NodemendRemediation " + asked.Name
	}
	for _, a := range stored[*v1alpha1.NodeAction](o) {
		if a.Finished() == nil {
			return describe(a)
		}
	}
	for _, l := range stored[*coordinationv1.Lease](o) {
		if ptr.Deref(l.Spec.HolderIdentity, "") == others.LeaseHolder && time.Since(l.Spec.RenewTime.Time) < leaseEnds {
			return "Lease " + l.Name
		}
	}
	for _, n := range stored[*corev1.Node](o) {
		if mark := n.Annotations[v1alpha1.CordonedAnnotation]; mark != "" && n.Spec.Unschedulable {
			return fmt.Sprintf("node %s is cordoned for %s", n.Name, mark)
		}
		if mark, held := n.Annotations[v1alpha1.RepairHeldAnnotation]; held {
			return fmt.Sprintf("Karpenter is not to repair node %s, for %s", n.Name, mark)
		}
	}
	return cmp.Or(o.machinesOff(), o.outOfServiceLeft())
}
