package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// executed looks at an execution that has just begun.
func (o *oracles) executed(e *execution) {
	if o.violation != nil {
		return
	}
	if e.node.runs == dry && !e.outside {
		o.world.broken("A runner in a dry run executes nothing", "%s (%s) on node %s", e.order.Action, e.remedy, e.node.name)
	}
	o.executedOnce(e)
	o.notFinishedBefore(e)
	o.aloneOnNode(e)
	o.underPermit(e)
	o.confirmed(e)
	o.approved(e)
	o.aloneInControlPlane(e)
	o.rebootsWithinRate(e)
	o.ordered(e)
	o.outOfService(e)
	o.withinRates(e)
	o.withinConcurrent(e)
}

// nobodyKnows reports whether nobody can know of an execution: the ledger is lost in which
// it was, or did not survive a boot, and the action was deleted and created again.
func (o *oracles) nobodyKnows(earlier, e *execution) bool {
	n := e.node
	lost := !n.ledgerLost.Before(earlier.began) || n.booted.After(earlier.began) && o.world.people.blinded[e.order.Action]
	return lost && earlier.order.Action == e.order.Action && earlier.order.UID != e.order.UID
}

// I2: an action is executed at most once.
func (o *oracles) executedOnce(e *execution) {
	for _, n := range o.world.nodes {
		for _, other := range n.executions {
			if other != e && other.order.Action == e.order.Action && !o.nobodyKnows(other, e) {
				o.world.broken("I2: an action is executed at most once", "%s on node %s, again after %s", e.order.Action, n.name, time.Since(other.began))
			}
		}
	}
}

// I1: one remediation acts on a node at a time; and attempt N+1 never starts before N has
// ended (I2).
func (o *oracles) aloneOnNode(e *execution) {
	for _, other := range e.node.executions {
		a := o.actions[other.order.UID]
		unknown := o.nobodyKnows(other, e) || o.world.people.blinded[other.order.Action] || a != nil && o.succeeded(a)
		if other != e && other.runs() && !unknown {
			o.world.broken("I1: one remediation acts on a node at a time", "%s began on node %s while %s still ran",
				e.order.Action, e.node.name, other.order.Action)
		}
	}
}

// I1: whoever acts on a node holds the permit of every budget that selects it. A person
// who changes budgets, or what they select, in the middle of it is asked nothing more.
func (o *oracles) underPermit(e *execution) {
	action := find[*v1alpha1.NodeAction](o, e.order.Action)
	node := find[*corev1.Node](o, e.node.name)
	if action == nil || node == nil || action.CreationTimestamp.Sub(o.world.people.limited) < staleFor {
		return
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if selects(b, node) && !holds(b, node.Name, action.Spec.Remediation) {
			o.world.broken("I1: nothing is executed without a permit", "%s on node %s, without the permit of budget %s",
				e.order.Action, node.Name, b.Name)
		}
	}
}

// No action without evidence (I5): a check has confirmed a fault that the policy matches,
// since the node has booted and since the last execution on it has ended.
func (o *oracles) confirmed(e *execution) {
	action := find[*v1alpha1.NodeAction](o, e.order.Action)
	if action == nil {
		return
	}
	remediation := find[*v1alpha1.Remediation](o, action.Spec.Remediation)
	if remediation == nil {
		return
	}
	if remediation.Spec.Request != nil {
		o.requestStands(remediation, action.Name)
		return
	}
	after, saw := e.node.booted, o.saw
	if n := find[*corev1.Node](o, e.node.name); e.remedy == v1alpha1.RemedyReplace && n != nil && n.Status.NodeInfo.BootID != e.node.bootID() {
		after, saw = time.Time{}, o.sawInAnyBoot // its kubelet has not told yet that it has booted, and a remote runner is not there
	}
	for _, other := range e.node.executions {
		if other == e || !other.ends.After(after) || !o.world.people.meddled.Before(other.began) {
			continue // nobody may know of it
		}
		after = other.ends
	}
	for _, m := range remediation.Spec.Match {
		if m.Type == string(corev1.NodeReady) || saw(e.node, m.Type, m.Status, after) {
			return
		}
	}
	o.world.broken("I5: nothing is executed unless a check has confirmed the fault since the last action and boot",
		"%s (%s) on node %s", e.order.Action, e.remedy, e.node.name)
}

