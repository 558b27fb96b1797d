package power

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/drain"
	"github.com/nodemend/nodemend/controller/index"
	"github.com/nodemend/nodemend/controller/maintenance"
	"github.com/nodemend/nodemend/internal/deadline"
	switches "github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/runner"
)

// fresh is how old what an order to a BMC goes by may be: see I12.
const fresh = 5 * time.Second

// rack is what a world of maintenances has: what holds the node, and what the rules ask of it.
type rack struct {
	*world
	started int
	ended   map[types.UID]time.Time // when people have deleted them, of which the fake client has another clock

	lit, deaf, refuses, foreign bool // deaf: the operating system does not heed its power button
	vain                        bool // the BMC acknowledges an off, and does nothing
	pods                        int  // that could be evicted
	paused                      bool
	words                       bool                 // people also say that the machine is off, when it is
	takenBack                   map[string]time.Time // such words, by maintenance

	// offBy says who has switched the machine off; "": it is on.
	offBy   string
	offAt   time.Time
	touched map[types.UID]bool // the maintenances for which it was told to go off
	// begun is since when the machine may be off for a maintenance: what goes off after that may have been told to.
	begun map[types.UID]time.Time
	// wellAt is since when the BMC tells the truth to whoever asks. unbelieved is since when it says off for a maintenance
	// that does not say so.
	wellAt     time.Time
	unbelieved map[types.UID]time.Time
	// hangs: the lamp takes as long as it has.
	hangs bool
	// People were told that it may be off, or shine.
	left, leftLit bool
	// Until when each of these was true: that the maintenance wants its drained node off; that nobody
	// else has the node; that the node is cordoned, not excluded, and of the boot that is to go off;
	// that the cluster is not paused; that nobody else holds the node when it is to come on.
	wanted, alone, node, unpaused, free map[types.UID]time.Time
	// facts are those that are true as long as nobody writes anything.
	facts   []fact
	written bool
	// known are the maintenances as they were a moment ago.
	known map[types.UID]v1alpha1.NodeMaintenance
}

// fact is one that is true of a maintenance, and when each was true last.
type fact struct {
	last map[types.UID]time.Time
	of   types.UID
}

func (r *rack) maintenances() []v1alpha1.NodeMaintenance {
	var list v1alpha1.NodeMaintenanceList
	r.must(r.List(r.Context(), &list))
	return list.Items
}

