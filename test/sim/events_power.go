package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/test/apiserver"
)

// deadPolicy is the policy that switches power.
const deadPolicy = "dead"

// happeningsOfPower befall machines, their BMCs and what uses their volumes, in runs with power.
func happeningsOfPower() []happening {
	return []happening{
		{"a node hangs", 60, (*world).hang},
		{"a BMC goes wrong", 20, (*world).breakBMC},
		{"somebody switches a machine on or off", 20, (*world).switchMachine},
		{"a power cycle meets trouble", 100, (*world).troublePower},
		{"a remote runner is cut off from the API server", 10, (*world).cutRemoteOff},
		{"a person says that a machine is off", 30, (*world).giveWord},
		{"a person sets or takes away the taint out-of-service", 10, (*world).setTaint},
	}
}

// setPower gives machines BMCs, and has nodes hang, for which there is a policy that switches their power.
func (w *world) setPower() {
	w.installPower()
	w.must(w.admin.Create(w.ctx, w.newPolicy(deadPolicy)))
	b := &v1alpha1.RemediationBudget{}
	b.Name, b.Spec.MaxConcurrent = "b1", ptr.To(of(w.choices, intstr.FromInt32(2), intstr.FromInt32(1), intstr.FromInt32(10)))
	w.must(w.admin.Create(w.ctx, b))
	for _, h := range happeningsOfPower() {
		if h.weight *= of(w.choices, 2, 4, 1); h.weight > 0 {
			w.happenings = append(w.happenings, h)
		}
	}
	w.profile.steps *= 2 // a power cycle takes minutes
	w.after(of(w.choices, 10*time.Second, 30*time.Second), func() { w.hang() })
}

// newDead makes a policy one for nodes that do not answer.
func (w *world) newDead(p *v1alpha1.RemedyPolicy) {
	p.Spec.NodeSelector = nil
	p.Spec.Match = []v1alpha1.ConditionMatch{{Type: string(corev1.NodeReady), Status: corev1.ConditionUnknown, For: duration(of(w.choices, 10*time.Second, 10*time.Second, time.Minute))}}
	s := powerCycle(w.chance(700))
	s.Timeout, s.Attempts, s.RequireApproval = duration(of(w.choices, 20*time.Minute, 30*time.Minute)), int32(1+w.pick(2)), w.chance(50)
	if w.chance(100) {
		s.Reboot.Drain = w.newDrain()
	}
	if w.chance(300) {
		s.Reboot.IfOff = v1alpha1.IfOffSwitchOn
	}
	p.Spec.Steps = []v1alpha1.Step{s}
	if w.chance(300) {
		p.Spec.Steps = append(p.Spec.Steps, v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "search", Drain: w.newDrain()}})
	}
}

// hang lets the host of a node stand still, until it is switched off, or goes on by itself.
func (w *world) hang() bool {
	n := w.anyNode(func(n *node) bool { return n.bmc != nil && n.connected() })
	if n == nil {
		return false
	}
	n.hangs()
	boot := n.boot
	w.after(of(w.choices, time.Hour, time.Hour, 75*time.Second, 3*time.Minute, 6*time.Minute), func() {
		if n.boot == boot {
			n.wakes()
		}
	})
	return true
}

// aBMC chooses the BMC of a node whose power is being switched, if there is one, or else of any; nil: there is
// none.
func (w *world) aBMC() *bmc {
	acts := func(n *node) bool {
		return n.bmc != nil && slices.ContainsFunc(apiserver.Stored[*v1alpha1.NodeAction](w.server), func(a *v1alpha1.NodeAction) bool {
			return a.Spec.NodeName == n.name && a.Spec.Executor == v1alpha1.ExecutorRemote && a.Finished() == nil
		})
	}
	n := w.anyNode(acts)
	if n == nil {
		n = w.anyNode(func(n *node) bool { return n.bmc != nil })
	}
	if n == nil {
		return nil
	}
	return n.bmc
}

func (w *world) breakBMC() bool {
	b := w.aBMC()
	if b == nil {
		return false
	}
	b.breaks()
	return true
}

