package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/test/apiserver"
)

// trap is what springs one: what has to happen within seconds of that is hardly ever played
// otherwise.
type trap int

const (
	actionCreated trap = iota
	maintenanceCreated
	permitGiven
	heldByPause
	// disruptionAnnounced: the action of a disruptive step is in the status, and not created yet.
	disruptionAnnounced
	// What a remote runner has come to: the claim of a power cycle, that it cuts the power, that the machine is
	// proved to be off, that it was read off again since, and that it is switched on.
	powerClaimed
	cutAnnounced
	offProved
	offTold
	onAnnounced
)

// set sets a trap, unless there is one already: then it returns false. It is told which
// controller has sprung it, and by what.
func (w *world) set(t trap, do func(by *process, obj client.Object)) bool {
	if w.traps[t] != nil {
		return false
	}
	w.traps[t] = do
	return true
}

// spring springs the traps that are set for a change.
func (w *world) spring(change apiserver.Change) {
	sprung := func(t trap) {
		if do := w.traps[t]; do != nil && w.chaos && w.serving != nil {
			by := w.serving.process
			w.after(0, func() {
				if w.chaos {
					do(by, change.New)
				}
			})
			delete(w.traps, t)
		}
	}
	switch updated := change.New.(type) {
	case *v1alpha1.NodeAction:
		if change.Old == nil {
			sprung(actionCreated)
		}
		if old, ok := change.Old.(*v1alpha1.NodeAction); ok {
			springPower(old, updated, sprung)
		}
	case *v1alpha1.NodeMaintenance:
		if change.Old == nil {
			sprung(maintenanceCreated)
		}
	case *v1alpha1.Remediation:
		if old, ok := change.Old.(*v1alpha1.Remediation); ok && old.BlockedBy() != gates.ReasonPaused && updated.BlockedBy() == gates.ReasonPaused {
			sprung(heldByPause)
		}
		if step := updated.Step(updated.Status.Step); updated.Status.Phase() == v1alpha1.PhaseActionAnnounced && step != nil && step.Disruptive() {
			sprung(disruptionAnnounced)
		}
	case *v1alpha1.RemediationBudget:
		if old, ok := change.Old.(*v1alpha1.RemediationBudget); ok && len(permitsGiven(old, updated)) > 0 {
			sprung(permitGiven)
		}
	}
}

// deleteUnseen lets the controller die right after it has created the next action. Once that
// has finished, somebody deletes it: whoever leads next knows only that it was announced.
func (w *world) deleteUnseen() bool {
	after := of(w.choices, time.Second, 10*time.Second, 40*time.Second)
	return w.set(actionCreated, func(_ *process, created client.Object) {
		w.endLeaders()
		w.after(after, func() {
			if a := apiserver.Peek[*v1alpha1.NodeAction](w.server, client.ObjectKeyFromObject(created)); a != nil && a.Finished() != nil && w.chaos {
				w.people.meddled = time.Now()
				w.people.blinded[a.Name] = true
				w.remove(a.DeepCopy())
			}
			w.oneLeader()
		})
	})
}

// undoAction lets a person undo the next action, or what it is for, before its runner has
// claimed it or while it runs.
func (w *world) undoAction() bool {
	undo := of(w.choices, w.giveBackOf, w.deleteOf, w.forceOf, w.policyOf, w.pauseOf, w.stopOf, w.stopAllOf, w.nodeOf)
	delay := of(w.choices, (*node).runnerAway, (*node).agentsAway, (*node).lateClaim, (*node).inTime)
	undone := of(w.choices, 0, time.Second, 10*time.Second)
	leaderless := !w.profile.steady && w.chance(300)
	return w.set(actionCreated, func(_ *process, created client.Object) {
		a := created.(*v1alpha1.NodeAction) //nolint:forcetypeassert // nothing else springs it
		delay(w.node(a.Spec.NodeName))
		if leaderless {
			w.endLeaders()
			w.after(time.Minute, w.oneLeader)
		}
		w.after(undone, func() { w.undo(a.Spec.Remediation, undo) })
	})
}