// look notes what is true now, and what has become of the maintenances.
func (r *rack) look() {
	if r.lies || r.mute() || r.refuses || r.foreign || r.now.Before(r.blank) {
		r.wellAt = r.now
	}
	for uid, m := range r.known {
		p := m.Status.Power
		if r.on || p == nil || m.DeletionTimestamp != nil || m.Spec.Power == "" || p.Phase != v1alpha1.PowerShuttingDown && (p.Phase != v1alpha1.PowerWaiting || !strings.Contains(p.Message, "says off")) {
			r.unbelieved[uid] = r.now
		}
		if since := later(later(r.wellAt, r.offAt), r.unbelieved[uid]); r.now.Sub(since) > 15*time.Minute {
			r.broken("%s says %s for very long of a machine that is off since %s: %s", m.Name, p.Phase, since.Format(time.TimeOnly), p.Message)
		}
	}
	if !r.written {
		for _, fact := range r.facts {
			fact.last[fact.of] = r.now
		}
		return
	}
	r.written, r.facts = false, nil
	all, node := r.maintenances(), r.world.node()
	is := map[types.UID]v1alpha1.NodeMaintenance{}
	for i := range all {
		m := &all[i]
		is[m.UID] = *m
		others, alone := false, true
		for j := range all {
			if other := &all[j]; i != j && other.Holds(node) {
				others = true
				alone = alone && other.Spec.Power == v1alpha1.PowerRequestOff
			}
		}
		note := func(last map[types.UID]time.Time, so bool) {
			if so {
				last[m.UID] = r.now
				r.facts = append(r.facts, fact{last, m.UID})
			}
		}
		note(r.wanted, m.Holds(node) && m.Spec.Power == v1alpha1.PowerRequestOff && m.Drained())
		note(r.alone, alone)
		note(r.free, !others)
		note(r.unpaused, !r.paused)
		p := m.Status.Power
		note(r.node, node.Spec.Unschedulable && !v1alpha1.Excluded(node) && (p == nil || p.BootID == node.Status.NodeInfo.BootID))
		if p != nil {
			before := r.known[m.UID].Status.Power
			if before == nil || before.Phase != p.Phase {
				r.reached(string(p.Phase))
				if p.Phase == v1alpha1.PowerShuttingDown && r.begun[m.UID].IsZero() {
					r.begun[m.UID] = p.Since.Time
				}
				if p.Phase == v1alpha1.PowerStillOn && !r.on && r.now.Sub(later(r.wellAt, r.offAt)) > time.Minute {
					r.broken("%s says %s of a machine that is off since %s", m.Name, p.Phase, r.offAt.Format(time.TimeOnly))
				}
				if r.on && r.now.Sub(r.onAt) > time.Minute && !r.lied && (p.Phase == v1alpha1.PowerOff || p.Phase == v1alpha1.PowerWasOff) {
					r.broken("%s says %s of a machine that runs since %s", m.Name, p.Phase, r.onAt.Format(time.TimeOnly))
				}
			}
			r.left = r.left || p.Phase == v1alpha1.PowerLeftOff
		}
	}
	for uid, before := range r.known {
		if _, there := is[uid]; there {
			continue
		}
		before.DeletionTimestamp = &metav1.Time{Time: r.ended[uid]}
		switch early := r.now.Before(deadline.GivenBack(&before)); {
		case before.MayBeOff() && early:
			r.broken("%s is gone, and its machine may be off", before.Name)
		case before.MayBeOff():
			r.left = true
		}
		switch early := r.now.Before(before.DeletionTimestamp.Add(deadline.LightTime)); {
		case before.MayShine() && early:
			r.broken("%s is gone, and its lamp may shine", before.Name)
		case before.MayShine():
			r.leftLit = true
		}
	}
	r.known = is
}

// held is how often the machine was read off for a maintenance.
func (r *rack) held() int32 {
	for _, m := range r.known {
		if p := m.Status.Power; p != nil && p.Phase == v1alpha1.PowerOff && p.Held > 0 {
			return p.Held
		}
	}
	return 0
}

// later returns the later one.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lasts reports whether the maintenance for which the node is out of service has not ended.
func (r *rack) lasts(node *corev1.Node) bool {
	return slices.ContainsFunc(r.maintenances(), func(m v1alpha1.NodeMaintenance) bool { return m.KeepsOutOfService(node) })
}

// givenBack breaks the run if the machine may go off for a maintenance that has ended.
func (r *rack) givenBack(by string) {
	r.note("%s uncordons the node", by)
	all := r.maintenances()
	for i := range all {
		if m := &all[i]; m.DeletionTimestamp != nil && m.MayBeOff() && r.now.Before(deadline.GivenBack(m)) {
			r.broken("%s uncordons the node, and its machine may go off for %s", by, m.Name)
		}
	}
}

func (r *rack) wentOff(by string) {
	r.offBy, r.offAt = by, r.now
}

func (r *rack) cameOn() { r.offBy = "" }

// byUs reports whether the machine is off by a maintenance.
func (r *rack) byUs() bool { return r.offBy == "by the BMC" || r.offBy == "by its operating system" }

// announced returns the maintenance for which this process has said that it is in one of these phases.
func (r *rack) announced(by string, phase v1alpha1.PowerPhase) *v1alpha1.NodeMaintenance {
	all := r.maintenances()
	for i := range all {
		if p := all[i].Status.Power; p != nil && p.RunnerID == by && p.Phase == phase {
			return &all[i]
		}
	}
	return nil
}

// mayStop breaks the run if the machine may not be stopped by what was sent then.
func (r *rack) mayStop(by string, phase v1alpha1.PowerPhase, sent time.Time) {
	m := r.announced(by, phase)
	if m == nil { // another one has gone on since, or it has ended
		if !slices.ContainsFunc(slices.Collect(maps.Values(r.known)), func(m v1alpha1.NodeMaintenance) bool { return m.Status.Power != nil }) {
			r.broken("I12: %s stops the machine, and no maintenance has said so", by)
		}
		return
	}
	r.touched[m.UID] = true
	for why, was := range map[string]map[types.UID]time.Time{
		"does not want it, or is not drained": r.wanted, "is not the only one": r.alone, "has another boot, or its node is excluded or uncordoned": r.node, "was paused": r.unpaused,
	} {
		if sent.Sub(was[m.UID]) > fresh+time.Second {
			r.broken("I12: %s stops the machine, and %s %s since %s", by, m.Name, why, was[m.UID].Format(time.TimeOnly))
		}
	}
}

