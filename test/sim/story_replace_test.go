package sim

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// owns has the machine of a node owned, and a remote runner at work.
func (s *stage) owns(n *node) *machine {
	o := &owners{world: s.world, machines: map[string]*machine{}}
	for _, other := range s.nodes {
		o.machines[other.name] = &machine{node: other, method: v1alpha1.ReplaceDelete}
	}
	s.owners = o
	m := o.machines[n.name]
	m.goes, m.boots = 2*time.Minute, 3*time.Minute
	s.startRemoteRunner()
	s.after(5*time.Second, o.look)
	s.after(5*time.Second, func() { s.permitted(m) })
	return m
}

// permitted holds the controller to I1 while a machine is being replaced, until its step's time is over
// and its Node gone.
func (s *stage) permitted(m *machine) {
	s.after(5*time.Second, func() { s.permitted(m) })
	for _, a := range s.actions(m.node) {
		if a.Status.Replace == nil || a.Finished() != nil || time.Since(a.Status.Claim.Time.Time) > 35*time.Minute {
			continue
		}
		for _, b := range stored[*v1alpha1.RemediationBudget](s.oracles) {
			if !holds(b, m.node.name, a.Spec.Remediation) {
				s.broken("I1: a permit is kept while a machine is being replaced", "budget %s, action %s", b.Name, a.Name)
			}
		}
	}
}

func TestAMachineIsReplaced(t *testing.T) {
	tellAll(t, 4, story{"a new node comes up", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, command("try"), replace())
		m := s.owns(n)
		s.begin()
		n.fail(sick, "")
		s.until("it is over", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonReplaced)
		expect(s, "deleted", m.sent, 1)
		s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
	}}, story{"it is marked, and its owner remediates it", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		m := s.owns(n)
		m.method, m.heeds = v1alpha1.ReplaceRemediate, 3*time.Minute
		s.begin()
		n.fail(sick, "")
		s.until("it is over", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonReplaced)
	}}, story{"it is marked, and nobody heeds that", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		m := s.owns(n)
		m.method = v1alpha1.ReplaceRemediate
		s.begin()
		n.fail(sick, "")
		s.until("the mark is taken back", func() bool { return m.sent == 1 && m.mark == "" })
		expect(s, "deleted", m.deleted.IsZero(), true)
		n.repair()
		s.back(n)
	}}, story{"none does", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		m := s.owns(n)
		m.boots = 0
		s.begin()
		n.fail(sick, "")
		s.until("it is over", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonNotReplaced)
		s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
		n.powerOn()
	}}, story{"its finalizer stays", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		m := s.owns(n)
		m.goes = 0
		s.begin()
		n.fail(sick, "")
		s.until("people are told", func() bool { return s.heldBy(n, v1alpha1.ReasonStillRunning) })
		expect(s, "permits", len(s.permits()) > 0, true)
		m.goes = time.Minute
		s.until("it is over", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonNotReplaced) // no time is left for the new one
		s.until("the permit is returned", func() bool { return len(s.permits()) == 0 })
	}}, story{"nobody would make a new one", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		m := s.owns(n)
		m.barren = true
		s.begin()
		n.fail(sick, "")
		s.until("it is refused", func() bool { return s.heldBy(n, v1alpha1.ReasonRefused) })
		expect(s, "deleted", m.sent, 0)
		n.repair()
		s.back(n)
	}}, story{"the cluster is paused meanwhile", func(s *stage) {
		n := s.scene("n1", "n2")
		s.policy(nil, replace())
		m := s.owns(n)
		s.begin()
		n.fail(sick, "")
		s.until("it is deleted", func() bool { return m.sent > 0 })
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