// undoOut lets a person undo the next maintenance of a remediation, or hold back what it is
// for, before its node is cordoned.
func (w *world) undoOut() bool {
	undo := of(w.choices, w.giveBackOf, w.deleteOf, w.pauseOf)
	cordons := of(w.choices, time.Second, 20*time.Second)
	return w.set(maintenanceCreated, func(_ *process, created client.Object) {
		m := created.(*v1alpha1.NodeMaintenance) //nolint:forcetypeassert // nothing else springs it
		if m.Spec.Remediation != nil {
			w.slow["patch Node"] = func(*call) time.Duration { return cordons }
			w.undo(m.Spec.Remediation.Name, undo)
		}
	})
}

func (w *world) undo(remediation string, undo func(*v1alpha1.Remediation)) {
	if r := apiserver.Peek[*v1alpha1.Remediation](w.server, client.ObjectKey{Name: remediation}); r != nil && w.chaos {
		undo(r.DeepCopy())
	}
}

// runnerAway lets the runner be away for a part of the time that an action may be claimed.
func (n *node) runnerAway() {
	n.world.end(n.runner)
	n.again(of(n.world.choices, 25*time.Second, 55*time.Second), n.startRunner)
}

// agentsAway lets the detector be away as well, and for longer: no report has anybody look
// again.
func (n *node) agentsAway() {
	n.runnerAway()
	if d := n.detector; d != nil {
		n.world.end(d.process)
		n.again(time.Minute, n.startDetector)
	}
}

// lateClaim lets the next claim of the runner be on its way for long.
func (n *node) lateClaim() { n.claimTakes = of(n.world.choices, 5*time.Second, 30*time.Second) }

// inTime changes nothing.
func (n *node) inTime() {}

// giveBackOf gives back the node of a remediation.
func (w *world) giveBackOf(r *v1alpha1.Remediation) {
	if r.Status.Maintenance != "" {
		w.remove(&v1alpha1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: r.Status.Maintenance}})
	}
}

// deleteOf deletes a remediation.
func (w *world) deleteOf(r *v1alpha1.Remediation) { w.removeRemediation(r) }

// forceOf deletes a remediation, and does not wait for whoever has to agree.
func (w *world) forceOf(r *v1alpha1.Remediation) {
	w.people.meddled = time.Now()
	w.force(r)
	r.Finalizers = nil
	w.update(r)
	w.remove(r)
}

// force says that nobody ends what a remediation has under way, unless everybody has seen it
// claimed.
func (w *world) force(r *v1alpha1.Remediation) {
	w.people.forced[r.UID] = true
	a := apiserver.Peek[*v1alpha1.NodeAction](w.server, client.ObjectKey{Name: r.Status.Action})
	if a == nil || a.Status.Claim == nil || !w.oracles.everybodyKnows(a.Status.Claim.Time.Add(time.Second)) {
		w.people.blinded[r.Status.Action] = true
	}
	for _, record := range r.Status.History {
		w.people.blinded[record.Action] = true // which may still run
	}
}

// policyOf deletes the policy of a remediation.
func (w *world) policyOf(r *v1alpha1.Remediation) {
	var p v1alpha1.RemedyPolicy
	if w.admin.Get(w.ctx, client.ObjectKey{Name: r.Spec.Policy.Name}, &p) == nil {
		w.dropPolicy(&p)
	}
}

// pauseOf pauses the policy of a remediation.
func (w *world) pauseOf(r *v1alpha1.Remediation) {
	w.setPaused(r.Spec.Policy.Name, true)
	w.later(func() { w.setPaused(r.Spec.Policy.Name, false) })
}

// stopOf pauses a budget of a remediation.
func (w *world) stopOf(r *v1alpha1.Remediation) {
	for _, b := range w.budgetsOf(r) {
		w.setBudgetPaused(b, true)
		w.later(func() { w.setBudgetPaused(b, false) })
	}
}

// stopAllOf pauses the cluster, unless it is.
func (w *world) stopAllOf(*v1alpha1.Remediation) {
	if apiserver.Peek[*v1alpha1.RemediationBudget](w.server, client.ObjectKey{Name: v1alpha1.ClusterPauseBudget}) == nil {
		w.pauseCluster()
	}
}

// nodeOf replaces the node of a remediation.
func (w *world) nodeOf(r *v1alpha1.Remediation) {
	var node corev1.Node
	if w.admin.Get(w.ctx, client.ObjectKey{Name: r.Spec.NodeName}, &node) == nil {
		w.registerAnew(&node)
	}
}