// rackBMC is the switch, as one remote runner asks it.
type rackBMC struct{ bmc }

// reach is a call that reaches the BMC: it returns when that was sent.
func (b rackBMC) reach() (time.Time, error) {
	sent := b.a.now
	switch err := b.a.call(); {
	case err != nil:
		return sent, err
	case b.a.mute():
		b.a.sleep(proof.CallTimeout)
		return sent, switches.ErrNoAnswer
	case b.a.now.Sub(sent) > proof.CallTimeout:
		return sent, switches.ErrNoAnswer
	case b.a.events > 0 && b.a.rand.IntN(80) == 0: // at this very order, which it may not have heard
		b.a.restart(proof.CallTimeout + time.Duration(b.a.rand.IntN(3))*time.Second)
		b.a.sleep(proof.CallTimeout)
		return sent, switches.ErrNoAnswer
	case b.a.rack.refuses:
		return sent, switches.ErrLogin
	case b.a.rack.foreign:
		return sent, switches.ErrOtherMachine
	}
	return sent, nil
}

func (b rackBMC) answer() error {
	if b.a.events > 0 && b.a.rand.IntN(40) == 0 {
		return errors.New("the answer is lost")
	}
	return nil
}

func (b rackBMC) Read(ctx context.Context, machine switches.UUID) (switches.Reading, error) {
	if b.a.rack.refuses {
		return switches.Reading{}, errors.Join(b.a.call(), switches.ErrLogin)
	}
	r, err := b.bmc.Read(ctx, machine)
	if b.a.rack.foreign {
		r.GUID[5]++
	}
	return r, err
}

func (b rackBMC) Shutdown(ctx context.Context, _ switches.UUID, still switches.Still) error {
	sent, err := b.reach()
	if err != nil {
		return err
	}
	if err := still.Holds(ctx); err != nil {
		return err
	}
	b.a.note("%s asks it to shut down", b.a.name)
	b.a.reached("asked")
	b.a.rack.mayStop(b.a.name, v1alpha1.PowerShuttingDown, sent)
	if b.a.on && !b.a.hung && !b.a.rack.deaf && b.a.shutAt.IsZero() {
		b.a.shutAt = b.a.now.Add(time.Duration(3+b.a.rand.IntN(200)) * time.Second)
	}
	return b.answer()
}

func (b rackBMC) Off(ctx context.Context, _ switches.UUID, still switches.Still) error {
	sent, err := b.reach()
	if err != nil {
		return err
	}
	if err := still.Holds(ctx); err != nil {
		return err
	}
	b.a.note("%s sends off", b.a.name)
	b.a.reached("cut")
	b.a.rack.mayStop(b.a.name, v1alpha1.PowerCutting, sent)
	if !b.a.lies && !b.a.rack.vain {
		b.a.cutAt = b.a.now.Add(time.Duration(50+b.a.rand.IntN(9000)) * time.Millisecond)
	}
	return b.answer()
}

func (b rackBMC) On(ctx context.Context, _ switches.UUID, still switches.Still) error {
	sent, err := b.reach()
	if err != nil {
		return err
	}
	if err := still.Holds(ctx); err != nil {
		return err
	}
	b.a.note("%s sends on", b.a.name)
	r := b.a.rack
	if m := r.announced(b.a.name, v1alpha1.PowerRestoring); m != nil {
		if sent.Sub(r.free[m.UID]) > fresh+time.Second {
			r.broken("I12: %s switches the machine on, and another maintenance than %s holds the node since %s", b.a.name, m.Name, r.free[m.UID].Format(time.TimeOnly))
		}
		if !r.on && !r.touched[m.UID] && !r.byUs() && (r.begun[m.UID].IsZero() || r.begun[m.UID].Sub(r.offAt) > time.Minute) && !r.lied {
			r.broken("%s switches on what somebody has switched off, for %s", b.a.name, m.Name)
		}
	}
	b.a.switchOn("by " + b.a.name)
	b.a.cutAt = time.Time{}
	return b.answer()
}

