package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// happening is something that befalls a node, a process or the network, or that a person
// does. It returns false where it makes no sense now.
type happening struct {
	name string
	// weight of it among all.
	weight int
	do     func(*world) bool
}

// happenings are all that can happen.
func happenings() []happening {
	return slices.Concat(happeningsAlways(), happeningsOfNodes(), happeningsOfPower(), happeningsOfControllers(), peoplesActs())
}

// happeningsAlways are those of every run.
func happeningsAlways() []happening {
	return []happening{
		{"time goes on", 13, (*world).goOn},
		{"a node falls sick", 30, (*world).fallSick},
	}
}

// happeningsOfNodes befall nodes and what runs on them.
func happeningsOfNodes() []happening {
	return []happening{
		{"many nodes fall sick", 2, (*world).allFallSick},
		{"a fault cures itself", 4, (*world).cureItself},
		{"a fault flaps", 3, (*world).flap},
		{"a node loses its power", 2, (*world).loosePower},
		{"a node reboots by itself", 2, (*world).rebootItself},
		{"a node is cut off", 4, (*world).cutNodeOff},
		{"a kubelet is not ready", 2, (*world).unreadyKubelet},
		{"a runner dies", 3, (*world).killRunner},
		{"a detector dies", 3, (*world).killDetector},
		{"a remote runner dies", 3, (*world).killRemote},
		{"a second remote runner leads", 3, (*world).secondRemote},
		{"a machine's mark is taken away", 2, (*world).unmark},
		{"the deletion of a machine takes long", 6, (*world).slowDeletion},
		{"nobody hears that a replacement ends", 6, (*world).endUnheard},
		{"a state file is an older one", 2, (*world).oldState},
		{"checks hang", 3, (*world).hangChecks},
		{"an agent sets a latch", 12, (*world).latch},
		{"a link is lost, but for moments", 20, (*world).loseLink},
		{"a check cannot tell", 3, (*world).confuseCheck},
		{"a runner is an older one, or in a dry run", 2, (*world).changeRunner},
		{"a program is missing", 2, (*world).missProgram},
		{"a ledger is lost", 2, (*world).loseLedger},
		{"a ledger cannot be written", 2, (*world).fillDisk},
		{"a detector looks for the last time as an action ends", 3, (*world).lookLast},
		{"an action is undone at once", 6, (*world).undoAction},
		{"a node is registered anew while its action runs on", 2, (*world).registerActing},
		{"a node of the control plane is forgotten while its action runs on", 4, (*world).forgetControlPlane},
		{"a budget groups its nodes no more while they are out", 2, (*world).regroup},
		{"a node is given back while its reboot waits", 2, (*world).wantBackRebooting},
		{"a node reboots by itself right before its next attempt", 2, (*world).rebootVerifying},
		{"many wait for few permits", 2, (*world).queueUp},
	}
}

// happeningsOfControllers are those in which a controller dies, is slow or sees too little: for
// minutes after one, little can be asked of it.
func happeningsOfControllers() []happening {
	return []happening{
		{"a controller dies", 3, (*world).killController},
		{"a controller is cut off", 2, (*world).cutControllerOff},
		{"a budget is replaced when it has given a permit", 1, (*world).snatchBudget},
		{"a second controller leads", 3, (*world).secondLeader},
		{"two controllers make the remediation of one request", 3, (*world).makeTwice},
		{"a process is frozen", 3, (*world).freeze},
		{"an action is deleted behind its controller's back", 2, (*world).deleteUnseen},
		{"a node that is being taken out is wanted back at once", 3, (*world).undoOut},
		{"another healer comes between announcement and action", 3, (*world).comeBetween},
		{"a permit is of no use to another controller", 2, (*world).misjudge},
		{"a permit is refused to one of two controllers", 6, (*world).refuseOne},
		{"a policy is replaced unseen", 2, (*world).replacePolicy},
		{"a budget is replaced unseen", 2, (*world).replaceBudget},
		{"a budget selects other nodes while it is counted", 2, (*world).editCounted},
		{"a budget is created again while an action runs that nobody sees", 2, (*world).forgetActing},
		{"a policy matches more when a remediation of it is deleted", 2, (*world).widen},
		{"a node is back and no controller sees that", 2, (*world).backUnseen},
		{"a remediation is created twice", 2, (*world).startTwice},
		{"a maintenance is created when nobody wants it any more", 3, (*world).lateOut},
		{"a node that was taken out is lost, and one controller does not see that", 3, (*world).loseNodeOut},
		{"a drain is called off unseen", 4, (*world).callOffDrain},
		{"a node that is out gets a pod unseen", 2, (*world).fillUnseen},
		{"a clock is off", 2, (*world).skewClock},
		{"old events are forgotten", 1, (*world).compact},
	}
}

