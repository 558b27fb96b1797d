package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/test/apiserver"
)

// A plot is several things that have to happen one after the other, which chance alone
// hardly ever brings together.

// snatchBudget lets a person replace a budget as soon as it has given a permit. The
// controller, which has just been cut off, can do nothing with the permit, and does not see
// for a while that it is gone.
func (w *world) snatchBudget() bool {
	const long = 45 * time.Second
	return w.set(permitGiven, func(_ *process, given client.Object) {
		for _, p := range w.leaders() {
			w.cutOffFor(p, long)
			w.stall(p, &v1alpha1Budget, long+3*time.Minute)
		}
		w.createAgain(given.GetName())
	})
}

// createAgain lets a person delete a budget and create it again as it was.
func (w *world) createAgain(budget string) {
	b := apiserver.Peek[*v1alpha1.RemediationBudget](w.server, client.ObjectKey{Name: budget})
	if b == nil || !w.chaos {
		return
	}
	fresh := &v1alpha1.RemediationBudget{Spec: *b.Spec.DeepCopy()}
	fresh.Name = b.Name
	w.exchange(b, fresh)
}

// exchange lets a person delete a budget and create another one of its name.
func (w *world) exchange(b, fresh *v1alpha1.RemediationBudget) {
	w.people.limited = time.Now()
	w.remove(b.DeepCopy())
	w.must(w.admin.Create(w.ctx, fresh))
}

// editCounted lets a person change which nodes a budget selects while a controller writes
// what it has counted: it has to count again for what it reads then.
func (w *world) editCounted() bool {
	budgets := apiserver.Stored[*v1alpha1.RemediationBudget](w.server)
	if len(budgets) == 0 {
		return false
	}
	selector := w.selector()
	w.slow["patch RemediationBudget"] = func(c *call) time.Duration {
		w.after(500*time.Millisecond, func() {
			b := apiserver.Peek[*v1alpha1.RemediationBudget](w.server, client.ObjectKey{Name: c.request.Name})
			if b == nil || !w.chaos || b.Name == v1alpha1.ClusterPauseBudget {
				return
			}
			for _, p := range w.leaders() {
				w.stall(p, &v1alpha1Budget, time.Minute)
			}
			other := b.DeepCopy()
			other.Spec.NodeSelector = selector
			w.people.limited = time.Now()
			w.update(other)
		})
		return time.Second
	}
	return true
}

// forgetActing lets a person create a budget again while the next action runs. No controller
// has seen since that something goes on.
func (w *world) forgetActing() bool {
	return w.set(actionCreated, func(_ *process, created client.Object) {
		a := created.(*v1alpha1.NodeAction) //nolint:forcetypeassert // nothing else springs it
		for _, p := range w.leaders() {
			w.stall(p, &v1alpha1Remediation, 2*time.Minute)
		}
		r := apiserver.Peek[*v1alpha1.Remediation](w.server, client.ObjectKey{Name: a.Spec.Remediation})
		if r == nil {
			return
		}
		for _, b := range w.budgetsOf(r) {
			w.after(45*time.Second, func() { w.createAgain(b) })
		}
	})
}

// misjudge lets a controller, right after it has taken a permit for a policy that was just
// resumed, be slow to announce what for. Another one does not see that the policy goes on:
// to it the permit is of no use.
func (w *world) misjudge() bool {
	r, ok := w.aRemediation(idle)
	if !ok || !w.twoLeaders() {
		return false
	}
	policy, blind := r.Spec.Policy.Name, w.leaders()[1]
	w.setPaused(policy, true)
	w.after(20*time.Second, func() {
		if !w.chaos || blind.dead.Load() {
			return
		}
		w.stall(blind, &v1alpha1Policy, time.Minute)
		w.setPaused(policy, false)
		w.set(permitGiven, func(by *process, _ client.Object) {
			if by != blind {
				w.freezeFor(by, 10*time.Second)
			}
		})
	})
	return true
}