func (b rackBMC) Identify(ctx context.Context, _ switches.UUID, on bool) (time.Duration, error) {
	if end, is := ctx.Deadline(); is && b.a.rack.hangs {
		b.a.sleep(time.Until(end).Round(5 * time.Second)) //nolint:forbidigo // as long as it has, however busy the machine is
		return 0, errors.Join(b.a.call(), switches.ErrNoAnswer)
	}
	if _, err := b.reach(); err != nil {
		return 0, err
	}
	b.a.note("%s: the lamp %t", b.a.name, on)
	b.a.rack.lit = on
	if on {
		b.a.reached("lit")
		if !slices.ContainsFunc(slices.Collect(maps.Values(b.a.rack.known)), func(m v1alpha1.NodeMaintenance) bool { return m.MayShine() }) && len(b.a.rack.known) > 0 {
			b.a.broken("the lamp is lit, and no maintenance has said so")
		}
	}
	return 0, b.answer()
}

// machinesAPI is the API server, as one remote runner asks it for maintenances.
type machinesAPI struct{ remoteAPI }

func (r machinesAPI) Holds(ctx context.Context, _ string) (runner.Holds, error) {
	var list v1alpha1.NodeMaintenanceList
	if err := r.a.call(); err != nil {
		return runner.Holds{}, err
	}
	err := r.a.List(ctx, &list)
	return runner.Holds{Maintenances: list.Items}, err
}

func (r machinesAPI) Actions(context.Context, string) ([]v1alpha1.NodeAction, error) {
	return nil, r.a.call()
}

func (r machinesAPI) UpdateMaintenance(ctx context.Context, m *v1alpha1.NodeMaintenance) error {
	if err := r.a.call(); err != nil {
		return err
	}
	if err := r.a.Status().Update(ctx, m); err != nil {
		return err
	}
	if p := m.Status.Power; p != nil {
		r.a.note("%s keeps %s: %s: %s", r.a.name, m.Name, p.Phase, p.Message)
	}
	if l := m.Status.Identify; l != nil {
		r.a.note("%s keeps %s: light %s: %s", r.a.name, m.Name, l.State, l.Message)
	}
	if r.a.events > 0 && r.a.rand.IntN(60) == 0 {
		return errors.New("the answer is lost")
	}
	return nil
}

// newMachines returns what a process of the remote runner does for maintenances.
func newMachines(a *actor) *runner.MaintenanceWorker {
	return runner.NewMaintenanceWorker(runner.MaintenanceWorkerOptions{
		Outside: a.outside(rackBMC{bmc{a}}), API: machinesAPI{remoteAPI{a}}, Take: func(string) bool { return true }, Give: func(string) {}, Power: true,
	})
}

// machineRunner is a process of the remote runner that leads.
func machineRunner(ctx context.Context, a *actor) {
	for machines := newMachines(a); !a.dead; {
		a.work(ctx, machines)
	}
}

func (a *actor) work(ctx context.Context, machines *runner.MaintenanceWorker) {
	again, err := machines.Work(ctx, nodeName)
	if err != nil || again == 0 || again > 10*time.Second && a.rand.IntN(2) == 0 { // something changes
		again = time.Duration(1+a.rand.IntN(10)) * time.Second
	}
	a.sleep(again)
}

// drainer evicts pods.
type drainer struct{ r *rack }

func (d drainer) Pass(_ context.Context, _ string, _ *v1alpha1.Drain, mayEvict bool) (drain.Result, error) {
	if d.r.pods == 0 {
		return drain.Result{Done: true}, nil
	}
	left := drain.Result{Left: int32(d.r.pods), Next: time.Second} //nolint:gosec // few
	if mayEvict {
		d.r.pods--
	}
	return left, nil
}

func (drainer) Arrived(context.Context, string, *v1alpha1.Drain, *v1alpha1.DrainStatus) (*corev1.Pod, error) {
	return nil, nil //nolint:nilnil // none has come
}

func (drainer) Forget(string) {}

