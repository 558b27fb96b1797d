package sim

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// A driver asks for a policy that hands the node to a remediator: two contracts, one node.
func TestADriverHasANodeHealedByAnotherProgram(t *testing.T) {
	tellAll(t, 4,
		story{"which heals it", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, nil, external())
			m := s.remediates(n)
			m.plan = heals
			s.begin()
			n.fail(sick, "")
			s.until("its object is there", func() bool { return m.object() != nil })
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "its object is gone before", m.object() == nil, true)
			expect(s, "requests", d.asked, 1)
			expect(s, "objects", len(m.seen), 1)
			s.until("it is back", func() bool { return n.service() == inService })
		}},
		story{"which takes too long", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, nil, external())
			m := s.remediates(n)
			s.begin()
			n.fail(sick, "")
			s.until("the driver is told", func() bool { return d.gaveUp })
			expect(s, "told", s.saidTo(d), "False/False/Exhausted")
			expect(s, "its object is gone before", m.object() == nil, true)
			expect(s, "it was told to stop", m.told, true)
			n.repair()
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "history", s.records(n), []string{"1/1 TimedOut"})
		}},
		story{"and withdraws while that is at work", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, nil, external())
			m := s.remediates(n)
			s.begin()
			n.fail(sick, "")
			s.until("it has begun", func() bool { return m.object() != nil && len(m.object().GetFinalizers()) > 0 })
			d.dead = distant
			s.must(s.admin.Delete(s.ctx, d.request()))
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "its object is gone before", m.object() == nil, true)
			expect(s, "objects", len(m.seen), 1)
			n.repair()
		}},
		story{"and tells to stop while that is at work", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, nil, external(), command("cure"))
			m := s.remediates(n)
			d.patience = 2 * time.Minute
			s.begin()
			n.fail(sick, v1alpha1.RemedyCommand)
			s.until("it is told", func() bool { return d.gaveUp })
			expect(s, "its object is gone before", m.object() == nil, true)
			s.pass(time.Hour)
			expect(s, "told", s.saidTo(d), "False/False/Stopped")
			expect(s, "nothing follows", n.ran(), []string{})
			n.repair()
			s.until("the request is gone", func() bool { return d.request() == nil })
		}},
		story{"which has the node for another reason already", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, nil, external())
			m := s.remediates(n)
			m.plan = heals
			s.begin()
			s.remediatorTaints(n.name, true)
			n.fail(sick, "")
			s.until("it waits", func() bool { return s.saidTo(d) == "True/Unknown/OtherHealer" })
			expect(s, "objects", len(m.seen), 0)
			s.remediatorTaints(n.name, false)
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "objects", len(m.seen), 1)
		}},
	)
}

func TestADriverHasAMachineReplaced(t *testing.T) {
	tellAll(t, 4,
		story{"and nobody makes a new one", func(s *stage) {
			n := s.scene("n1", "n2")
			d := s.driven(n, nil, replace())
			m := s.owns(n)
			m.boots = 0
			s.begin()
			n.fail(sick, "")
			s.until("it is over", func() bool { return s.over(n) })
			expect(s, "outcome", s.first(n), v1alpha1.ReasonNotReplaced)
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "deleted", m.sent, 1)
			n.powerOn()
		}},
		story{"and withdraws before it is gone", func(s *stage) {
			n := s.scene("n1", "n2")
			d := s.driven(n, nil, replace())
			m := s.owns(n)
			s.begin()
			n.fail(sick, "")
			s.until("it is deleted", func() bool { return m.sent > 0 })
			d.dead = distant
			s.must(s.admin.Delete(s.ctx, d.request()))
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "deleted", m.sent, 1)
			expect(s, "outcome", s.first(n), v1alpha1.ReasonReplaced)
		}},
		story{"and tells to stop before it is gone", func(s *stage) {
			n := s.scene("n1", "n2")
			d := s.driven(n, nil, replace())
			m := s.owns(n)
			s.begin()
			n.fail(sick, "")
			s.until("it is deleted", func() bool { return m.sent > 0 })
			d.patience = time.Second
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "deleted", m.sent, 1)
			expect(s, "outcome", s.first(n), v1alpha1.ReasonReplaced)
		}},
		story{"which another healer has already", func(s *stage) {
			n := s.scene("n1", "n2")
			d := s.driven(n, nil, replace())
			d.leases = false
			m := s.owns(n)
			s.begin()
			lease := healerLease(n.name)
			*lease.Spec.HolderIdentity = "NodeHealthCheck-others"
			s.create(lease)
			n.fail(sick, "")
			s.until("it waits", func() bool { return s.saidTo(d) == "True/Unknown/OtherHealer" })
			expect(s, "deleted", m.sent, 0)
			s.remove(lease)
			s.until("the request is gone", func() bool { return d.asked == 1 && d.request() == nil })
			expect(s, "outcome", s.first(n), v1alpha1.ReasonReplaced)
		}},
	)
}