// refuseOne lets the second of two budgets refuse its permit to one of two controllers, when
// the other one has just taken that of the first, and then gets both. The remediation has
// been refused for the same reason before, so that there is nothing new to tell of it.
func (w *world) refuseOne() bool {
	r, ok := w.aRemediation(func(r *v1alpha1.Remediation) bool { return idle(r) && len(w.budgetsOf(r)) > 1 })
	if !ok || !w.twoLeaders() {
		return false
	}
	const long = 5 * time.Minute
	budgets, leaders := w.budgetsOf(r), w.leaders()
	pause := func(paused bool) { w.setBudgetPaused(budgets[1], paused) }
	var first func(by *process, given client.Object)
	if !w.set(heldByPause, func(_ *process, held client.Object) {
		pause(false)
		for _, p := range leaders {
			w.listAnew(p, &v1alpha1Budget)
		}
		refused := held.(*v1alpha1.Remediation) //nolint:forcetypeassert // nothing else springs it
		first = func(by *process, given client.Object) {
			b := given.(*v1alpha1.RemediationBudget) //nolint:forcetypeassert // nothing else springs it
			if b.Name != budgets[0] || !holds(b, refused.Spec.NodeName, refused.Name) {
				w.set(permitGiven, first)
				return
			}
			for _, p := range leaders {
				w.stall(p, &v1alpha1Budget, 10*time.Second)
			}
			w.freezeFor(by, 8*time.Second)
			pause(true)
			w.after(5*time.Second, func() { pause(false) })
		}
		w.set(permitGiven, first)
	}) {
		return false
	}
	for _, p := range leaders {
		w.stall(p, &v1alpha1Budget, long)
	}
	pause(true)
	w.after(long, func() { pause(false) })
	return true
}

// idle reports whether a remediation has nothing under way.
func idle(r *v1alpha1.Remediation) bool {
	return !r.Ended() && r.Status.Action == "" && r.Status.Maintenance == ""
}

// budgetsOf are the names of the budgets that select the node of a remediation, in order.
func (w *world) budgetsOf(r *v1alpha1.Remediation) (names []string) {
	node := apiserver.Peek[*corev1.Node](w.server, client.ObjectKey{Name: r.Spec.NodeName})
	for _, b := range apiserver.Stored[*v1alpha1.RemediationBudget](w.server) {
		if node != nil && selects(b, node) {
			names = append(names, b.Name)
		}
	}
	slices.Sort(names)
	return names
}

// replacePolicy lets a person replace a policy, when nodes may just fall sick of what it is
// for. No controller sees that the one before is gone: each finds the other one in its place
// when it lists anew.
func (w *world) replacePolicy() bool {
	p, ok := w.aPolicy()
	if !ok {
		return false
	}
	w.hide(p, of(w.choices, 20*time.Second, 2*time.Minute))
	for _, n := range w.nodes {
		if condition := firstMatch(p); w.chance(300) && n.up && n.faults[condition] == nil {
			n.fail(condition, "")
		}
	}
	fresh := w.newPolicy(p.Name)
	w.people.edited = time.Now()
	w.remove(p)
	w.must(w.admin.Create(w.ctx, fresh))
	return true
}

// wantBackRebooting lets a person give back a node whose next reboot waits for its runner.
func (w *world) wantBackRebooting() bool {
	delay := of(w.choices, (*node).runnerAway, (*node).agentsAway, (*node).lateClaim)
	undone := of(w.choices, time.Second, 10*time.Second)
	var when func(*process, client.Object)
	when = func(_ *process, created client.Object) {
		a := created.(*v1alpha1.NodeAction) //nolint:forcetypeassert // nothing else springs it
		r := apiserver.Peek[*v1alpha1.Remediation](w.server, client.ObjectKey{Name: a.Spec.Remediation})
		if r == nil || r.Status.Maintenance == "" {
			w.set(actionCreated, when)
			return
		}
		delay(w.node(a.Spec.NodeName))
		w.after(undone, func() { w.undo(r.Name, w.giveBackOf) })
	}
	return w.set(actionCreated, when)
}

// fillUnseen lets a person uncordon a node that is out and will not be healed by the action
// that was just created, and cordon it again when a pod has come. No controller sees that it
// was uncordoned.
func (w *world) fillUnseen() bool {
	again := of(w.choices, time.Second, 20*time.Second)
	var when func(*process, client.Object)
	when = func(_ *process, created client.Object) {
		a := created.(*v1alpha1.NodeAction) //nolint:forcetypeassert // nothing else springs it
		r, n := apiserver.Peek[*v1alpha1.Remediation](w.server, client.ObjectKey{Name: a.Spec.Remediation}), w.node(a.Spec.NodeName)
		if r == nil || n == nil || r.Status.Maintenance == "" {
			w.set(actionCreated, when)
			return
		}
		for _, condition := range slices.Sorted(maps.Keys(n.faults)) {
			n.faults[condition].cure = ""
			w.say("host "+n.name, "nothing cures %s any more", condition)
		}
		w.hide(&corev1.Node{}, time.Minute)
		w.after(2*time.Second, func() {
			w.fill(n)
			w.after(again, func() { w.setCordon(n, true) })
		})
	}
	return w.set(actionCreated, when)
}