// cordons is a process of the controller that believes to lead.
func cordons(ctx context.Context, a *actor) {
	api := apiOf{a.Client, a}
	r := &maintenance.Reconciler{Client: api, Live: api, Drainer: drainer{a.rack}, Clock: clockOf{a: a}, Events: events.NewFakeRecorder(10000)}
	r.Loop()
	for !a.dead {
		result, err := r.Reconcile(ctx, reconcile.Request{NamespacedName: types.NamespacedName{Name: nodeName}})
		wait := result.RequeueAfter
		if wait == 0 || err != nil || wait > 2*time.Second {
			wait = time.Duration(300+a.rand.IntN(3000)) * time.Millisecond // its events
		}
		a.sleep(wait)
	}
}

// staff are people, and all else that happens by itself.
func staff(_ context.Context, a *actor) {
	r := a.rack
	for r.events > 0 && !a.dead {
		a.sleep(time.Duration(a.rand.IntN(a.rand.IntN(480)+1)) * time.Second)
		if a.dead {
			return
		}
		r.events--
		r.happens()
	}
}

func (r *rack) begin(off, identify bool) {
	r.started++
	name := fmt.Sprintf("maintenance-%d", r.started)
	m := &v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(r.now)},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: nodeName, Reason: "new DIMM", Identify: identify, Drain: &v1alpha1.Drain{Timeout: v1alpha1.Duration{Duration: time.Hour}, OnTimeout: v1alpha1.OnTimeoutWait}},
	}
	if off {
		m.Spec.Power, m.Spec.OutOfService = v1alpha1.PowerRequestOff, r.rand.IntN(3) > 0
	}
	r.must(r.Create(r.Context(), m))
	r.note("%s begins, power %q, outOfService %t, identify %t", name, m.Spec.Power, m.Spec.OutOfService, identify)
}

func (r *rack) end(m *v1alpha1.NodeMaintenance) {
	r.note("%s ends", m.Name)
	r.ended[m.UID] = r.now
	r.must(client.IgnoreNotFound(r.Delete(r.Context(), m)))
}

func (r *rack) one() *v1alpha1.NodeMaintenance {
	all := slices.DeleteFunc(r.maintenances(), func(m v1alpha1.NodeMaintenance) bool { return m.DeletionTimestamp != nil })
	if len(all) == 0 {
		return nil
	}
	return &all[r.rand.IntN(len(all))]
}

func (r *rack) change(what string, change func(*corev1.Node)) {
	r.note("%s", what)
	node := r.world.node()
	change(node)
	r.must(r.Update(r.Context(), node))
}

// usual ends what is not as usual.
func (r *rack) usual() {
	r.lies, r.dumb, r.refuses, r.foreign, r.hangs, r.paused = false, false, false, false, false, false
	r.pause()
	r.change("all is as usual", func(n *corev1.Node) { n.Labels = nil })
}

