package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/runner/remedy"
)

// readBefore is how long before an off is sent all that it depends on may have been read, with a second
// for what happens in between.
const readBefore = 5*time.Second + time.Second

// powerCycled counts reboots from outside.
const powerCycled = v1alpha1.RemedyReboot + " by PowerCycle"

// offSwitchedOn counts machines that were off when they were first read.
const offSwitchedOn = "a machine that was off is switched on"

// cuts looks at an off that has just reached the machine's own BMC, for an action (I11). The first one of an
// action is an execution like any other. It returns the action's UID.
func (o *oracles) cuts(b *bmc, action string, sent time.Time) types.UID {
	w, n := o.world, b.node
	a := find[*v1alpha1.NodeAction](o, action)
	if a == nil || a.Finished() != nil || a.Status.Claim == nil || a.Status.Power == nil || a.Status.Power.Phase != string(proof.Cutting) ||
		!slices.Contains(a.Finalizers, v1alpha1.PowerFinalizer) {
		w.broken("I11: power is cut only by an action that says so, and stays", "node %s, action %s", n.name, action)
		return ""
	}
	if o.takenBack(a, sent) {
		w.broken("I11: no off is sent once none may be allowed any more", "node %s, action %s", n.name, action)
	}
	o.onlyIfSilent(n, a, sent.Add(-readBefore))
	if b.restored.After(sent) {
		w.broken("I11: an off that is late does not cut the next boot", "node %s, action %s: sent %s ago", n.name, action, time.Since(sent))
	}
	order := o.orderOf(a)
	if e := n.executionOf(action); e != nil && e.order.UID == a.UID {
		w.count("an off is sent again")
		o.ordered(&execution{node: n, order: order, remedy: v1alpha1.RemedyReboot})
		o.approved(e)
		return a.UID
	}
	o.begun(n, order, sent)
	return a.UID
}

// takenBack reports whether a write was on its way, when something was sent, that forbids it, and may still be stored: it
// ends the action, or brings its power, if it switches any, past Cutting.
func (o *oracles) takenBack(a *v1alpha1.NodeAction, sent time.Time) bool {
	return slices.ContainsFunc(o.world.calls, func(c *call) bool {
		is := c.writes
		if is == nil || c.served || !c.sent.Before(sent) || is.UID != a.UID || is.ResourceVersion != a.ResourceVersion {
			return false
		}
		p := is.Status.Power
		return is.Finished() != nil || p != nil && p.Phase != "" && p.Phase != string(proof.Cutting)
	})
}

// orderOf is what an action has the remote runner do, by the policy as it is now.
func (o *oracles) orderOf(a *v1alpha1.NodeAction) remedy.Order {
	order := remedy.Order{Action: a.Name, UID: a.UID, BootID: a.Status.Claim.BootID}
	if p := find[*v1alpha1.RemedyPolicy](o, a.Spec.Policy.Name); p != nil {
		if step := p.StepWithHash(a.Spec.StepHash); step != nil {
			order.Step = *step
		}
	}
	return order
}

// begun looks at the first order to a BMC by which something is switched.
func (o *oracles) begun(n *node, order remedy.Order, sent time.Time) {
	e := &execution{node: n, order: order, remedy: v1alpha1.RemedyReboot, boot: n.boot, began: time.Now(), outside: true, over: make(chan struct{})}
	n.executions = append(n.executions, e)
	o.world.count("executed: " + powerCycled)
	if time.Since(sent) < time.Second {
		o.executed(e)
	}
}