// loseNodeOut lets a node be registered anew that was just taken out. One of two controllers
// gives back the node that is gone, and the other one does not see yet that it is.
func (w *world) loseNodeOut() bool {
	if !w.twoLeaders() {
		return false
	}
	after := of(w.choices, 5*time.Second, 30*time.Second)
	return w.set(maintenanceCreated, func(_ *process, created client.Object) {
		m := created.(*v1alpha1.NodeMaintenance) //nolint:forcetypeassert // nothing else springs it
		if leaders := w.leaders(); len(leaders) > 1 {
			w.stall(leaders[1], &corev1.Node{}, 2*time.Minute)
		}
		w.after(after, func() {
			if node := apiserver.Peek[*corev1.Node](w.server, client.ObjectKey{Name: m.Spec.NodeName}); node != nil && w.chaos {
				w.registerAnew(node.DeepCopy())
			}
		})
	})
}

// queueUp lets people try a policy out, in mode DryRun, and leave few permits, when all nodes
// are sick of what it is for, and then of all else.
func (w *world) queueUp() bool {
	tried, ok := w.aPolicy()
	if !ok {
		return false
	}
	if w.chance(500) {
		w.people.edited = time.Now()
		tried.Spec.Mode = v1alpha1.ModeDryRun
		w.update(tried)
	}
	for _, b := range apiserver.Stored[*v1alpha1.RemediationBudget](w.server) {
		if b.Name != v1alpha1.ClusterPauseBudget && w.chance(700) {
			w.people.limited = time.Now()
			few := b.DeepCopy()
			few.Spec.MaxConcurrent, few.Spec.GroupBy = ptr.To(of(w.choices, intstr.FromInt32(1), intstr.FromInt32(2))), ""
			w.update(few)
		}
	}
	for _, n := range w.nodes {
		for _, condition := range conditions() {
			soon := time.Second
			if condition != firstMatch(tried) {
				soon = 5 * time.Second
			}
			w.after(soon, func() {
				if w.chaos && n.faults[condition] == nil {
					n.fail(condition, "")
				}
			})
		}
	}
	return true
}

// replaceBudget lets a person replace a budget by another one, which mostly selects other
// nodes. No controller sees that for a while.
func (w *world) replaceBudget() bool {
	b, ok := w.aBudget()
	if !ok {
		return false
	}
	w.hide(b, 2*time.Minute)
	w.exchange(b, w.newBudget(b.Name))
	return true
}

// forgetControlPlane lets a node of the control plane be deleted while its next action runs
// on, or every budget that selects it, when all others of the control plane are sick, too.
func (w *world) forgetControlPlane() bool {
	forget := of(w.choices, w.registerAnew, w.leaveOut)
	var when func(*process, client.Object)
	when = func(_ *process, created client.Object) {
		a := created.(*v1alpha1.NodeAction) //nolint:forcetypeassert // nothing else springs it
		node, others := w.controlPlane(a.Spec.NodeName)
		if node == nil {
			w.set(actionCreated, when)
			return
		}
		w.after(5*time.Second, func() {
			if w.chaos {
				forget(node.DeepCopy())
			}
		})
		for _, n := range others {
			for _, condition := range conditions() {
				if n.faults[condition] == nil {
					n.fail(condition, "")
				}
			}
		}
	}
	_, all := w.controlPlane("")
	return len(all) > 1 && w.set(actionCreated, when)
}

// controlPlane returns the node of this name, nil unless it is of the control plane, and all
// others that are.
func (w *world) controlPlane(name string) (one *corev1.Node, others []*node) {
	for _, n := range w.nodes {
		node := apiserver.Peek[*corev1.Node](w.server, client.ObjectKey{Name: n.name})
		switch {
		case node == nil || !fleet.ControlPlane(node):
		case n.name == name:
			one = node
		default:
			others = append(others, n)
		}
	}
	return one, others
}

// leaveOut lets a person replace the budgets that select a node by others, which select nodes
// of the control plane with another label. It returns false if there are none.
func (w *world) leaveOut(node *corev1.Node) bool {
	label := w.labelOfOthers(node)
	for _, b := range apiserver.Stored[*v1alpha1.RemediationBudget](w.server) {
		if label == nil || !selects(b, node) {
			continue
		}
		fresh := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: b.Name}, Spec: *b.Spec.DeepCopy()}
		fresh.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: label}
		w.exchange(b, fresh)
	}
	return label != nil
}

