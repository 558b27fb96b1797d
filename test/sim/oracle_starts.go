package sim

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// clockSlack is more than clocks differ that nobody corrects.
const clockSlack = 5 * time.Second

// knows reports whether the controller has acted on all that was so at a time: it had
// nothing left to do when time went on later, and nothing has gone wrong with it.
func (o *oracles) knows(at time.Time) bool {
	w := o.world
	return at.Before(o.rest) && len(w.leaders()) == 1 && time.Since(w.troubled) > quietFor
}

// announced looks at a step that the controller starts: the remediation names an action or
// a maintenance that it did not name before, and is about to be created.
func (o *oracles) announced(old, updated *v1alpha1.Remediation) {
	before, after := &old.Status, &updated.Status
	starts := after.Action != "" && after.Action != before.Action || after.Maintenance != "" && after.Maintenance != before.Maintenance
	node, step := find[*corev1.Node](o, updated.Spec.NodeName), updated.Step(after.Step)
	if !starts || updated.Annotations[v1alpha1.TombstoneAnnotation] != "" || node == nil || node.UID != updated.Spec.NodeUID || step == nil {
		return
	}
	o.approvedBefore(old, after.Step, step)
	if updated.Spec.Request != nil {
		o.requestStands(updated, fmt.Sprintf("step %d", after.Step))
	}
	o.notHeld(updated, step, node)
	o.heldByOthers(updated, step, node)
	o.nobodyElseActs(updated, node)
	o.heldAgain(updated, node)
	o.startsWhileItCounts(updated, node)
	o.stepsByDebounce(updated, node)
	o.provedBefore(old, updated, node)
	o.reallyAway(updated, node)
	o.joinedBefore(updated, node)
	if before.Maintenance == "" && (step.Maintenance != nil || step.Drain() != nil) {
		o.notInStorm(node)
	}
	if before.Maintenance == "" && step.Disruptive() {
		o.majorityStays(updated, node)
		o.staysGivenBack(updated, node)
	}
}

// I1: a majority of the control plane stays available when one of its nodes is taken out.
func (o *oracles) majorityStays(r *v1alpha1.Remediation, node *corev1.Node) {
	if !fleet.ControlPlane(node) || !o.knows(o.regrouped) {
		return
	}
	nodes, others := 0, 0
	for _, n := range stored[*corev1.Node](o) {
		if !fleet.ControlPlane(n) {
			continue
		}
		nodes++
		out := slices.ContainsFunc(sortedKeys(o.unwell[n.Name]), func(reason string) bool { return o.knows(o.unwell[n.Name][reason]) })
		if n.Name != node.Name && !out {
			others++
		}
	}
	if others < nodes/2+1 {
		o.world.broken("I1: a majority of the control plane stays available", "%s takes node %s out, and %d of %d others are available", r.Name, node.Name, others, nodes)
	}
}

// I1: nothing is started on a node on which another remediation is known to act.
func (o *oracles) nobodyElseActs(r *v1alpha1.Remediation, node *corev1.Node) {
	for _, other := range stored[*v1alpha1.Remediation](o) {
		since, acts := o.acting[other.Name]
		if acts && other.Name != r.Name && other.Spec.NodeUID == node.UID && o.everybodyKnows(since) {
			o.world.broken("I1: nothing is started on a node on which another remediation acts", "%s on node %s, on which %s acts since %s",
				r.Name, node.Name, other.Name, since.UTC().Format(time.TimeOnly))
		}
	}
}

// I5: nothing is started because a node does not answer whose kubelet renews its Lease.
func (o *oracles) reallyAway(r *v1alpha1.Remediation, node *corev1.Node) {
	n, away := o.world.node(node.Name), false
	for _, m := range r.Spec.Match {
		c := v1alpha1.FindNodeCondition(node, m.Type)
		switch {
		case m.Type == string(corev1.NodeReady) && m.Status == corev1.ConditionUnknown:
			away = true
		case m.Type == string(corev1.NodeReady), c == nil, m.Matches(c), !o.everybodyKnows(o.turned[node.Name+"/"+m.Type]):
			return // that may be why
		}
	}
	if away && n.connected() && time.Since(n.back) > o.onItsWay()+leasePeriod {
		o.world.broken("I5: nothing is started because a node does not answer that does", "%s on node %s, which is back since %s", r.Name, node.Name, time.Since(n.back))
	}
}

// Nothing is started on a node that has just joined.
func (o *oracles) joinedBefore(r *v1alpha1.Remediation, node *corev1.Node) {
	p := find[*v1alpha1.RemedyPolicy](o, r.Spec.Policy.Name)
	if p == nil || p.UID != r.Spec.Policy.UID || p.Spec.DelayAfterJoin == nil || !o.knows(o.edited[p.Name]) {
		return
	}
	if age := time.Since(node.CreationTimestamp.Time); age < p.Spec.DelayAfterJoin.Duration-clockSlack {
		o.world.broken("Nothing is started on a node that has just joined", "%s on node %s, %s after that", r.Name, node.Name, age)
	}
}

// A step that requires approval is not even started without it. The write names the
// version of the remediation that was read, so the controller knew its annotations.
func (o *oracles) approvedBefore(read *v1alpha1.Remediation, number int32, step *v1alpha1.Step) {
	if !step.RequireApproval {
		return
	}
	if approved, err := strconv.Atoi(read.Annotations[v1alpha1.ApprovedStepAnnotation]); err != nil || approved < int(number) {
		o.world.broken("A step that requires approval is not started without it", "%s: step %d", read.Name, number)
	}
}