func (r *rack) happens() {
	if r.rand.IntN(3) == 0 {
		r.usual()
	}
	if r.words && r.rand.IntN(4) == 0 {
		r.speaks()
		return
	}
	m := r.one()
	switch r.rand.IntN(26) {
	case 0, 1, 2, 3:
		r.begin(r.rand.IntN(4) > 0, r.rand.IntN(2) > 0)
	case 4, 5, 6:
		if m != nil {
			r.end(m)
		}
	case 7:
		if m != nil {
			m.Spec.Identify = !m.Spec.Identify
			r.note("%s: identify %t", m.Name, m.Spec.Identify)
			r.must(r.Update(r.Context(), m))
		}
	case 8:
		if m != nil {
			m.Spec.Power = map[v1alpha1.PowerRequest]v1alpha1.PowerRequest{"": v1alpha1.PowerRequestOff}[m.Spec.Power]
			m.Spec.OutOfService = m.Spec.Power != "" && r.rand.IntN(2) > 0
			r.note("%s: power %q", m.Name, m.Spec.Power)
			r.must(r.Update(r.Context(), m))
		}
	case 9:
		r.switchOn("by somebody")
	case 10:
		r.off("by somebody")
	case 11:
		if r.on {
			r.off("by itself")
			r.switchOn("by itself")
		}
	case 12:
		r.deaf = !r.deaf
		r.note("its operating system is deaf: %t", r.deaf)
	case 13:
		r.lies = !r.lies
		r.note("the BMC lies: %t", r.lies)
	case 25:
		r.hangs = !r.hangs
		r.note("the lamp hangs: %t", r.hangs)
	case 24:
		r.restart(r.silence())
	case 14:
		r.dumb = !r.dumb
		r.note("the BMC is dumb: %t", r.dumb)
	case 15:
		r.refuses = !r.refuses
		r.note("the BMC refuses the login: %t", r.refuses)
	case 16:
		r.foreign = !r.foreign
		r.note("the BMC is another machine's: %t", r.foreign)
	case 17, 18:
		r.replace("remote-runner", machineRunner)
	case 19:
		r.note("another remote runner believes to lead")
		r.lives++
		until := r.now.Add(time.Duration(r.rand.IntN(90)) * time.Second) // its Lease is over
		r.start(fmt.Sprintf("remote-runner-%d", r.lives), func(ctx context.Context, a *actor) {
			machines := newMachines(a)
			for !a.dead && a.now.Before(until) {
				a.work(ctx, machines)
			}
		})
	case 20:
		r.replace("controller", cordons)
		r.replace("taints", controller)
	case 21:
		r.change("the node is excluded, or not any more", func(n *corev1.Node) {
			if n.Labels[v1alpha1.ExcludeLabel] == "" {
				n.Labels = map[string]string{v1alpha1.ExcludeLabel: "true"}
			} else {
				n.Labels = nil
			}
		})
	case 22:
		r.paused = !r.paused
		r.note("the cluster is paused: %t", r.paused)
		r.pause()
	case 23:
		r.change("somebody uncordons the node", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		r.pods += r.rand.IntN(3)
	}
}

// speaks has a person switch the machine off, and give their word for it once the node does not answer; or
// take it back. Somebody is mistaken, and gives it for a machine that answers, and falls silent later.
func (r *rack) speaks() {
	m := r.one()
	switch {
	case m == nil:
		r.begin(false, false)
	case m.Spec.MachineOff != nil && r.rand.IntN(2) == 0:
		r.note("%s: the word is taken back", m.Name)
		r.takenBack[m.Name] = r.now
		m.Spec.MachineOff, m.Spec.OutOfService = nil, false
		r.must(r.Update(r.Context(), m))
	case r.on && !r.hung && r.kubelet.IsZero() && readyOf(r.world.node()).Status == corev1.ConditionTrue && r.rand.IntN(3) == 0:
		r.reached("mistaken")
		r.give(m)
		r.note("the node is cut off from the API server, and writes on")
		r.hung, r.kubelet = true, r.now.Add(time.Duration(60+r.rand.IntN(300))*time.Second)
	default:
		r.off("by somebody")
		name, end := m.Name, r.now.Add(3*time.Minute)
		r.lives++
		r.start(fmt.Sprintf("jane-%d", r.lives), func(ctx context.Context, a *actor) {
			var m v1alpha1.NodeMaintenance
			for !a.dead && !r.on && a.now.Before(end) {
				if readyOf(r.world.node()).Status == corev1.ConditionUnknown && r.Get(ctx, client.ObjectKey{Name: name}, &m) == nil && m.DeletionTimestamp == nil {
					r.give(&m)
					return
				}
				a.sleep(time.Duration(1+r.rand.IntN(20)) * time.Second)
			}
		})
	}
}

// give has a person give their word for the boot and the silence that the node says.
func (r *rack) give(m *v1alpha1.NodeMaintenance) {
	node := r.world.node()
	m.Spec.OutOfService, m.Spec.MachineOff = true, &v1alpha1.PersonsWord{
		Kind: v1alpha1.KindPersonsWord, NodeUID: node.UID, BootID: node.Status.NodeInfo.BootID, SilentSince: readyOf(node).LastTransitionTime, By: "jane", Time: metav1.NewTime(r.now),
	}
	r.note("%s: jane says that the machine is off, for boot %s", m.Name, node.Status.NodeInfo.BootID)
	r.must(r.Update(r.Context(), m))
}

// pause has the budget of the whole cluster say whether it is paused.
func (r *rack) pause() {
	var b v1alpha1.RemediationBudget
	r.must(r.Get(r.Context(), client.ObjectKey{Name: v1alpha1.ClusterPauseBudget}, &b))
	b.Spec.Paused = r.paused
	r.must(r.Update(r.Context(), &b))
}

func newRack(t *testing.T, seed uint64) *rack {
	t.Helper()
	w := &world{
		T: t, rand: rand.New(rand.NewPCG(seed, 2)), //nolint:gosec // the same each time
		now: start, yield: make(chan struct{}), on: true, boot: 1, podsOf: 1, heard: start, seen: map[string]int{}, events: 30,
	}
	none := func() map[types.UID]time.Time { return map[types.UID]time.Time{} }
	r := &rack{world: w, pods: 3, ended: none(), touched: map[types.UID]bool{}, begun: none(), unbelieved: none(), wanted: none(), alone: none(), node: none(), unpaused: none(), free: none(), known: map[types.UID]v1alpha1.NodeMaintenance{}, takenBack: map[string]time.Time{}}
	w.rack = r
	machine, err := switches.ParseUUID(machineUUID)
	w.must(err)
	w.guid = switches.GUID(machine)
	scheme := runtime.NewScheme()
	w.must(errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "node-1"}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	node.Status.NodeInfo.BootID, node.Status.NodeInfo.SystemUUID = bootID(1), machineUUID
	inTime := func(m *v1alpha1.NodeMaintenance) {
		if m.DeletionTimestamp != nil {
			m.DeletionTimestamp = &metav1.Time{Time: r.ended[m.UID]}
		}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.NodeMaintenance{}).
		WithIndex(&v1alpha1.NodeAction{}, index.ActionsByNode, func(o client.Object) []string { return []string{o.(*v1alpha1.NodeAction).Spec.NodeName} }).
		WithIndex(&v1alpha1.NodeMaintenance{}, index.MaintenancesByNode, func(o client.Object) []string { return []string{o.(*v1alpha1.NodeMaintenance).Spec.NodeName} }).
		WithObjects(node, &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget}, Spec: v1alpha1.RemediationBudgetSpec{NodeSelector: &metav1.LabelSelector{}}}).
		WithObjects(podAndVolume()...).Build()
	w.Client = interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			r.written = true
			return c.Create(ctx, obj, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			r.written = true
			return c.Update(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			r.written = true
			return c.Patch(ctx, obj, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			r.written = true
			return c.Delete(ctx, obj, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, of string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			r.written = true
			return c.SubResource(of).Update(ctx, obj, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, of string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			r.written = true
			return c.SubResource(of).Patch(ctx, obj, patch, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			err := c.Get(ctx, key, obj, opts...)
			if m, is := obj.(*v1alpha1.NodeMaintenance); is && err == nil {
				inTime(m)
			}
			return err
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if all, are := list.(*v1alpha1.NodeMaintenanceList); are {
				for i := range all.Items {
					inTime(&all.Items[i])
				}
			}
			return err
		},
	})
	r.begin(true, true)
	if first := r.one(); !first.Spec.OutOfService {
		first.Spec.OutOfService = true
		r.must(r.Update(r.Context(), first))
	}
	return r
}

// playRack plays a seed, and returns what it has reached.
func playRack(t *testing.T, seed uint64, disturbed, words bool) map[string]int {
	t.Helper()
	r := newRack(t, seed)
	r.words = words
	if !disturbed {
		r.events = 0
	} else {
		r.deaf = r.rand.IntN(3) > 0
		r.vain = r.rand.IntN(4) > 0
		if r.rand.IntN(8) == 0 {
			r.off("by somebody")
		}
	}
	r.start("kubernetes", kubernetes)
	r.start("remote-runner-0", machineRunner)
	r.start("controller-0", cordons)
	r.start("taints-0", controller)
	r.start("staff", staff)
	r.run(3*time.Hour, func() bool { return r.events == 0 })
	if !disturbed {
		r.run(10*time.Minute, func() bool { return r.seen["moved"] > 0 })
	}
	// The calm: nobody works on the machine any more.
	r.events, r.deaf, r.vain = 0, false, false
	r.usual()
	r.replace("remote-runner", machineRunner)
	r.replace("controller", cordons)
	r.replace("taints", controller)
	for _, m := range r.maintenances() {
		if m.DeletionTimestamp == nil {
			r.end(&m)
		}
	}
	r.run(4*time.Hour, func() bool { return len(r.maintenances()) == 0 })
	r.run(5*time.Minute, func() bool { return false })
	node := r.world.node()
	_, marked := v1alpha1.OutOfServiceMarkOf(node)
	switch {
	case r.bad != "":
	case len(r.maintenances()) > 0:
		r.broken("a maintenance stays: %+v", r.maintenances()[0].Status)
	case r.lit && !r.leftLit:
		r.broken("the lamp shines on")
	case node.Spec.Unschedulable:
		r.broken("the node stays cordoned")
	case !r.on && r.byUs() && !r.left:
		r.broken("the machine stays off, %s", r.offBy)
	case marked && r.on && readyOf(node).Status == corev1.ConditionTrue && !r.lied:
		r.broken("the taint stays: %v", node.Annotations)
	}
	r.stop()
	if testing.Verbose() {
		t.Log(strings.Join(r.story, "\n"))
	}
	if r.bad != "" {
		t.Errorf("seed %d: %s\n%s", seed, r.bad, strings.Join(r.story, "\n"))
	}
	return r.seen
}

func TestIfNothingHappensAMachineIsOffForItsMaintenanceAlone(t *testing.T) {
	seen := playRack(t, 0, false, false)
	for _, what := range []string{"asked", "lit", "ShuttingDown", "Off", "set", "detached", "moved", "Restoring", "On", "taken away"} {
		if seen[what] == 0 {
			t.Errorf("never %s: %v", what, seen)
		}
	}
}

// Nobody is there to switch the machine on: after an hour people are told to, and have the node.
func TestWithoutARemoteRunnerTheNodeIsGivenBackInTheEnd(t *testing.T) {
	r := newRack(t, 1)
	r.events = 0
	r.start("kubernetes", kubernetes)
	r.start("remote-runner-0", machineRunner)
	r.start("controller-0", cordons)
	r.run(10*time.Minute, func() bool { return r.seen["Off"] > 0 })
	r.actors[slices.IndexFunc(r.actors, func(a *actor) bool { return a.name == "remote-runner-0" })].dead = true
	r.end(r.one())
	r.run(deadline.RestoreTime-time.Minute, func() bool { return len(r.maintenances()) == 0 })
	if node := r.world.node(); len(r.maintenances()) != 1 || !node.Spec.Unschedulable {
		t.Errorf("it has ended too early: %v", r.maintenances())
	}
	r.run(2*time.Minute, func() bool { return false })
	if node := r.world.node(); len(r.maintenances()) > 0 || node.Spec.Unschedulable || r.on || !r.left {
		t.Errorf("on: %t, %v, %+v\n%s", r.on, r.maintenances(), node.Spec, strings.Join(r.story, "\n"))
	}
	r.stop()
	if r.bad != "" {
		t.Error(r.bad)
	}
}

func TestWhateverHappensAMachineIsOffForItsMaintenanceAlone(t *testing.T) {
	seen := map[string]int{}
	for seed := range *seeds * 3 / 4 {
		for what, n := range playRack(t, *first+seed, true, false) {
			seen[what] += min(n, 1)
		}
		if t.Failed() {
			return
		}
	}
	t.Log(seen)
	for _, what := range []string{"asked", "cut", "lit", "Waiting", "ShuttingDown", "Cutting", "Off", "StillOn", "WasOff", "Restoring", "On", "set", "detached", "moved", "taken away", "trapped"} {
		if seen[what] == 0 {
			t.Errorf("never %s: %v", what, slices.Sorted(maps.Keys(seen)))
		}
	}
}

func TestWhateverHappensAWordFreesNothingOfABootThatRuns(t *testing.T) {
	seen := map[string]int{}
	for seed := range *seeds / 8 {
		for what, n := range playRack(t, *first+seed, true, true) {
			seen[what] += min(n, 1)
		}
		if t.Failed() {
			return
		}
	}
	t.Log(seen)
	for _, what := range []string{"set by a word", "mistaken", "set", "moved", "taken away"} {
		if seen[what] == 0 {
			t.Errorf("never %s: %v", what, slices.Sorted(maps.Keys(seen)))
		}
	}
}