// labelOfOthers is a label that another node of the control plane has, and this one has not;
// nil: there is none.
func (w *world) labelOfOthers(node *corev1.Node) map[string]string {
	for _, n := range w.nodes {
		other := apiserver.Peek[*corev1.Node](w.server, client.ObjectKey{Name: n.name})
		for _, label := range []string{poolLabel, "rack"} {
			if other != nil && fleet.ControlPlane(other) && other.Labels[label] != node.Labels[label] {
				return map[string]string{label: other.Labels[label]}
			}
		}
	}
	return nil
}

// registerActing lets a node be registered anew while its next action runs, of which its
// runner knows nothing any more.
func (w *world) registerActing() bool {
	deleted := w.chance(500)
	return w.set(actionCreated, func(_ *process, created client.Object) {
		a := created.(*v1alpha1.NodeAction) //nolint:forcetypeassert // nothing else springs it
		n := w.node(a.Spec.NodeName)
		n.looksLast = &lastLook{}
		w.after(5*time.Second, func() {
			var node corev1.Node
			if w.chaos && n.runner != nil && !n.runner.dead.Load() && w.admin.Get(w.ctx, client.ObjectKey{Name: n.name}, &node) == nil {
				n.loseLedger(2 * time.Second)
				w.registerAnew(&node)
			}
		})
		if deleted {
			w.after(10*time.Second, func() { w.deleteLost(a.Name) })
		}
	})
}

// deleteLost lets a person delete an action of which nobody knows whether it runs on, and
// that has left nothing but the record of its remediation.
func (w *world) deleteLost(action string) {
	a := apiserver.Peek[*v1alpha1.NodeAction](w.server, client.ObjectKey{Name: action})
	if a == nil || !w.chaos {
		return
	}
	if r := apiserver.Peek[*v1alpha1.Remediation](w.server, client.ObjectKey{Name: a.Spec.Remediation}); r != nil && r.Status.Action == "" && r.DeletionTimestamp == nil {
		w.remove(a.DeepCopy())
	}
}

// startTwice lets the creation of a remediation be on its way for minutes. Who has sent it
// sends it again; and when it arrives, that remediation is over and deleted, and another one
// is open.
func (w *world) startTwice() bool {
	n := w.anyNode(func(n *node) bool { return n.up && n.detector != nil && len(n.faults) == 0 })
	if n == nil {
		return false
	}
	condition := of(w.choices, conditions()...)
	n.fail(condition, "")
	w.slow["create Remediation"] = func(c *call) time.Duration {
		if !strings.HasPrefix(c.request.Name, n.name+"-") {
			return 0
		}
		w.after(time.Minute, func() {
			delete(n.faults, condition)
			n.lookNow()
		})
		w.after(150*time.Second, func() {
			if w.chaos && n.faults[condition] == nil {
				n.fail(condition, "")
			}
		})
		w.after(230*time.Second, func() {
			first := apiserver.Peek[*v1alpha1.Remediation](w.server, client.ObjectKey{Name: c.request.Name})
			if first != nil && first.Ended() && w.chaos {
				w.people.meddled = time.Now()
				w.remove(first.DeepCopy())
			}
		})
		return 4 * time.Minute
	}
	return true
}

// lateOut lets the creation of a maintenance be on its way for minutes. Meanwhile somebody
// pauses the policy, and the remediation gives up what it has announced.
func (w *world) lateOut() bool {
	w.slow["create NodeMaintenance"] = func(c *call) time.Duration {
		for _, r := range apiserver.Stored[*v1alpha1.Remediation](w.server) {
			if r.Status.Maintenance == c.request.Name {
				w.after(time.Second, func() {
					if w.chaos {
						w.pauseOf(r.DeepCopy())
					}
				})
				w.slow["delete NodeMaintenance"] = func(*call) time.Duration { return 10 * time.Second }
				return 2 * time.Minute
			}
		}
		return 0
	}
	return true
}

// widen lets a person delete a remediation whose policy has just come to match all that its
// node is sick of. No controller sees for a while that the next one is there: only the
// tombstone of the one before.
func (w *world) widen() bool {
	r, ok := w.aRemediation(func(r *v1alpha1.Remediation) bool { return idle(r) && r.DeletionTimestamp == nil })
	var p v1alpha1.RemedyPolicy
	if !ok || r.Spec.Policy.Name == deadPolicy || w.admin.Get(w.ctx, client.ObjectKey{Name: r.Spec.Policy.Name}, &p) != nil {
		return false
	}
	p.Spec.Match = nil
	n := w.node(r.Spec.NodeName)
	for _, condition := range conditions() {
		p.Spec.Match = append(p.Spec.Match, v1alpha1.ConditionMatch{Type: condition, Status: corev1.ConditionTrue})
		if n.faults[condition] == nil {
			n.fail(condition, "")
		}
	}
	w.people.edited = time.Now()
	w.update(&p)
	w.after(10*time.Second, func() {
		w.slow["create Remediation"] = func(c *call) time.Duration {
			if c.request.Name == r.Name || strings.HasPrefix(c.request.Name, r.Name+"-") || !strings.HasPrefix(c.request.Name, n.name+"-") {
				return 0
			}
			for _, p := range w.leaders() {
				w.after(500*time.Millisecond, func() { w.stall(p, &v1alpha1Remediation, 20*time.Second) })
			}
			return time.Second
		}
		w.undo(r.Name, w.deleteOf)
	})
	return true
}