// swarm chooses what happens in this run, and how often: some of it never, some a lot. What
// has to come together for a mistake to show does so in some run, and hardly ever where all
// happens in all runs (Groce and others, Swarm Testing, ISSTA 2012).
func (w *world) swarm() {
	w.happenings = happeningsAlways()
	atTimes := slices.Concat(happeningsOfNodes(), peoplesActs())
	if !w.profile.steady {
		atTimes = append(atTimes, happeningsOfControllers()...)
	}
	for _, h := range atTimes {
		if h.weight *= of(w.choices, 0, 1, 2, 6); h.weight > 0 {
			w.happenings = append(w.happenings, h)
		}
	}
}

// befall lets one of them happen.
func (w *world) befall() {
	weights := make([]int, len(w.happenings))
	for i, h := range w.happenings {
		weights[i] = h.weight
	}
	h := w.happenings[w.weighted(weights)]
	if h.do(w) {
		w.count(h.name)
	}
}

// anyNode chooses a node that is as wanted; nil: there is none.
func (w *world) anyNode(wanted func(*node) bool) *node {
	var fit []*node
	for _, n := range w.nodes {
		if wanted(n) {
			fit = append(fit, n)
		}
	}
	if fit == nil {
		return nil
	}
	return of(w.choices, fit...)
}

// times that things last.
func (w *world) while() time.Duration {
	return of(w.choices, 30*time.Second, 2*time.Minute, 10*time.Minute)
}

func (w *world) fallSick() bool {
	n := w.anyNode(func(n *node) bool { return n.up && len(n.faults) < len(conditions()) })
	if n == nil {
		return false
	}
	condition := of(w.choices, conditions()...)
	if n.faults[condition] != nil {
		return false
	}
	n.fail(condition, w.cure())
	return true
}

// allFallSick lets most nodes fall sick of one condition, one soon after the other.
func (w *world) allFallSick() bool {
	condition := of(w.choices, conditions()...)
	apart := of(w.choices, time.Second, 20*time.Second)
	for i, n := range w.nodes {
		if w.chance(250) {
			continue
		}
		w.after(time.Duration(i)*apart, func() {
			if n.up && n.faults[condition] == nil && w.chaos {
				n.fail(condition, w.cure())
			}
		})
	}
	return true
}

// cure chooses what helps against a fault: mostly nothing, so that one step follows the
// other.
func (w *world) cure() string {
	return of(w.choices, "", "", "", v1alpha1.RemedyCommand, v1alpha1.RemedyRestartUnit, v1alpha1.RemedyReboot)
}

func (n *node) fail(condition, cure string) {
	n.faults[condition] = &fault{since: time.Now(), cure: cure}
	n.world.say("host "+n.name, "%s, which %s cures", condition, orNothing(cure))
	// Somebody looks soon: what nobody sees is not there.
	if d := n.detector; d != nil {
		n.world.after(2*time.Second, func() {
			if !d.dead.Load() {
				d.look()
			}
		})
	}
}

// lookNow lets the detector look, if there is one.
func (n *node) lookNow() {
	if d := n.detector; d != nil && !d.dead.Load() {
		d.look()
	}
}

func orNothing(cure string) string {
	if cure == "" {
		return "nothing"
	}
	return cure
}

