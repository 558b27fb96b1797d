package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/test/apiserver"
)

// powers are the machines under nodes, as their BMCs switch them, with a remote runner that does.
type powers struct {
	world *world
	// all are those that there are, in the order of nodes.
	all []*bmc
}

// bmc is that of the machine under a node, with the power of it.
type bmc struct {
	node *node
	uuid power.UUID
	// order is that in which it says its GUID.
	order power.Order
	// posting: the machine has power, and its host has not booted yet, which takes boots. onSince is
	// since when it has power; what it was turned on and off by is numbered.
	posting bool
	boots   time.Duration
	onSince time.Time
	turns   int
	// restarts is how often it has restarted.
	restarts int
	// late is how long an off takes to have an effect: a machine that hangs takes long.
	late time.Duration

	// deaf is until when it does not answer, settling until when it says off of a machine that is on, since
	// it has not found it yet. It lets nobody log in if it denies; a stuck one acknowledges, and does nothing; one
	// that lies says off besides. foreign is the BMC that answers in its place; nil: none does.
	deaf, settling      time.Time
	denies, stuck, lies bool
	foreign             *bmc
	foreignSince        time.Time

	// cutBy is the action whose off has taken the power; "": nobody's.
	cutBy types.UID
	// restored is when a remote runner last switched it on, tried when one was last about to, ill when something
	// was last wrong with the BMC.
	restored, tried, ill time.Time
	// lied are the actions, by name, to which it has said off of a machine that is on, and lied.
	lied map[string]bool
}

// installPower gives all nodes BMCs, and pods with volumes, and has a remote runner at work.
func (w *world) installPower() {
	w.powers = &powers{world: w}
	w.volumes = &volumes{world: w}
	for i, n := range w.nodes {
		b := w.newBMC(n, i)
		b.order = of(w.choices, power.Orders()...)
		b.late, b.boots = of(w.choices, 50*time.Millisecond, 3*time.Second, 9*time.Second), of(w.choices, 8*time.Second, 40*time.Second, 3*time.Minute)
		if w.chance(600) {
			w.volumes.add(n)
		}
	}
	w.startRemoteRunner()
}

// newBMC is one without a fault, of a machine that is on.
func (w *world) newBMC(n *node, number int) *bmc {
	uuid, err := power.ParseUUID(fmt.Sprintf("4c4c4544-0032-3810-8052-b4c04f4a%04d", number+1))
	w.must(err)
	n.bmc = &bmc{node: n, uuid: uuid, order: power.RFC4122, boots: 20 * time.Second, onSince: time.Now(), lied: map[string]bool{}}
	w.powers.all = append(w.powers.all, n.bmc)
	n.kubelet()
	return n.bmc
}

// calm has all BMCs work, and people switch on what is off, but for what the remote runner is to.
func (p *powers) calm() {
	for _, b := range p.all {
		b.well()
		b.node.wakes()
	}
}

// well has the BMC work.
func (b *bmc) well() {
	if b.denies || b.stuck || b.lies || b.foreign != nil || !b.deaf.IsZero() {
		b.ill = later(b.ill, time.Now())
	}
	b.deaf, b.settling, b.foreign = time.Time{}, time.Time{}, nil
	b.denies, b.stuck, b.lies = false, false, false
}

// on reports whether the machine has power.
func (b *bmc) on() bool { return b.node.up || b.posting }

// turnedOn switches the machine on: its host boots, which takes a while.
func (b *bmc) turnedOn(by string) {
	n, w := b.node, b.node.world
	if b.on() {
		return
	}
	w.say("machine "+n.name, "is on, by %s", by)
	b.powered()
	b.posting = true
	turn := b.turns
	w.after(b.boots, func() {
		if b.posting && b.turns == turn {
			n.powerOn()
		}
	})
}

// powered notes that the machine has got power.
func (b *bmc) powered() {
	b.turns++
	b.cutBy, b.onSince = "", time.Now()
}

// turnedOff cuts the power of the machine, for an action; "": for others.
func (b *bmc) turnedOff(by string, action types.UID) {
	if !b.on() {
		return
	}
	b.node.world.say("machine "+b.node.name, "is off, by %s", by)
	b.turns++
	b.posting, b.cutBy = false, action
	b.node.powerOff()
	b.node.cures(v1alpha1.RemedyReboot)
}

// leftToPeople reports whether it is for people that the machine is off: nobody has cut it, or the action has ended
// that has, or is gone.
func (b *bmc) leftToPeople() bool {
	for _, a := range apiserver.Stored[*v1alpha1.NodeAction](b.node.world.server) {
		if a.UID == b.cutBy && a.Finished() == nil {
			return false
		}
	}
	return true
}

// needed returns what the switch of a node is found by: its name.
func needed(node *corev1.Node) (*corev1.Node, error) {
	found := &corev1.Node{}
	found.Name = node.Name
	return found, nil
}