// breaks lets something be wrong with a BMC for a while.
func (b *bmc) breaks() {
	w, n := b.node.world, b.node
	b.well()
	b.ill = time.Now()
	long := of(w.choices, 25*time.Second, 90*time.Second, 6*time.Minute)
	switch w.pick(8) {
	case 0:
		b.restart()
		return
	case 1:
		w.say("bmc "+n.name, "does not answer for %s", long)
		b.deaf = time.Now().Add(long)
		b.ill = b.deaf
		return
	case 2:
		w.say("bmc "+n.name, "lets nobody log in for %s", long)
		b.denies = true
	case 3:
		b.stick(long)
		return
	case 4:
		w.say("bmc "+n.name, "lies for %s", long)
		b.lies = true
	default:
		other := w.anyNode(func(other *node) bool { return other != n && other.bmc != nil })
		if other == nil {
			return
		}
		w.say("bmc "+n.name, "is answered for by that of %s for %s", other.name, long)
		b.foreign, b.foreignSince = other.bmc, time.Now()
	}
	b.ill = time.Now().Add(long)
	w.after(long, b.well)
}

// restart lets a BMC restart, which then says off until it has found its machine. What it has been told is lost if
// it has had no effect yet.
func (b *bmc) restart() {
	w := b.node.world
	w.say("bmc "+b.node.name, "restarts, and has to find its machine")
	b.deaf = time.Now().Add(25 * time.Second)
	b.settling = b.deaf.Add(of(w.choices, 20*time.Second, 90*time.Second))
	b.ill, b.restarts = b.settling, b.restarts+1
}

// stick lets a BMC acknowledge what it is told for a while, and do nothing.
func (b *bmc) stick(long time.Duration) {
	b.node.world.say("bmc "+b.node.name, "is stuck for %s", long)
	b.stuck, b.ill = true, time.Now().Add(long)
	b.node.world.after(long, b.well)
}

// switchMachine lets somebody press the button of a machine.
func (w *world) switchMachine() bool {
	b := w.aBMC()
	if b == nil {
		return false
	}
	b.pressed()
	return true
}

// pressed lets somebody switch the machine on or off, or both. Who switches it off may leave it so.
func (b *bmc) pressed() {
	w := b.node.world
	switch {
	case !b.on():
		b.turnedOn("somebody")
	case w.chance(300):
		b.turnedOff("somebody", "")
		w.after(of(w.choices, 2*time.Second, 10*time.Second), func() { b.turnedOn("somebody") })
	default:
		b.turnedOff("somebody", "")
		w.after(of(w.choices, 2*time.Minute, 10*time.Minute, 40*time.Minute), func() { b.turnedOn("somebody") })
	}
}

// troublePower lets something happen right when the next power cycle comes to a certain point.
func (w *world) troublePower() bool {
	switch w.pick(10) {
	case 1:
		return w.stickAndWake()
	case 2:
		return w.keepLateAndWake()
	case 3:
		return w.takeOverLate()
	case 4:
		after := of(w.choices, 0, 300*time.Millisecond, 4*time.Second)
		return w.atPower(cutAnnounced, func(n *node) { w.after(after, n.bmc.restart) })
	case 5:
		return w.lieAndWake()
	case 6:
		return w.taintLate()
	case 7:
		return w.answerAndHang()
	case 8:
		return w.restartAndPress()
	default:
		return w.disturbPower()
	}
}

// atPower sets a trap in which something happens to the node of a power cycle.
func (w *world) atPower(at trap, do func(*node)) bool {
	return w.set(at, func(_ *process, obj client.Object) {
		if n := w.node(obj.(*v1alpha1.NodeAction).Spec.NodeName); n.bmc != nil { //nolint:forcetypeassert // nothing else springs it
			do(n)
		}
	})
}

// stickAndWake lets the next machine that is to be switched off stay on, and its host go on while the off is sent again
// and again.
func (w *world) stickAndWake() bool {
	after := of(w.choices, 5*time.Second, 20*time.Second, 100*time.Second)
	return w.atPower(cutAnnounced, func(n *node) {
		n.bmc.stick(of(w.choices, 40*time.Second, 6*time.Minute))
		w.after(after, n.wakes)
	})
}

// answerAndHang lets the next node that is to be cut, and is not, answer until the remote runner says so, which is on its way
// for long. It hears nothing of that, nor of anything else until the node is silent again.
func (w *world) answerAndHang() bool {
	return w.atPower(cutAnnounced, func(n *node) {
		n.bmc.stick(6 * time.Minute)
		w.after(5*time.Second, n.wakes)
		w.slow["update NodeAction"] = func(c *call) time.Duration {
			if n.hung || c.writes == nil || c.writes.Status.Power == nil || c.writes.Status.Power.Phase != string(proof.Watching) {
				return 0
			}
			w.count("a node answers for a moment, and its runner is not heard")
			n.hangs()
			c.process.cut = time.Now().Add(65 * time.Second)
			return of(w.choices, 3*time.Minute, 100*time.Second)
		}
	})
}