func (w *world) cureItself() bool {
	n := w.anyNode(func(n *node) bool { return len(n.faults) > 0 })
	if n == nil {
		return false
	}
	condition := of(w.choices, sortedKeys(n.faults)...)
	delete(n.faults, condition)
	w.say("host "+n.name, "%s cures itself", condition)
	return true
}

func (w *world) flap() bool {
	n := w.anyNode(func(n *node) bool { return n.detector != nil && !n.detector.dead.Load() })
	if n == nil {
		return false
	}
	condition := of(w.choices, conditions()...)
	for i := range 4 {
		w.after(time.Duration(i)*of(w.choices, 2*time.Second, 20*time.Second), func() {
			if n.faults[condition] == nil && w.chaos {
				n.fail(condition, "")
				return
			}
			delete(n.faults, condition)
			n.lookNow()
		})
	}
	return true
}

func (w *world) loosePower() bool {
	n := w.anyNode(func(n *node) bool { return n.up })
	if n == nil {
		return false
	}
	n.powerOff()
	w.after(w.while(), n.powerOn)
	return true
}

func (w *world) rebootItself() bool {
	n := w.anyNode(func(n *node) bool { return n.up })
	if n == nil {
		return false
	}
	n.powerOff()
	n.cures(v1alpha1.RemedyReboot)
	w.after(20*time.Second, n.powerOn)
	return true
}

func (w *world) cutNodeOff() bool {
	n := w.anyNode(func(n *node) bool { return !n.cut })
	if n == nil {
		return false
	}
	w.say("network", "node %s is cut off", n.name)
	n.cutOff(true)
	w.after(w.while(), func() {
		w.say("network", "node %s is back", n.name)
		n.cutOff(false)
	})
	return true
}

func (w *world) unreadyKubelet() bool {
	n := w.anyNode(func(n *node) bool { return !n.unready })
	if n == nil {
		return false
	}
	n.unready = true
	n.kubelet()
	w.after(w.while(), func() { n.unready = false; n.kubelet() })
	return true
}

// leaders are the controllers that run.
func (w *world) leaders() []*process {
	var all []*process
	for _, p := range w.processes {
		if p.leads() {
			all = append(all, p)
		}
	}
	return all
}

func (w *world) endLeaders() {
	for _, p := range w.leaders() {
		w.end(p)
	}
}

func (w *world) killController() bool {
	all := w.leaders()
	if len(all) == 0 {
		return false
	}
	w.end(of(w.choices, all...))
	if len(all) == 1 {
		w.after(of(w.choices, time.Second, 20*time.Second, 5*time.Minute), w.oneLeader)
	}
	return true
}

func (w *world) oneLeader() {
	if len(w.leaders()) == 0 {
		w.startController()
	}
}

// secondLeader starts one while another still believes that it leads.
func (w *world) secondLeader() bool {
	all := w.leaders()
	if len(all) != 1 {
		return false
	}
	w.startController()
	old := all[0]
	w.after(w.while(), func() {
		if len(w.leaders()) > 1 {
			w.end(old)
		}
	})
	return true
}

func (w *world) killRunner() bool {
	n := w.anyNode(func(n *node) bool { return n.runner != nil && !n.runner.dead.Load() })
	if n == nil {
		return false
	}
	w.end(n.runner)
	n.again(of(w.choices, time.Second, 30*time.Second, 5*time.Minute), n.startRunner)
	return true
}

func (w *world) killDetector() bool {
	n := w.anyNode(func(n *node) bool { return n.detector != nil && !n.detector.dead.Load() })
	if n == nil {
		return false
	}
	w.end(n.detector.process)
	n.again(of(w.choices, time.Second, 30*time.Second, 10*time.Minute), n.startDetector)
	return true
}

// again starts something later, unless the node has booted meanwhile.
func (n *node) again(after time.Duration, start func()) {
	boot := n.boot
	n.world.after(after, func() {
		if n.up && n.boot == boot {
			start()
		}
	})
}

