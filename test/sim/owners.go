package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
	"github.com/nodemend/nodemend/test/apiserver"
)

// replace is a step that has the node's machine replaced.
func replace() v1alpha1.Step {
	return v1alpha1.Step{Replace: &v1alpha1.ReplaceRemedy{}, Timeout: duration(30 * time.Minute), VerifyTimeout: duration(2 * time.Minute), Attempts: 1}
}

// owners is the program that owns the machines under nodes, such as Cluster API, with the remote runner
// that has it replace them. The machines are of metal: a new one has the old one's name.
type owners struct {
	world    *world
	machines map[string]*machine // by the names of nodes
}

// machine is that under a node.
type machine struct {
	node *node
	// number is which one it is of the node's, version how often it has changed.
	number, version int
	// goes is how long it takes to be gone, boots the new one to boot; 0: never.
	goes, boots time.Duration
	// barren: nobody would make a new one.
	barren bool
	// method is how it is replaced. One that is marked is deleted after heeds; 0: never.
	method v1alpha1.ReplaceMethod
	heeds  time.Duration

	// mark is the action in whose name it is marked, marked since when.
	mark   string
	marked time.Time
	// deleted and gone are since when it is.
	deleted, gone time.Time
	// labels are those of its Node.
	labels map[string]string
	// acts is the execution of the action that has it replaced.
	acts *execution
	// sent is how often it was to be deleted, or marked.
	sent int
}

func (m *machine) uid() types.UID {
	return types.UID(fmt.Sprintf("%s-machine-%d", m.node.name, m.number))
}

func (m *machine) object() v1alpha1.ExternalObject {
	return v1alpha1.ExternalObject{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Namespace: "fleet", Name: m.node.name, UID: m.uid()}
}

func (m *machine) resourceVersion() string { return fmt.Sprint(m.version) }

// installOwners has the machines of all nodes owned, and a remote runner at work.
func (w *world) installOwners() {
	w.owners = &owners{world: w, machines: map[string]*machine{}}
	for _, n := range w.nodes {
		w.owners.machines[n.name] = w.newMachine(n)
	}
	w.startRemoteRunner()
	w.after(5*time.Second, w.owners.look)
}

// newMachine is one of a search: what becomes of it is left to chance.
func (w *world) newMachine(n *node) *machine {
	return &machine{
		node: n, method: of(w.choices, v1alpha1.ReplaceDelete, v1alpha1.ReplaceDelete, v1alpha1.ReplaceRemediate),
		goes: of(w.choices, 20*time.Second, 2*time.Minute, 15*time.Minute, 0), boots: of(w.choices, 20*time.Second, 3*time.Minute, 0),
		heeds: of(w.choices, 10*time.Second, 3*time.Minute, 0), barren: w.chance(100),
	}
}

// look lets the owner do its work.
func (o *owners) look() {
	o.world.after(5*time.Second, o.look)
	for _, n := range o.world.nodes {
		m := o.machines[n.name]
		if m.mark != "" && m.deleted.IsZero() && m.heeds > 0 && time.Since(m.marked) >= m.heeds {
			o.world.count("a marked machine is remediated")
			m.deleted = time.Now()
			m.version++
		}
		o.world.oracles.replacing(m)
		switch {
		case m.deleted.IsZero():
		case m.gone.IsZero():
			if m.goes > 0 && time.Since(m.deleted) >= m.goes {
				o.goes(m)
			}
		case m.boots > 0 && time.Since(m.gone) >= m.boots:
			o.comes(m)
		}
	}
}

// goes lets a machine be gone, and its Node with it.
func (o *owners) goes(m *machine) {
	w, n := o.world, m.node
	w.say("owner", "machine %s is gone", m.uid())
	m.gone = time.Now()
	n.powerOff()
	n.absent = true
	clear(n.faults)
	if m.acts != nil {
		m.acts.done, m.acts.ends = true, time.Now()
	}
	if obj := n.object(); obj != nil {
		m.labels = maps.Clone(obj.Labels)
		delete(m.labels, v1alpha1.ExcludeLabel)
		delete(m.labels, healerLabel)
		w.people.limited, w.people.replaced[n.name] = time.Now(), true
		w.remove(obj.DeepCopy())
	}
}

// comes lets a new machine boot.
func (o *owners) comes(m *machine) {
	w, n := o.world, m.node
	w.count("a machine was replaced")
	fresh := m
	if w.chaos {
		fresh = w.newMachine(n)
	}
	*fresh = machine{
		node: n, number: m.number + 1, labels: m.labels, method: fresh.method, goes: fresh.goes, boots: fresh.boots, heeds: fresh.heeds, barren: fresh.barren, sent: m.sent,
	}
	o.machines[n.name] = fresh
	n.absent = false
	w.say("owner", "machine %s boots", fresh.uid())
	w.people.limited, w.people.cordoned[n.name] = time.Now(), false
	if n.object() == nil {
		w.register(n, fresh.labels)
	}
	n.powerOn()
}

// calm has the owner do its work.
func (o *owners) calm() {
	for _, n := range o.world.nodes {
		m := o.machines[n.name]
		m.goes, m.boots, m.heeds, m.barren = time.Minute, time.Minute, time.Minute, false
	}
}

// slowDeletion lets the next deletion of a machine take long, maybe while another remote runner takes over,
// and somebody excludes the node.
func (w *world) slowDeletion() bool {
	if w.owners == nil {
		return false
	}
	w.slow["delete "+machineKind] = func(c *call) time.Duration {
		w.count("a deletion of a machine is under way for long")
		if w.chance(700) {
			w.after(time.Second, func() { w.excludeForAWhile(c.request.Name) })
			w.after(2*time.Second, func() { w.secondRemote() })
		}
		return of(w.choices, 3*time.Second, requestTimeout-time.Second, stragglesFor-time.Second)
	}
	return true
}