// No surprise: a fault that has come back since the remediation began holds for its time before
// the next step.
func (o *oracles) heldAgain(r *v1alpha1.Remediation, node *corev1.Node) {
	if ready := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady)); ready == nil || ready.Status != corev1.ConditionTrue {
		return // which may be why
	}
	var short string
	for _, m := range r.Spec.Match {
		c := v1alpha1.FindNodeCondition(node, m.Type)
		if !o.everybodyKnows(o.turned[node.Name+"/"+m.Type]) {
			return
		}
		if m.Debounces() && m.Matches(c) {
			return // which stepsByDebounce looks at
		}
		if !m.Matches(c) {
			continue
		}
		since := c.LastTransitionTime
		if !since.After(r.CreationTimestamp.Time) || time.Since(since.Time) >= m.For.Duration-clockSlack {
			return
		}
		if time.Since(since.Time) < -clockSlack {
			return // the node's clock was ahead: nobody knows since when
		}
		short = m.Type
	}
	if short != "" {
		o.world.broken("No surprise: a fault that has come back holds for its time before the next step", "%s: %s", r.Name, short)
	}
}

// Nothing is started that a person or a policy is known to hold back.
func (o *oracles) notHeld(r *v1alpha1.Remediation, step *v1alpha1.Step, node *corev1.Node) {
	if o.knows(o.edited[r.Spec.Policy.Name]) && o.knows(o.world.people.limited) {
		if why := o.notOfPolicy(r.Spec.Policy, *step, node); why != "" {
			o.world.broken("I6: only what a policy says is started", "%s: step %d, and policy %s %s", r.Name, r.Status.Step, r.Spec.Policy.Name, why)
		}
	}
	if node.Labels[v1alpha1.ExcludeLabel] == "true" && o.knows(o.labelled[node.Name]) {
		o.world.broken("Nothing is started on a node that is excluded", "%s on node %s", r.Name, node.Name)
	}
	if leaving(node) && o.knows(o.unwell[node.Name]["leaving"]) {
		o.world.broken("Nothing is started on a node that is leaving", "%s on node %s", r.Name, node.Name)
	}
	goesOn := r.Status.Action != "" && r.Status.Maintenance != "" // with a node that is out already
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if selects(b, node) && step.Disruptive() && !goesOn && !open(b.Spec.AllowedWindows) && o.knows(o.world.people.limited) {
			o.world.broken("A disruptive step starts within the windows of its budgets", "%s: step %d on node %s, budget %s", r.Name, r.Status.Step, node.Name, b.Name)
		}
	}
	for _, m := range stored[*v1alpha1.NodeMaintenance](o) {
		own := m.Spec.Remediation != nil && m.Spec.Remediation.UID == r.UID
		holds := m.DeletionTimestamp == nil && m.Spec.NodeName == node.Name && (m.Spec.NodeUID == "" || m.Spec.NodeUID == node.UID)
		if !own && holds && o.knows(m.CreationTimestamp.Add(time.Second)) {
			o.world.broken("Nothing is started on a node that somebody else has taken out", "%s on node %s, which is in maintenance %s", r.Name, node.Name, m.Name)
		}
	}
}

// open reports whether it is the time of one of the windows, which are of every day here, and
// in UTC or nowhere.
func open(windows []v1alpha1.Window) bool {
	return windows == nil || slices.ContainsFunc(windows, func(w v1alpha1.Window) bool {
		return slices.ContainsFunc([]time.Duration{-clockSlack, 0, clockSlack}, func(off time.Duration) bool {
			now := time.Now().UTC().Add(off).Format("15:04")
			return w.TimeZone == "UTC" && w.Start <= now && now < w.End
		})
	})
}

// proofLasts is how long what a check has seen proves that a fault is there: a detector
// repeats it every 30 s.
const proofLasts = 2 * time.Minute

// I5: nothing is started unless a check has confirmed the fault since the last action of
// the remediation, since the node has booted and became Ready, and lately.
func (o *oracles) provedBefore(old, updated *v1alpha1.Remediation, node *corev1.Node) {
	if updated.Spec.Request != nil {
		return // which its driver proves
	}
	n := o.world.node(node.Name)
	ready := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
	if ready == nil || ready.Status != corev1.ConditionTrue || !o.knows(n.turned) {
		return // that it is not Ready may be the fault
	}
	since := ready.LastTransitionTime.Time
	if time.Since(since) < clockSlack || !n.jumped.IsZero() {
		return // of a time that is ahead nobody knows what was after it
	}
	since = since.Add(-clockSlack)
	// One that was created after the boot can't know of it: the node only has its boot ID.
	if told := o.rebooted[node.Name]; told.After(n.booted) && o.knows(told) && updated.CreationTimestamp.Time.Before(told.Truncate(time.Second)) {
		since = later(since, n.booted)
	}
	for _, e := range n.executions {
		if e.ends.After(since) && slices.ContainsFunc(old.Status.History, func(r v1alpha1.ActionRecord) bool { return r.Action == e.order.Action }) {
			since = e.ends
		}
	}
	since = later(since, time.Now().Add(-proofLasts-clockSlack-o.onItsWay()))
	for _, m := range updated.Spec.Match {
		if m.Type == string(corev1.NodeReady) || o.sawInAnyBoot(n, m.Type, m.Status, since) {
			return
		}
	}
	o.world.broken("I5: nothing is started unless a check has confirmed the fault since the node became Ready, and lately", "%s: step %d on node %s, not since %s",
		updated.Name, updated.Status.Step, node.Name, since.UTC().Format(time.TimeOnly))
}
