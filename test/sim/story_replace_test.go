package sim

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/serverclock"
	"github.com/nodemend/nodemend/runner"
)

// replace is a step that has the node's machine replaced.
func replace() v1alpha1.Step {
	return v1alpha1.Step{Replace: &v1alpha1.ReplaceRemedy{}, Timeout: duration(30 * time.Minute), VerifyTimeout: duration(2 * time.Minute), Attempts: 1}
}

// owner is the program that owns the machines of a story, with the remote runner. A machine of metal: the
// new one has the old one's name.
type owner struct {
	s    *stage
	node *node
	w    *runner.RemoteWorker
	// uid is that of the Node whose machine it was, deleted when it was to go.
	uid     types.UID
	deleted time.Time
	// goes is how long it takes to be gone, boots the new one to boot; 0: never.
	goes, boots time.Duration
	gone        bool
	sent        int
	// barren: nobody would make a new one.
	barren bool
}

// owns has the machine of a node owned, and a remote runner at work.
func (s *stage) owns(n *node) *owner {
	o := &owner{s: s, node: n, goes: 2 * time.Minute, boots: 3 * time.Minute}
	w, err := runner.NewRemoteWorker(runner.RemoteWorkerOptions{
		RunnerID: "remote", API: o, Machines: o, Clock: clock.RealClock{}, ServerClock: serverclock.New(clock.RealClock{}), Events: notes{}, Registry: prometheus.NewRegistry(),
		Switch: func(*corev1.Node) (power.Switch, error) { return nil, errors.New("no switch is asked for") },
		Needed: func(*corev1.Node) (*corev1.Node, error) { return nil, errors.New("no switch is asked for") },
	})
	s.must(err)
	o.w = w
	s.after(time.Second, o.look)
	return o
}

// look lets remote runner and owner do their work, as long as the story lasts.
func (o *owner) look() {
	o.s.after(5*time.Second, o.look)
	for _, a := range o.s.actions(o.node) {
		_ = o.w.Work(o.s.ctx, a.Name) // it is looked at again anyway
	}
	if o.deleted.IsZero() {
		return
	}
	o.permitted()
	switch passed := time.Since(o.deleted); {
	case !o.gone && o.goes > 0 && passed >= o.goes:
		o.gone = true
		o.s.people.replaced[o.node.name] = true
		o.node.powerOff()
		o.s.remove(o.node.object().DeepCopy())
		o.node.repair()
	case o.gone && o.boots > 0 && passed >= o.goes+o.boots && !o.node.up:
		o.s.people.limited, o.s.people.cordoned[o.node.name] = time.Now(), false
		o.s.register(o.node, map[string]string{"rack": "r1"})
		o.node.powerOn()
	}
}

// permitted holds the controller to I1 while a machine is being replaced, until its step's time is over
// and its Node gone.
func (o *owner) permitted() {
	for _, a := range o.s.actions(o.node) {
		if a.Status.Replace == nil || a.Finished() != nil || time.Since(a.Status.Claim.Time.Time) > 35*time.Minute {
			continue
		}
		for _, b := range stored[*v1alpha1.RemediationBudget](o.s.oracles) {
			if !holds(b, o.node.name, a.Spec.Remediation) {
				o.s.broken("I1: a permit is kept while a machine is being replaced", "budget %s, action %s", b.Name, a.Name)
			}
		}
	}
}

// Of implements runner.Machines.
func (o *owner) Of(_ context.Context, node *corev1.Node, _ *v1alpha1.Request) (runner.Machine, string, error) {
	if o.barren {
		return runner.Machine{}, "nobody would make a new one", nil
	}
	o.uid = node.UID
	return runner.Machine{
		Object: v1alpha1.ExternalObject{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Namespace: "fleet", Name: node.Name, UID: "machine-" + node.UID},
		Owner:  v1alpha1.ExternalObject{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "MachineSet", Namespace: "fleet", Name: "workers", UID: "set"},
		Method: v1alpha1.ReplaceDelete, Version: "1",
	}, "", nil
}

// Send implements runner.Machines.
func (o *owner) Send(_ context.Context, m runner.Machine, name string) error {
	var a *v1alpha1.NodeAction
	for _, other := range o.s.actions(o.node) {
		if other.Name == name {
			a = other
		}
	}
	if a == nil || a.Status.Claim == nil || a.Status.Replace == nil || a.Status.Replace.Machine != m.Object {
		o.s.broken("I2: what is deleted stands in the claim", "%s", m.Object.String())
	}
	if n := o.node.object(); n == nil || !n.Spec.Unschedulable {
		o.s.broken("the node is out of service before its machine is deleted", "%s", o.node.name)
	}
	o.sent++
	o.deleted = time.Now()
	o.permitted()
	return nil
}

// TakeBack implements runner.Machines.
func (*owner) TakeBack(context.Context, *v1alpha1.ReplaceStatus, runner.MachineSeen) error {
	return errors.New("nothing is marked")
}

// Look implements runner.Machines.
func (o *owner) Look(context.Context, *v1alpha1.ReplaceStatus, string) (runner.MachineSeen, error) {
	return runner.MachineSeen{There: !o.gone, Leaving: !o.deleted.IsZero(), Said: "it is played"}, nil
}