func (w *world) freeze() bool {
	if len(w.processes) == 0 {
		return false
	}
	w.freezeFor(of(w.choices, w.processes...), of(w.choices, 5*time.Second, 40*time.Second, 3*time.Minute))
	return true
}

func (w *world) freezeFor(p *process, long time.Duration) {
	p.frozen = time.Now().Add(long)
	if p.leads() {
		w.trouble(p.frozen)
		w.delay(p.frozen)
	} else {
		p.slowUntil(p.frozen)
	}
	w.say(p.name, "is frozen for %s", long)
}

// skewClock lets the clock of a node or a controller jump. A clock is not set while a
// runner executes something: it measures times of its own by a clock that never jumps,
// and the one here does.
func (w *world) skewClock() bool {
	off := of(w.choices, 0, 2*time.Second, time.Minute, time.Hour, -2*time.Second, -time.Minute, -time.Hour)
	if leaders := w.leaders(); len(leaders) > 0 && w.chance(300) {
		p := of(w.choices, leaders...)
		p.clock.offset = off
		w.skewed = time.Now()
		w.trouble(w.skewed)
		w.say(p.name, "its clock is off by %s", off)
		return true
	}
	n := w.anyNode(func(n *node) bool {
		return n.runner == nil || n.runner.dead.Load() || len(n.runner.loops[0].queue.busy) == 0
	})
	if n == nil {
		return false
	}
	n.offset, n.jumped = off, time.Now()
	if n.runner != nil {
		n.runner.clock.offset = off
	}
	if n.detector != nil {
		n.detector.clock.offset = off
	}
	w.say("host "+n.name, "its clock is off by %s", off)
	return true
}

// goOn lets time go on although somebody has something to do: that takes long.
func (w *world) goOn() bool {
	w.sleep(time.Now())
	if len(w.calls) > 0 {
		w.delay(time.Now())
	}
	for _, n := range w.nodes {
		n.slow = later(n.slow, time.Now().Add(time.Second))
	}
	return true
}

func (w *world) compact() bool {
	w.server.Compact(w.server.Version())
	return true
}

// calm lets nothing go wrong any more: whatever fails works again, and all faults are
// cured. What people have switched off stays so.
func (w *world) calm() {
	w.gather() // whoever is about to look has the time before its clock is set
	w.say("", "nothing goes wrong any more")
	for _, p := range w.processes {
		p.frozen, p.cut = time.Time{}, time.Time{}
		if p.node == nil { // a node keeps its clock, right or wrong
			p.clock.offset = 0
			p.learn()
		}
		for _, watch := range p.watches {
			watch.stalled = time.Time{}
		}
	}
	for _, c := range w.calls {
		c.ready = time.Now()
	}
	for _, n := range w.nodes {
		n.unready, n.blind, n.lacks, n.looksLast = false, false, nil, nil
		clear(n.faults)
		if n.agent != nil {
			n.agent.say(corev1.ConditionFalse, 0)
		}
		if n.flicker != nil {
			n.flicker.lost, n.flicker.away = false, 0
		}
		clear(n.unsure)
		w.after(20*time.Second, func() {
			if n.bmc == nil || n.bmc.leftToPeople() {
				n.powerOn()
			}
		})
		n.cutOff(false)
		if n.runner == nil || n.runner.dead.Load() {
			n.again(time.Second, n.startRunner)
		}
		if n.detector == nil || n.detector.dead.Load() {
			n.again(time.Second, n.startDetector)
		}
	}
	clear(w.traps)
	clear(w.slow)
	if w.remediators != nil {
		w.remediators.dead = time.Time{}
	}
	if w.owners != nil {
		w.owners.calm()
	}
	if w.powers != nil {
		w.powers.calm()
	}
	if w.owners != nil || w.powers != nil {
		w.freshRemote()
	}
	for _, d := range w.drivers {
		d.dead = time.Time{}
	}
	for after := time.Duration(0); after < calmTime; after += time.Hour {
		w.after(after, w.people.comeToRest)
	}
	w.oneLeader()
	for _, p := range w.leaders()[1:] {
		w.end(p)
	}
}