// onlyIfSilent: power is cut only while nobody has seen that the node answers, or a newer boot, at a time (I11).
func (o *oracles) onlyIfSilent(n *node, a *v1alpha1.NodeAction, at time.Time) {
	node := find[*corev1.Node](o, n.name)
	if node == nil || node.UID != a.Spec.NodeUID || node.CreationTimestamp.After(at) {
		return
	}
	if boot := node.Status.NodeInfo.BootID; boot != a.Status.Claim.BootID && o.rebooted[n.name].Before(at) {
		o.world.broken("I11: power is cut only if nobody has seen a newer boot", "node %s, action %s: claimed in %s, and it is %s", n.name, a.Name, a.Status.Claim.BootID, boot)
	}
	if c := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady)); c != nil && c.Status != corev1.ConditionUnknown && n.turned.Before(at) {
		o.world.broken("I11: power is cut only if the node does not answer", "node %s, action %s: Ready=%s", n.name, a.Name, c.Status)
	}
	if n.connected() && n.back.Add(leasePeriod).Before(at) && o.rebooted[n.name].Before(at) {
		o.world.broken("I11: power is cut only if the node does not answer", "node %s, action %s: its Lease is renewed", n.name, a.Name)
	}
}

// switchesOther looks at an order for a machine that has reached the BMC of another one. It switches nothing;
// but who has read whose it is does not send an off (I11).
func (o *oracles) switchesOther(b *bmc, verb string, sent time.Time) {
	if verb == "off" && b.foreignSince.Before(sent.Add(-readBefore)) {
		o.world.broken("I11: power is cut only by a switch that is proved to be the machine's", "node %s, whose switch says another GUID", b.node.name)
	}
}

// restores looks at an on that has just reached the BMC of a machine.
func (o *oracles) restores(b *bmc, action string, sent time.Time) {
	a := find[*v1alpha1.NodeAction](o, action)
	if b.on() || a == nil {
		return // deleted by force, or nothing is switched
	}
	if !o.cutting[a.UID] {
		o.takesOff(b, a, sent)
	}
	if late := time.Since(deadline.Restorable(a)); late > time.Minute {
		o.world.broken("I11: what was cut is left to people an hour after they were told", "node %s, action %s, %s later", b.node.name, action, late)
	}
}

// takesOff looks at an on for a machine that nobody has cut: it is switched on only on a proof, if the policy says so,
// and as long as nobody holds the node (I11).
func (o *oracles) takesOff(b *bmc, a *v1alpha1.NodeAction, sent time.Time) {
	w, n, order := o.world, b.node, o.orderOf(a)
	asked := sent.Add(-readBefore)
	if a.Status.Power == nil || a.Status.Power.Proof == nil || a.Status.Power.Outcome != string(proof.PowerWasOff) {
		w.broken("I11: what was off before is not switched on", "node %s, action %s", n.name, a.Name)
		return
	}
	if o.edited[a.Spec.Policy.Name].Before(asked) && (order.Step.Reboot == nil || order.Step.Reboot.IfOff != v1alpha1.IfOffSwitchOn) {
		w.broken("I11: what was off before is switched on only if the policy says so", "node %s, action %s", n.name, a.Name)
	}
	if held := o.heldSince(a, asked); held != "" {
		w.broken("I11: what was off before stays off as long as somebody holds the node", "node %s, action %s: %s", n.name, a.Name, held)
	}
	if e := n.executionOf(a.Name); e == nil || e.order.UID != a.UID {
		w.count(offSwitchedOn)
		o.begun(n, order, sent)
	}
}

// heldSince says what has held the node of an action since before a time, "" if nothing.
func (o *oracles) heldSince(a *v1alpha1.NodeAction, at time.Time) string {
	node := find[*corev1.Node](o, a.Spec.NodeName)
	if node == nil || node.UID != a.Spec.NodeUID || node.CreationTimestamp.After(at) {
		return ""
	}
	if v1alpha1.Excluded(node) && o.labelled[node.Name].Before(at) {
		return "it is excluded"
	}
	if since, paused := o.paused[v1alpha1.ClusterPauseBudget]; paused && since.Before(at) {
		return "the cluster is paused"
	}
	for _, m := range stored[*v1alpha1.NodeMaintenance](o) {
		if m.Spec.Remediation == nil && m.Holds(node) && m.CreationTimestamp.Add(time.Second).Before(at) {
			return "it is in maintenance " + m.Name
		}
	}
	return ""
}