// Group implements runner.Machines.
func (o *owner) Group(context.Context, *v1alpha1.ReplaceStatus) (runner.MachineGroup, error) {
	group := runner.MachineGroup{Wants: -1}
	for _, n := range o.s.nodes {
		group.Nodes = append(group.Nodes, n.name)
	}
	return group, nil
}

// The API server of the remote runner.

func (o *owner) api() runnerAPI { return runnerAPI{o.s.server.Client("remote-runner", nil)} }

// Action implements runner.API.
func (o *owner) Action(ctx context.Context, name string) (*v1alpha1.NodeAction, error) {
	return o.api().Action(ctx, name)
}

// Remediation implements runner.API.
func (o *owner) Remediation(ctx context.Context, name string) (*v1alpha1.Remediation, error) {
	return o.api().Remediation(ctx, name)
}

// Policy implements runner.API.
func (o *owner) Policy(ctx context.Context, name string) (*v1alpha1.RemedyPolicy, error) {
	return o.api().Policy(ctx, name)
}

// Node implements runner.API.
func (o *owner) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return o.api().Node(ctx, name)
}

// Budget implements runner.API.
func (o *owner) Budget(ctx context.Context, name string) (*v1alpha1.RemediationBudget, error) {
	return o.api().Budget(ctx, name)
}

// Request implements runner.API.
func (o *owner) Request(ctx context.Context, request *v1alpha1.Request) (*v1alpha1.NodemendRemediation, error) {
	return o.api().Request(ctx, request)
}

// UpdateStatus implements runner.API.
func (o *owner) UpdateStatus(ctx context.Context, action *v1alpha1.NodeAction) error {
	return o.api().UpdateStatus(ctx, action)
}

// Lease implements runner.RemoteAPI.
func (*owner) Lease(context.Context, string) (*coordinationv1.Lease, error) {
	return nil, errors.New("nobody needs to know")
}

// Twin implements runner.RemoteAPI.
func (*owner) Twin(context.Context, string, power.UUID) (string, error) {
	return "", errors.New("nobody needs to know")
}

// Ready implements runner.RemoteAPI.
func (o *owner) Ready(_ context.Context, _ []string, but types.UID) (ready int32, err error) {
	for _, n := range o.s.nodes {
		if object := n.object(); object != nil && object.UID != but && n.status("Ready") == corev1.ConditionTrue {
			ready++
		}
	}
	return ready, nil
}

// Holds implements runner.RemoteAPI.
func (o *owner) Holds(ctx context.Context, node string) (holds runner.Holds, err error) {
	var budgets v1alpha1.RemediationBudgetList
	var maintenances v1alpha1.NodeMaintenanceList
	c := o.api().client
	err = errors.Join(c.List(ctx, &budgets), c.List(ctx, &maintenances))
	holds.Budgets = budgets.Items
	for i := range maintenances.Items {
		if maintenances.Items[i].Spec.NodeName == node {
			holds.Maintenances = append(holds.Maintenances, maintenances.Items[i])
		}
	}
	return holds, err
}

func TestAMachineIsReplaced(t *testing.T) {
	tellAll(t, 4, story{"a new node comes up", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, command("try"), replace())
		o := s.owns(n)
		s.begin()
		n.fail(sick, "")
		s.until("it is over", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonReplaced)
		expect(s, "deleted", o.sent, 1)
		s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
	}}, story{"none does", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		o := s.owns(n)
		o.boots = 0
		s.begin()
		n.fail(sick, "")
		s.until("it is over", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonNotReplaced)
		s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
		n.powerOn()
	}}, story{"its finalizer stays", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		o := s.owns(n)
		o.goes = 0
		s.begin()
		n.fail(sick, "")
		s.until("people are told", func() bool { return s.heldBy(n, v1alpha1.ReasonStillRunning) })
		expect(s, "permits", len(s.permits()) > 0, true)
		o.goes = time.Minute
		s.until("it is over", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonNotReplaced) // no time is left for the new one
		s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
	}}, story{"nobody would make a new one", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		o := s.owns(n)
		o.barren = true
		s.begin()
		n.fail(sick, "")
		s.until("it is refused", func() bool { return s.heldBy(n, v1alpha1.ReasonRefused) })
		expect(s, "deleted", o.sent, 0)
		n.repair()
		s.back(n)
	}}, story{"the cluster is paused meanwhile", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		o := s.owns(n)
		s.begin()
		n.fail(sick, "")
		s.until("it is deleted", func() bool { return o.sent > 0 })
		s.edit(func(p *v1alpha1.RemedyPolicySpec) { p.Paused = true })
		s.until("it is over", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonReplaced)
	}})
}

// heldBy reports whether the node's remediation is, for this reason.
func (s *stage) heldBy(n *node, reason string) bool {
	all := s.remediations(n)
	return len(all) == 1 && all[0].BlockedBy() == reason
}

// first is how the node's first remediation has ended.
func (s *stage) first(n *node) string {
	var r v1alpha1.Remediation
	all := s.remediations(n)
	if len(all) == 0 {
		return "there is none"
	}
	s.must(s.admin.Get(s.ctx, client.ObjectKeyFromObject(all[0]), &r))
	return r.State()
}