// I1: a permit is not returned while something may run under it.
func (o *oracles) permitsReturned(old, updated *v1alpha1.RemediationBudget) {
	for _, group := range sortedKeys(old.Status.Groups) {
		for _, node := range sortedKeys(old.Status.Groups[group].Permits) {
			permit := old.Status.Groups[group].Permits[node]
			if !holds(updated, node, permit.Remediation) {
				o.permitReturned(updated.Name, node, permit)
			}
		}
	}
}

// succeeded reports whether somebody has removed the finalizer of an action's remediation,
// and another one has its name that was created before everybody had seen the action.
func (o *oracles) succeeded(a *v1alpha1.NodeAction) bool {
	r := find[*v1alpha1.Remediation](o, a.Spec.Remediation)
	if !o.world.people.forced[a.Spec.RemediationUID] || r == nil || r.UID == a.Spec.RemediationUID {
		return false
	}
	since, known := o.knownSince(a.CreationTimestamp.Add(time.Second))
	return !known || since.After(r.CreationTimestamp.Time)
}

// selects reports whether a budget selects a node. Who acts on one that it does not select any
// more may hold a permit of an earlier attempt.
func (o *oracles) selects(budget, node string) bool {
	b, n := find[*v1alpha1.RemediationBudget](o, budget), find[*corev1.Node](o, node)
	return b == nil || n == nil || selects(b, n)
}

// naming returns the remediation that names the action, nil if none does: then nobody begins it.
func (o *oracles) naming(a *v1alpha1.NodeAction) *v1alpha1.Remediation {
	r := find[*v1alpha1.Remediation](o, a.Spec.Remediation)
	if r == nil || r.UID != a.Spec.RemediationUID || r.Status.Action != a.Name {
		return nil
	}
	return r
}

// onlyTheMachineIsLeft reports whether a machine that is being replaced hangs while it goes, its Node is gone, and 5 minutes
// after the step's timeout nobody waits for it any more.
func (o *oracles) onlyTheMachineIsLeft(a *v1alpha1.NodeAction) bool {
	n := find[*corev1.Node](o, a.Spec.NodeName)
	return a.Status.Replace != nil && a.Status.Claim != nil && (n == nil || n.UID != a.Spec.NodeUID) &&
		time.Since(a.Status.Claim.Time.Time) >= a.Spec.Timeout.Duration+5*time.Minute
}

func (o *oracles) permitReturned(budgetName, nodeName string, permit v1alpha1.Permit) {
	if !o.selects(budgetName, nodeName) {
		return
	}
	n := o.world.node(nodeName)
	for _, e := range n.executions {
		if !e.runs() || o.world.people.blinded[e.order.Action] {
			continue
		}
		action := find[*v1alpha1.NodeAction](o, e.order.Action)
		if action != nil && action.Spec.Remediation == permit.Remediation && !o.succeeded(action) && !o.onlyTheMachineIsLeft(action) {
			o.world.broken("I1: a permit is kept while something runs under it", "budget %s: the permit of %s for node %s was returned while %s ran",
				budgetName, permit.Remediation, nodeName, e.order.Action)
		}
	}
	for _, a := range stored[*v1alpha1.NodeAction](o) {
		if o.succeeded(a) || o.world.people.blinded[a.Name] || o.unasked[a.UID] && o.naming(a) == nil {
			continue // nobody may know of it, and no runner begins it
		}
		if a.Spec.Remediation == permit.Remediation && a.Finished() == nil && a.Status.Claim == nil && a.Spec.ExpiresAt.After(time.Now()) {
			o.world.broken("I1: a permit is kept while something may begin under it", "budget %s: the permit of %s for node %s was returned while %s could be claimed",
				budgetName, permit.Remediation, nodeName, a.Name)
		}
	}
}
