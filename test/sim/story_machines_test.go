package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// machineHealthCheck is one of Cluster API, with the owner of the node's Machine. It knows nothing of conditions of
// ours: its request is there or not, and what we can tell is a condition of the Machine.
type machineHealthCheck struct {
	*driver
	s    *stage
	node *node
	// deleted is when the owner has deleted the Machine.
	deleted time.Time
}

// ofMachine has a MachineHealthCheck look at the node, and the policy asked for by it.
func (s *stage) ofMachine(n *node, steps ...v1alpha1.Step) *machineHealthCheck {
	d := s.driven(n, nil, steps...)
	d.leases = false
	m := &machineHealthCheck{driver: d, s: s, node: n}
	machine := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"nodeRef": map[string]any{"name": n.name}}}}
	machine.SetGroupVersionKind(remediatorKinds()[2])
	machine.SetNamespace(driverNamespace)
	machine.SetName(n.name)
	s.create(machine)
	s.changeNode(n.name, func(o *corev1.Node) {
		annotate(o, "cluster.x-k8s.io/machine", n.name)
		annotate(o, "cluster.x-k8s.io/cluster-namespace", driverNamespace)
	})
	d.asks = func(r *v1alpha1.NodemendRemediation) {
		r.Labels, r.Annotations = nil, nil
		r.OwnerReferences = []metav1.OwnerReference{{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: n.name, UID: m.machine().GetUID()}}
		m.set("HealthCheckSucceeded", "False")
		m.set("ExternallyRemediated", "False")
	}
	s.after(5*time.Second, m.owns)
	return m
}

// machine is that of the node; nil: it is gone.
func (m *machineHealthCheck) machine() *unstructured.Unstructured {
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(remediatorKinds()[2])
	if m.s.admin.Get(m.s.ctx, types.NamespacedName{Namespace: driverNamespace, Name: m.node.name}, machine) != nil {
		return nil
	}
	return machine
}

// set sets a condition of the Machine.
func (m *machineHealthCheck) set(kind, status string) {
	machine := m.machine()
	if machine == nil {
		return
	}
	all, _, _ := unstructured.NestedSlice(machine.Object, "status", "conditions")
	kept := []any{map[string]any{"type": kind, "status": status}}
	for _, c := range all {
		if is, _ := c.(map[string]any); is["type"] != kind {
			kept = append(kept, c)
		}
	}
	m.s.must(unstructured.SetNestedSlice(machine.Object, kept, "status", "conditions"))
	m.s.must(m.s.admin.Status().Update(m.s.ctx, machine))
}

// status is that of a condition of the Machine.
func (m *machineHealthCheck) status(kind string) string {
	if machine := m.machine(); machine != nil {
		all, _, _ := unstructured.NestedSlice(machine.Object, "status", "conditions")
		for _, c := range all {
			if is, _ := c.(map[string]any); is["type"] == kind {
				return is["status"].(string) //nolint:forcetypeassert // it was written as one
			}
		}
	}
	return ""
}

// owns lets the owner of the Machine delete it when it is told to, with the Node and what was asked for.
func (m *machineHealthCheck) owns() {
	m.s.after(5*time.Second, m.owns)
	if m.driver.deleted && m.request() == nil {
		m.set("HealthCheckSucceeded", "True") // nobody takes ExternallyRemediated back
	}
	if m.deleted.IsZero() && m.status("OwnerRemediated") == "False" {
		m.deletes()
	}
}

// deletes deletes the Machine: the Node goes, and by the garbage collector what was asked for.
func (m *machineHealthCheck) deletes() {
	m.deleted, m.dead = time.Now(), distant
	m.s.remove(m.machine())
	m.node.powerOff()
	m.s.remove(m.node.object())
	if asked := m.request(); asked != nil {
		m.s.must(client.IgnoreNotFound(m.s.admin.Delete(m.s.ctx, asked)))
	}
}