// switchOf returns what finds the BMCs of nodes for a remote runner.
func (w *world) switchOf(p *process) func(*corev1.Node) (power.Switch, error) {
	return func(node *corev1.Node) (power.Switch, error) {
		n := w.node(node.Name)
		if n == nil || n.bmc == nil {
			return nil, errors.New("the node has no switch")
		}
		return switched{n.bmc, p}, nil
	}
}

// bmcKind is that of BMCs in requests.
const bmcKind = "BMC"

// errDeaf is of a BMC that does not answer.
var errDeaf = errors.New("it does not answer")

// switched is a BMC as a remote runner asks it.
type switched struct {
	b *bmc
	p *process
}

// ask has a session with the BMC that answers, for a machine; the action is that which is being worked on.
func (s switched) ask(ctx context.Context, verb string, machine power.UUID, serve func(answers *bmc, action string) error) error {
	n := s.b.node
	task, _ := ctx.Value(taskKey{}).(string)
	_, action, _ := strings.Cut(task, "/")
	sent := time.Now()
	err := s.p.gate(ctx, apiserver.Request{Verb: verb, Kind: bmcKind, Name: n.name}, func() error {
		answers := s.b
		if s.b.foreign != nil {
			answers = s.b.foreign
		}
		switch {
		case answers.deaf.After(time.Now()):
			return errDeaf
		case answers.denies:
			return power.ErrLogin
		case verb != "get" && answers.uuid != machine:
			n.world.oracles.switchesOther(s.b, verb, sent)
			return power.ErrOtherMachine
		}
		return serve(answers, action)
	})
	switch {
	case errors.Is(err, errDeaf):
		<-ctx.Done() // nobody says that nothing will come
		if s.p.dead.Load() {
			runtime.Goexit()
		}
		return power.ErrNoAnswer
	case errors.Is(err, errLost) || errors.Is(err, context.DeadlineExceeded):
		return errors.Join(power.ErrNoAnswer, err)
	}
	return err
}

// Read implements power.Switch.
func (s switched) Read(ctx context.Context, machine power.UUID) (r power.Reading, err error) {
	var got power.Reading
	err = s.ask(ctx, "get", machine, func(b *bmc, action string) error {
		got = power.Reading{GUID: power.GUID(power.GUID(b.uuid).In(b.order)), Power: power.Off}
		switch {
		case !b.on(), b.settling.After(time.Now()):
		case b.lies:
			b.lied[action] = true
		default:
			got.Power = power.On
		}
		return nil
	})
	if err == nil { // not before: whoever gave up waiting does not read it
		r = got
	}
	return r, err
}

// Off implements power.Switch.
func (s switched) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	if err := still.Holds(ctx); err != nil {
		return err
	}
	sent, w := time.Now(), s.b.node.world
	return s.ask(ctx, "off", machine, func(b *bmc, action string) error {
		uid := w.oracles.cuts(b, action, sent)
		if b.stuck || b.lies {
			w.count("a BMC acknowledges an off, and does nothing")
			return nil
		}
		restarts, turns := b.restarts, b.turns
		w.after(b.late, func() {
			if b.restarts == restarts && b.turns == turns { // who holds the button lets go of it when the machine is off
				b.turnedOff("action "+action, uid)
			}
		})
		return nil
	})
}

// On implements power.Switch.
func (s switched) On(ctx context.Context, machine power.UUID, still power.Still) error {
	if err := still.Holds(ctx); err != nil {
		return err
	}
	sent := time.Now()
	s.b.tried = sent
	return s.ask(ctx, "on", machine, func(b *bmc, action string) error {
		w := b.node.world
		w.oracles.restores(b, action, sent)
		if !b.stuck && !b.lies {
			b.restored = time.Now()
			b.turnedOn("action " + action)
		}
		return nil
	})
}

// Shutdown implements power.Switch.
func (switched) Shutdown(context.Context, power.UUID, power.Still) error { return power.ErrUnsupported }

// Identify implements power.Switch.
func (switched) Identify(context.Context, power.UUID, bool) (time.Duration, error) {
	return 0, power.ErrUnsupported
}

// String implements power.Switch.
func (s switched) String() string { return "ipmi://" + s.b.node.name + ":623" }

// powerCycle is a step that switches a node's power off and on.
func powerCycle(frees bool) v1alpha1.Step {
	return v1alpha1.Step{
		Reboot:  &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle, OutOfService: frees},
		Timeout: duration(20 * time.Minute), VerifyTimeout: duration(5 * time.Minute), Attempts: 1,
	}
}

// hangs lets the host of a node stand still: it neither answers nor ends, and goes on if it wakes.
func (n *node) hangs() {
	n.world.say("host "+n.name, "hangs")
	n.hung = true
	n.cutOff(true)
}

// wakes lets a host go on that hangs.
func (n *node) wakes() {
	if n.hung {
		n.world.say("host "+n.name, "goes on")
		n.hung = false
		n.cutOff(false)
	}
}