// poweredAs looks at how far an action says that the power of its node's machine is switched.
func (o *oracles) poweredAs(old, updated *v1alpha1.NodeAction) {
	p, n := updated.Status.Power, o.world.node(updated.Spec.NodeName)
	if p == nil || n == nil || n.bmc == nil {
		return
	}
	if p.Phase == string(proof.Cutting) {
		o.cutting[updated.UID] = true
	}
	if _, known := o.switching[updated.UID]; !known {
		o.switching[updated.UID] = time.Now()
	}
	if old == nil {
		return
	}
	if p.Proof != nil && (old.Status.Power == nil || old.Status.Power.Proof == nil) {
		o.world.count("a machine is proved to be off")
		o.over(n, updated)
	}
	if p.Proof == nil && old.Status.Power != nil && old.Status.Power.Proof != nil {
		o.unproved[updated.UID] = time.Now()
	}
	ends := p.Phase == string(proof.Ended) && (old.Status.Power == nil || old.Status.Power.Phase != p.Phase)
	if b := n.bmc; ends && p.Outcome != string(proof.PowerStillOff) && !b.on() && b.cutBy == updated.UID {
		o.world.broken("I11: a power cycle has ended only if what it has cut is on again", "node %s, action %s: %s", n.name, updated.Name, p.Outcome)
	}
	if f := updated.Finished(); f != nil && old.Finished() == nil {
		if p.Outcome != "" { // else it was refused
			o.world.count("power cycle " + p.Outcome)
		}
		o.onAgain(n, updated, f.Reason)
	}
}

// over: a proof is true, unless the switch lies (I10).
func (o *oracles) over(n *node, a *v1alpha1.NodeAction) {
	kept := a.Status.Power.Proof
	if n.up && n.bootID() == kept.BootID && !n.bmc.lied[a.Name] {
		o.world.broken("I10: a proof that a boot is over is true", "node %s, action %s: %s runs", n.name, a.Name, kept.BootID)
	}
	if kept.BootID != a.Status.Claim.BootID || kept.Machine != n.bmc.uuid.String() {
		o.world.broken("I10: a proof is of the boot and the machine of the action", "node %s, action %s: %s of %s", n.name, a.Name, kept.BootID, kept.Machine)
	}
}

// onAgain: what an action has cut is on again when it ends, or people are told that nobody could switch it on
// (I11). What it has begun is over.
func (o *oracles) onAgain(n *node, a *v1alpha1.NodeAction, reason string) {
	if e := n.executionOf(a.Name); e != nil && e.order.UID == a.UID {
		e.done = true
	}
	b := n.bmc
	if b.on() || b.cutBy != a.UID || time.Now().After(deadline.Over(a)) { // from then on people hold it
		return
	}
	const tries = 5 * time.Minute
	switch {
	case reason != v1alpha1.ReasonNotBack && reason != v1alpha1.ReasonPowerStillOn:
		o.world.broken("I11: what was cut is on again when its action ends, or people are told", "node %s, action %s ended as %s", n.name, a.Name, reason)
	case time.Since(b.tried) > tries && time.Since(b.ill) > tries:
		o.world.broken("I11: what was cut is switched on again whatever people say", "node %s, action %s ended as %s", n.name, a.Name, reason)
	}
}

// stays: an action stays as long as what it has cut may be off (I11).
func (o *oracles) stays(a *v1alpha1.NodeAction) {
	n := o.world.node(a.Spec.NodeName)
	if n == nil || n.bmc == nil || n.bmc.on() || n.bmc.cutBy != a.UID || a.Finished() != nil || a.Status.Power.Phase == string(proof.Ended) || time.Now().After(deadline.Restorable(a)) {
		return
	}
	o.world.broken("I11: an action stays as long as what it has cut may be off", "node %s, action %s", n.name, a.Name)
}

// machinesOff says which machine an action has cut that nobody has switched on, "" if none.
func (o *oracles) machinesOff() string {
	if o.world.powers == nil {
		return ""
	}
	for _, b := range o.world.powers.all {
		if !b.on() && b.cutBy != "" {
			return "the machine of node " + b.node.name + " is off"
		}
	}
	return ""
}