// keepLateAndWake lets the next node whose action is claimed answer while the remote runner is about to say that it
// cuts its power, or boot.
func (w *world) keepLateAndWake() bool {
	boots, takes := w.chance(300), of(w.choices, 12*time.Second, 4*time.Second, 14*time.Second)
	return w.atPower(powerClaimed, func(n *node) {
		w.slow["update NodeAction"] = func(*call) time.Duration { return takes }
		w.after(time.Second, func() {
			if boots {
				n.powerOff()
				n.powerOn()
			} else {
				n.wakes()
			}
		})
	})
}

// takeOverLate lets another remote runner lead while the off of one is on its way. It may not be told that it has
// taken over.
func (w *world) takeOverLate() bool {
	unheard := w.chance(400)
	return w.atPower(cutAnnounced, func(*node) {
		w.slow["off "+bmcKind] = func(*call) time.Duration {
			w.count("an off is under way for long")
			w.after(time.Second, func() {
				w.secondRemote()
				if unheard {
					w.unheard = "update NodeAction"
				}
			})
			return of(w.choices, 19*time.Second, 10*time.Second)
		}
	})
}

// lieAndWake lets the next machine that is to be switched off stay on, although its BMC says off, and its host go on
// when its pods may have been freed.
func (w *world) lieAndWake() bool {
	lies, after := of(w.choices, 90*time.Second, 4*time.Minute), of(w.choices, 2*time.Minute, 20*time.Second, 5*time.Minute)
	return w.atPower(cutAnnounced, func(n *node) {
		n.bmc.lies, n.bmc.ill = true, time.Now().Add(lies)
		w.say("bmc "+n.name, "lies for %s", lies)
		w.after(lies, n.bmc.well)
		w.after(after, n.wakes)
	})
}

// restartAndPress lets the BMC of the next machine that is proved to be off restart, and somebody switch the machine on
// meanwhile. It boots slowly, and the BMC says off until it has found it.
func (w *world) restartAndPress() bool {
	after := of(w.choices, 5*time.Second, time.Second, 20*time.Second)
	return w.atPower(offProved, func(n *node) {
		n.bmc.restart()
		w.after(after, func() {
			n.bmc.boots = 6 * time.Minute
			n.bmc.turnedOn("somebody")
		})
	})
}

// taintLate lets somebody switch the next machine on that is proved to be off, while the patch is on its way that
// frees its pods.
func (w *world) taintLate() bool {
	takes := of(w.choices, 15*time.Second, 4*time.Second, 30*time.Second)
	return w.atPower(offTold, func(n *node) {
		w.slow["patch Node"] = func(*call) time.Duration { return takes }
		w.after(time.Second, func() {
			n.bmc.boots = 8 * time.Second
			n.bmc.turnedOn("somebody")
		})
	})
}