// regroup lets people have a budget group its nodes no more while remediations hold a permit
// of each group to take their nodes out, and come to a gentler step.
func (w *world) regroup() bool {
	p, some := w.aPolicy()
	b, limited := w.aBudget()
	if !some || !limited || !w.set(actionCreated, func(*process, client.Object) {
		w.after(100*time.Second, func() { w.ungroup(b.Name) })
	}) {
		return false
	}
	w.people.edited, w.people.limited = time.Now(), time.Now()
	reboot, gentle := w.newStep(), w.newStep()
	reboot.Command, reboot.RestartUnit, reboot.External, reboot.RequireApproval, reboot.Attempts = nil, nil, nil, false, 1
	reboot.Reboot, reboot.Timeout = &v1alpha1.RebootRemedy{}, duration(10*time.Minute)
	gentle.Reboot, gentle.RestartUnit, gentle.External, gentle.RequireApproval = nil, nil, nil, false
	gentle.Command, gentle.Timeout = &v1alpha1.CommandRemedy{Argv: []string{"/bin/a"}}, duration(20*time.Second)
	p.Spec.Steps = []v1alpha1.Step{reboot, gentle}
	w.update(p)
	b.Spec = v1alpha1.RemediationBudgetSpec{GroupBy: "rack", MaxConcurrent: ptr.To(intstr.FromInt32(10)), MaxUnavailable: ptr.To(intstr.FromInt32(1))}
	w.update(b)
	for _, n := range w.nodes {
		if condition := firstMatch(p); n.up && n.faults[condition] == nil {
			n.fail(condition, "")
		}
	}
	return true
}

// ungroup lets a person have a budget group its nodes no more.
func (w *world) ungroup(budget string) {
	b := apiserver.Peek[*v1alpha1.RemediationBudget](w.server, client.ObjectKey{Name: budget})
	if b == nil || !w.chaos {
		return
	}
	one := b.DeepCopy()
	one.Spec.GroupBy = ""
	w.people.limited = time.Now()
	w.update(one)
}

// rebootVerifying lets a node have rebooted by itself right before its next attempt is due,
// and before its detector looks.
func (w *world) rebootVerifying() bool {
	r, ok := w.aRemediation(func(r *v1alpha1.Remediation) bool {
		return r.State() == v1alpha1.ReasonVerifying && r.Step(r.Status.Step) != nil && len(r.Status.History) > 0
	})
	if !ok {
		return false
	}
	const takes = 20 * time.Second
	n, due := w.node(r.Spec.NodeName), r.Status.History[len(r.Status.History)-1].FinishedAt.Add(r.Step(r.Status.Step).VerifyTimeout.Duration)
	left := time.Until(due) - takes - of(w.choices, 4*time.Second, 2*time.Second)
	if left <= 0 {
		return false
	}
	w.after(left, func() {
		if n.up && w.chaos {
			n.powerOff()
			w.after(takes, n.powerOn)
		}
	})
	return true
}

// backUnseen cuts a node off until everybody knows that it does not answer, for which a
// policy takes steps. That it is back no controller sees for a while, but by its Lease.
func (w *world) backUnseen() bool {
	p, ok := w.aPolicy()
	n := w.anyNode(func(n *node) bool { return n.connected() })
	if !ok || n == nil {
		return false
	}
	w.people.edited = time.Now()
	p.Spec.Match = []v1alpha1.ConditionMatch{{Type: string(corev1.NodeReady), Status: corev1.ConditionUnknown, For: duration(time.Minute)}}
	w.update(p)
	w.say("network", "node %s is cut off", n.name)
	n.cutOff(true)
	w.after(gracePeriod+leasePeriod, func() {
		for _, p := range w.leaders() {
			w.stall(p, &corev1.Node{}, 3*time.Minute)
		}
		w.say("network", "node %s is back", n.name)
		n.cutOff(false)
	})
	return true
}