// endUnheard lets somebody exclude the node of the next machine that is to be replaced, until its action is about to end for
// that. Nobody hears whether it has.
func (w *world) endUnheard() bool {
	if w.owners == nil {
		return false
	}
	w.slow["update NodeAction"] = func(c *call) time.Duration {
		switch a := c.writes; {
		case a == nil || a.Status.Replace == nil || a.Status.Replace.SentAt != nil:
			return 0
		case a.Finished() == nil:
			w.excludeForAWhile(a.Spec.NodeName)
			return 0
		default:
			w.count("that a replacement ends is not heard")
			w.changeNode(a.Spec.NodeName, func(n *corev1.Node) { delete(n.Labels, v1alpha1.ExcludeLabel) })
			return of(w.choices, time.Minute, 3*time.Minute)
		}
	}
	return true
}

// machineKind is that of machines in requests. One that nobody waits for any more arrives within stragglesFor,
// or never.
const (
	machineKind  = "Machine"
	stragglesFor = 20 * time.Second
)

// unmark lets a person take a machine's mark away.
func (w *world) unmark() bool {
	n := w.anyNode(func(n *node) bool {
		return w.owners != nil && w.owners.machines[n.name].mark != "" && w.owners.machines[n.name].deleted.IsZero()
	})
	if n == nil {
		return false
	}
	w.owners.machines[n.name].unmarked()
	return true
}

// unmarked takes the mark away with which nobody has begun: nothing was done.
func (m *machine) unmarked() {
	m.mark = ""
	m.version++
	m.node.executions = slices.DeleteFunc(m.node.executions, func(e *execution) bool { return e == m.acts })
	m.acts = nil
}

// asked are the owners as a remote runner asks them.
type asked struct {
	o *owners
	p *process
}

// ask asks for something about the machine of a node.
func (a asked) ask(ctx context.Context, verb, node string, serve func(*machine) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return a.p.gate(ctx, apiserver.Request{Verb: verb, Kind: machineKind, Name: node}, func() error { return serve(a.o.machines[node]) })
}

// Of implements runner.Machines.
func (a asked) Of(ctx context.Context, node *corev1.Node, _ *v1alpha1.Request) (found runner.Machine, refusal string, err error) {
	err = a.ask(ctx, "get", node.Name, func(m *machine) error {
		switch {
		case m.barren:
			refusal = "nobody would make a new one"
		case !m.gone.IsZero():
			refusal = "it is gone"
		case !m.deleted.IsZero():
			refusal = "it is being deleted"
		case m.mark != "":
			refusal = "it is to be remediated already"
		default:
			found = runner.Machine{
				Object: m.object(), Owner: v1alpha1.ExternalObject{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Namespace: "fleet", Name: "workers", UID: "set"},
				Method: m.method, Version: m.resourceVersion(),
			}
		}
		return nil
	})
	return found, refusal, err
}

// changed is the answer to whoever has read an earlier version.
func changed(name string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "machines"}, name, errors.New("it has changed"))
}

// Send implements runner.Machines.
func (a asked) Send(ctx context.Context, asks runner.Machine, action string) error {
	sent := time.Now()
	return a.ask(ctx, "delete", asks.Object.Name, func(m *machine) error {
		switch {
		case m.uid() != asks.Object.UID || !m.gone.IsZero():
			return nil
		case asks.Version != m.resourceVersion():
			return changed(m.node.name)
		}
		m.version++
		m.sent++
		if asks.Method == v1alpha1.ReplaceRemediate {
			m.mark, m.marked = action, time.Now()
		} else {
			m.deleted = time.Now()
		}
		a.o.world.say("owner", "machine %s is to be replaced, for %s", m.uid(), action)
		m.acts = a.o.world.oracles.replaces(m, action, sent)
		return nil
	})
}

// TakeBack implements runner.Machines.
func (a asked) TakeBack(ctx context.Context, status *v1alpha1.ReplaceStatus, seen runner.MachineSeen) error {
	return a.ask(ctx, "patch", status.Machine.Name, func(m *machine) error {
		if m.uid() != status.Machine.UID || m.resourceVersion() != seen.Version {
			return changed(m.node.name)
		}
		a.o.world.count("a machine's mark is taken back")
		m.unmarked()
		return nil
	})
}

// Look implements runner.Machines.
func (a asked) Look(ctx context.Context, status *v1alpha1.ReplaceStatus, action string, _ time.Time) (seen runner.MachineSeen, err error) {
	err = a.ask(ctx, "get", status.Machine.Name, func(m *machine) error {
		if m.uid() == status.Machine.UID && m.gone.IsZero() {
			seen = runner.MachineSeen{There: true, Leaving: !m.deleted.IsZero(), Marked: m.mark == action, Said: "it is played", Version: m.resourceVersion()}
		}
		return nil
	})
	return seen, err
}

// Group implements runner.Machines.
func (a asked) Group(ctx context.Context, _ *v1alpha1.ReplaceStatus) (runner.MachineGroup, error) {
	group := runner.MachineGroup{Wants: -1}
	err := a.ask(ctx, "list", a.o.world.nodes[0].name, func(*machine) error {
		for _, n := range a.o.world.nodes {
			if m := a.o.machines[n.name]; m.deleted.IsZero() {
				group.Nodes = append(group.Nodes, n.name)
			}
		}
		return nil
	})
	return group, err
}