func TestAMachineHealthCheckHasANodeHealed(t *testing.T) {
	tellAll(t, 6,
		story{"by a reboot", func(s *stage) {
			n := s.scene("n1")
			m := s.ofMachine(n, command("try"), drainAndReboot())
			s.begin()
			n.fail(sick, v1alpha1.RemedyReboot)
			s.until("it is asked for", func() bool { return m.asked == 1 })
			s.until("the request is gone", func() bool { return m.request() == nil })
			expect(s, "history", s.records(n), []string{"1/1 Succeeded", "2/1 Succeeded"})
			expect(s, "its owner was told", m.status("OwnerRemediated"), "")
			expect(s, "state", s.state(n), recovered)
		}},
		story{"by another program", func(s *stage) {
			n := s.scene("n1")
			m := s.ofMachine(n, external())
			other := s.remediates(n)
			other.plan = heals
			s.begin()
			n.fail(sick, "")
			s.until("its object is there", func() bool { return other.object() != nil })
			s.until("the request is gone", func() bool { return m.request() == nil })
			expect(s, "its object is gone before", other.object() == nil, true)
			expect(s, "its owner was told", m.status("OwnerRemediated"), "")
		}},
	)
}

func TestAMachineHealthCheckGoesOnWhenAllWasInVain(t *testing.T) {
	for name, steps := range map[string][]v1alpha1.Step{
		"of the node's runner": {command("in-vain")}, "of another program that takes too long": {external()},
	} {
		tellAll(t, 6, story{name, func(s *stage) {
			n := s.scene("n1")
			m := s.ofMachine(n, steps...)
			other := s.remediates(n)
			s.begin()
			n.fail(sick, "")
			s.until("its owner deletes the Machine", func() bool { return !m.deleted.IsZero() })
			expect(s, "another program's object is gone before", other.object() == nil, true)
			s.until("the request is gone", func() bool { return m.request() == nil })
			s.until("it is over", func() bool { return s.over(n) })
			expect(s, "outcome", s.first(n), v1alpha1.ReasonNodeGone)
			s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
		}})
	}
}

func TestAMachineIsDeletedForWhichAMachineHealthCheckHasAsked(t *testing.T) {
	tellAll(t, 6,
		story{"while another program has the node", func(s *stage) {
			n := s.scene("n1")
			m := s.ofMachine(n, external())
			other := s.remediates(n)
			s.begin()
			n.fail(sick, "")
			s.until("it has begun", func() bool { return other.object() != nil && len(other.object().GetFinalizers()) > 0 })
			m.deletes()
			s.until("the request is gone", func() bool { return m.request() == nil })
			s.until("its object is gone", func() bool { return other.object() == nil })
			s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
			expect(s, "objects", len(other.seen), 1)
		}},
		story{"while a step waits for another healer", func(s *stage) {
			n := s.scene("n1")
			m := s.ofMachine(n, reboot())
			s.begin()
			s.create(healerLease(n.name))
			n.fail(sick, v1alpha1.RemedyReboot)
			s.until("it waits", func() bool { return s.saidTo(m.driver) == "True/Unknown/OtherHealer" })
			m.deletes()
			s.until("the request is gone", func() bool { return m.request() == nil })
			expect(s, "executions", n.ran(), []string{})
		}},
	)
}

func TestAMachineIsReplacedForWhichAMachineHealthCheckHasAsked(t *testing.T) {
	for name, boots := range map[string]time.Duration{"a new node comes up": 3 * time.Minute, "none does": 0} {
		tellAll(t, 6, story{name, func(s *stage) {
			n := s.scene("n1", "n2")
			m := s.ofMachine(n, replace())
			o := s.owns(n)
			o.boots = boots
			s.begin()
			n.fail(sick, "")
			s.until("its Node is gone", func() bool { return !o.gone.IsZero() })
			m.dead = distant
			s.remove(m.machine()) // with what it owns
			s.must(client.IgnoreNotFound(s.admin.Delete(s.ctx, m.request())))
			s.until("the request is gone", func() bool { return m.request() == nil })
			want := v1alpha1.ReasonReplaced
			if boots == 0 {
				want = v1alpha1.ReasonNotReplaced
			}
			expect(s, "outcome", s.first(n), want)
			expect(s, "machines deleted", o.sent, 1)
			n.powerOn()
		}})
	}
}