// disturbPower lets something happen, or two things, at some time after the next power cycle comes to a certain point.
func (w *world) disturbPower() bool {
	at := of(w.choices, cutAnnounced, offProved, offTold, onAnnounced, powerClaimed)
	after := of(w.choices, 0, 500*time.Millisecond, 2*time.Second, 8*time.Second, 20*time.Second)
	troubles := []func(*node, *v1alpha1.NodeAction){
		func(n *node, _ *v1alpha1.NodeAction) { n.wakes() },
		func(n *node, _ *v1alpha1.NodeAction) { n.bmc.turnedOn("somebody") },
		func(n *node, _ *v1alpha1.NodeAction) { n.bmc.pressed() },
		func(n *node, _ *v1alpha1.NodeAction) { n.bmc.breaks() },
		func(n *node, _ *v1alpha1.NodeAction) { n.bmc.breaks() },
		func(*node, *v1alpha1.NodeAction) { w.killRemote() },
		func(*node, *v1alpha1.NodeAction) { w.secondRemote() },
		func(*node, *v1alpha1.NodeAction) { w.cutRemoteOff() },
		func(*node, *v1alpha1.NodeAction) { w.freezeRemote() },
		func(n *node, _ *v1alpha1.NodeAction) { w.excludeForAWhile(n.name) },
		func(_ *node, a *v1alpha1.NodeAction) { w.undo(a.Spec.Remediation, w.deleteOf) },
		func(_ *node, a *v1alpha1.NodeAction) { w.undo(a.Spec.Remediation, w.pauseOf) },
		func(_ *node, a *v1alpha1.NodeAction) {
			w.people.meddled = time.Now()
			w.remove(a.DeepCopy())
		},
	}
	if !w.profile.steady {
		troubles = append(troubles, func(*node, *v1alpha1.NodeAction) { w.killController() }, func(*node, *v1alpha1.NodeAction) { w.secondLeader() })
	}
	do, more := of(w.choices, troubles...), of(w.choices, troubles...)
	twice := w.chance(500)
	return w.set(at, func(_ *process, obj client.Object) {
		a := obj.(*v1alpha1.NodeAction) //nolint:forcetypeassert // nothing else springs it
		n := w.node(a.Spec.NodeName)
		w.after(after, func() {
			if w.chaos && n.bmc != nil {
				do(n, a)
			}
		})
		if twice {
			w.after(after+time.Second, func() {
				if w.chaos && n.bmc != nil {
					more(n, a)
				}
			})
		}
	})
}

// springPower springs the traps of a power cycle.
func springPower(old, updated *v1alpha1.NodeAction, sprung func(trap)) {
	if old == nil {
		return
	}
	var before v1alpha1.PowerCycleStatus
	if old.Status.Power != nil {
		before = *old.Status.Power
	}
	p := updated.Status.Power
	switch {
	case updated.Spec.Executor != v1alpha1.ExecutorRemote:
	case p == nil && old.Status.Claim == nil && updated.Status.Claim != nil && updated.Status.Replace == nil:
		sprung(powerClaimed)
	case p == nil:
	case before.Phase != p.Phase && p.Phase == "Cutting":
		sprung(cutAnnounced)
	case before.Phase != p.Phase && p.Phase == "ProvedOff":
		sprung(offProved)
	case before.Phase != p.Phase && p.Phase == "Restoring":
		sprung(onAnnounced)
	case before.Held < 2 && p.Held == 2:
		sprung(offTold)
	}
}

// freezeRemote lets a remote runner stand still.
func (w *world) freezeRemote() {
	if p := w.remote(); p != nil {
		w.freezeFor(p, of(w.choices, 4*time.Second, 15*time.Second, 40*time.Second))
	}
}

// setTaint lets a person set the taint out-of-service of a node, or take one away.
func (w *world) setTaint() bool {
	obj, ok := w.anObject()
	if !ok {
		return false
	}
	out := func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }
	w.people.freed[obj.Name] = true
	if slices.ContainsFunc(obj.Spec.Taints, out) {
		obj.Spec.Taints = slices.DeleteFunc(obj.Spec.Taints, out)
		return w.update(obj)
	}
	if !notReady(obj) {
		return false
	}
	obj.Spec.Taints = append(obj.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: personsTaint, Effect: corev1.TaintEffectNoExecute})
	w.after(10*time.Minute, func() { w.takePersonsTaint(obj.Name) })
	return w.update(obj)
}

// takePersonsTaint lets people take the taint away that they have set.
func (w *world) takePersonsTaint(node string) {
	persons := func(t corev1.Taint) bool { return t.Value == personsTaint }
	if n := w.node(node).object(); n != nil && slices.ContainsFunc(n.Spec.Taints, persons) {
		w.changeNode(node, func(n *corev1.Node) { n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, persons) })
	}
}

// comeToRest lets people see to machines: they switch on what is off and left to them, take their taints away, and
// reboot a node that is out of service although it runs.
func (p *powers) comeToRest() {
	w := p.world
	for _, b := range p.all {
		w.takePersonsTaint(b.node.name)
		if !b.on() && b.leftToPeople() {
			b.turnedOn("people")
		}
		obj := b.node.object()
		if obj == nil || !b.on() {
			continue
		}
		if mark, marked := v1alpha1.OutOfServiceMarkOf(obj); marked && mark.BootID == b.node.bootID() {
			b.turnedOff("people", "")
			w.after(10*time.Second, func() { b.turnedOn("people") })
		}
	}
}
