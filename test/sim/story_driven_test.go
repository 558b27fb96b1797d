package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// driven makes the policy one that is asked for, and has NodeHealthCheck look at the node.
func (s *stage) driven(n *node, change func(*v1alpha1.RemedyPolicySpec), steps ...v1alpha1.Step) *driver {
	s.policy(func(p *v1alpha1.RemedyPolicySpec) {
		p.Match = nil
		if change != nil {
			change(p)
		}
	}, steps...)
	d := &driver{world: s.world, node: n.name, policy: "policy", name: "workers", sickFor: time.Minute, leases: true}
	s.after(time.Second, d.looks)
	return d
}

// saidTo is what the driver is told of its request.
func (s *stage) saidTo(d *driver) string {
	asked := d.request()
	if asked == nil {
		return "gone"
	}
	text := ""
	for _, kind := range []string{v1alpha1.RequestProcessing, v1alpha1.RequestSucceeded} {
		if c := meta.FindStatusCondition(asked.Status.Conditions, kind); c != nil {
			text += string(c.Status) + "/"
		}
	}
	if c := meta.FindStatusCondition(asked.Status.Conditions, v1alpha1.RequestProcessing); c != nil {
		text += c.Reason
	}
	return text
}

func TestADriverHasANodeHealed(t *testing.T) {
	tellAll(t, 6,
		story{"by the second step", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, nil, restart("a.service"), command("cure"))
			s.begin()
			n.fail(sick, v1alpha1.RemedyCommand)
			s.until("it is asked for", func() bool { return d.asked == 1 })
			s.until("it was cured", func() bool { return len(n.ran()) == 2 })
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "the driver deletes it", d.deleted, true)
			expect(s, "requests", d.asked, 1)
			expect(s, "history", s.records(n), []string{"1/1 Succeeded", "2/1 Succeeded"})
			expect(s, "state", s.state(n), recovered)
		}},
		story{"by a reboot, for which it is out of service", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, nil, drainAndReboot())
			s.pod(n, "p1")
			s.begin()
			n.fail(sick, v1alpha1.RemedyReboot)
			s.until("it is out", func() bool { return s.service[n.name][len(s.service[n.name])-1] == outByUs })
			s.until("the request is gone", func() bool { return d.asked == 1 && d.request() == nil })
			expect(s, "when the request is gone, its node is in service", s.service[n.name], []string{inService, outByUs, inService})
			expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
			expect(s, "state", s.state(n), recovered)
		}},
		story{"out of service for a maintenance that the controller does not see for minutes", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, func(p *v1alpha1.RemedyPolicySpec) { p.Recovery.HealthyFor = duration(5 * time.Second) }, v1alpha1.Step{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "a story"}})
			s.begin()
			for _, p := range s.leaders() {
				s.stall(p, &v1alpha1Maintenance, 5*time.Minute)
			}
			n.fail(sick, "")
			s.until("its maintenance is there", func() bool { return len(stored[*v1alpha1.NodeMaintenance](s.oracles)) == 1 })
			s.pass(5 * time.Second)
			n.repair()
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "maintenances", len(stored[*v1alpha1.NodeMaintenance](s.oracles)), 0)
		}},
		story{"and the next incident has a request of its own", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, nil, command("cure"))
			s.begin()
			for i := range 2 {
				n.fail(sick, v1alpha1.RemedyCommand)
				s.until("it is asked for", func() bool { return d.asked == i+1 })
				s.until("the request is gone", func() bool { return d.request() == nil })
			}
			expect(s, "executions", n.ran(), []string{"cure", "cure"})
		}},
	)
}

func TestADriverWaitsForANewMachine(t *testing.T) {
	tellAll(t, 4, story{"a new node comes up", func(s *stage) {
		n := s.scene("n1", "n2")
		d := s.driven(n, nil, replace())
		o := s.owns(n)
		s.begin()
		n.fail(sick, "")
		s.until("its Node is gone", func() bool { return !o.gone.IsZero() })
		expect(s, "told", s.saidTo(d), "True/Unknown/Acting")
		s.pass(30 * time.Second)
		expect(s, "the driver lets go", d.deleted, false)
		s.until("the request is gone", func() bool { return d.request() == nil })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonReplaced)
		expect(s, "machines deleted", o.sent, 1)
		expect(s, "requests", d.asked, 1)
	}})
}

func TestADriverGoesOnWhenAllWasInVain(t *testing.T) {
	tellAll(t, 6, story{"exhausted", func(s *stage) {
		n := s.scene("n1")
		d := s.driven(n, nil, command("in-vain"))
		s.begin()
		n.fail(sick, "")
		s.until("the driver is told", func() bool { return d.gaveUp })
		expect(s, "told", s.saidTo(d), "False/False/Exhausted")
		s.pass(time.Hour)
		expect(s, "told", s.saidTo(d), "False/False/Exhausted")
		expect(s, "executions", len(n.executions), 1)
		n.repair()
		s.until("the request is gone", func() bool { return d.request() == nil })
		expect(s, "requests", d.asked, 1)
		expect(s, "state", s.state(n), recovered)
	}})
}

func TestADriverTellsToStop(t *testing.T) {
	tellAll(t, 6,
		story{"while a gate holds", func(s *stage) {
			n := s.scene("n1")
			s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.Paused = true })
			d := s.driven(n, nil, command("cure"))
			d.patience = 10 * time.Minute
			s.begin()
			n.fail(sick, v1alpha1.RemedyCommand)
			s.until("it waits", func() bool { return s.saidTo(d) == "True/Unknown/Paused" })
			s.until("it is told", func() bool { return d.gaveUp })
			expect(s, "told", s.saidTo(d), "False/False/Stopped")
			s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.Paused = false })
			s.pass(time.Hour)
			expect(s, "executions", n.ran(), []string{})
			n.repair()
			s.until("the request is gone", func() bool { return d.request() == nil })
		}},
		story{"between two steps", func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, nil, drainAndReboot(), command("cure"))
			d.patience = 2 * time.Minute
			s.begin()
			n.fail(sick, v1alpha1.RemedyCommand)
			s.until("it is told", func() bool { return d.gaveUp })
			s.pass(time.Hour)
			expect(s, "told", s.saidTo(d), "False/False/Stopped")
			n.repair()
			s.until("the request is gone", func() bool { return d.request() == nil })
			expect(s, "the cure never ran", len(n.executions), 1)
			s.until("it is back", func() bool { return s.service[n.name][len(s.service[n.name])-1] == inService })
		}},
	)
}

// A driver that dies leaves its request. Then all steps are taken, and no more.
func TestADriverThatDiesLeavesNothingBehind(t *testing.T) {
	tellAll(t, 8, story{"dead", func(s *stage) {
		n := s.scene("n1")
		d := s.driven(n, nil, command("cure"), park())
		s.begin()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.until("it is asked for", func() bool { return d.asked == 1 })
		d.dead = distant
		s.comesTo(n, v1alpha1.ReasonInMaintenance)
		s.pass(time.Hour)
		expect(s, "told", s.saidTo(d), "True/Unknown/InMaintenance")
		d.dead = time.Time{}
		s.until("the request is gone", func() bool { return d.request() == nil })
		expect(s, "when the request is gone, its node is in service", s.service[n.name], []string{inService, outByUs, inService})
		expect(s, "executions", n.ran(), []string{"cure"})
	}})
}

func TestADriverWithdrawsWhileAnActionRuns(t *testing.T) {
	tellAll(t, 6, story{"withdrawn", func(s *stage) {
		n := s.scene("n1")
		d := s.driven(n, nil, command("cure"))
		s.begin()
		n.acts = func(e *execution) bool { // it takes its time
			e.outcome = v1alpha1.ReasonSucceeded
			s.after(50*time.Second, e.finish)
			return true
		}
		n.fail(sick, v1alpha1.RemedyCommand)
		s.until("it runs", func() bool { return len(n.executions) == 1 })
		s.must(s.admin.Delete(s.ctx, d.request()))
		d.dead = distant
		s.until("the request is gone", func() bool { return d.request() == nil })
		expect(s, "nothing runs any more", n.executions[0].runs(), false)
	}})
}

// What people decide is theirs: the driver is not told to go on at once.
func TestAPersonDeletesARemediationThatWasAskedFor(t *testing.T) {
	tellAll(t, 6, story{"deleted", func(s *stage) {
		n := s.scene("n1")
		s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.Paused = true })
		d := s.driven(n, nil, command("cure"))
		s.begin()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.until("it waits", func() bool { return s.saidTo(d) == "True/Unknown/Paused" })
		s.remove(s.only(n))
		s.until("the driver is told", func() bool { return s.saidTo(d) == "False/Unknown/Deleted" })
		s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.Paused = false })
		s.pass(time.Hour)
		expect(s, "executions", n.ran(), []string{})
		n.repair()
		s.until("the request is gone", func() bool { return d.request() == nil })
	}})
}

func TestAnotherHealerHoldsWhatADriverAsksFor(t *testing.T) {
	tellAll(t, 8, story{"another one's Lease", func(s *stage) {
		n := s.scene("n1")
		d := s.driven(n, nil, reboot())
		d.leases = false
		s.begin()
		lease := healerLease(n.name)
		lease.Spec.HolderIdentity = new(string)
		*lease.Spec.HolderIdentity = "NodeHealthCheck-others"
		s.create(lease)
		n.fail(sick, v1alpha1.RemedyReboot)
		s.until("it waits", func() bool { return s.saidTo(d) == "True/Unknown/OtherHealer" })
		expect(s, "its node", s.service[n.name], []string{inService})
		s.remove(lease)
		s.until("the request is gone", func() bool { return d.asked == 1 && d.request() == nil })
		expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
	}})
}

// A request for a policy that does not fit is refused, so that its driver goes on.
func TestADriverAsksForWhatCannotBe(t *testing.T) {
	for reason, change := range map[string]func(*v1alpha1.RemedyPolicySpec){
		v1alpha1.ReasonPolicyHasMatch: func(p *v1alpha1.RemedyPolicySpec) {
			p.Match = []v1alpha1.ConditionMatch{{Type: "Other", Status: corev1.ConditionTrue}}
		},
		v1alpha1.ReasonPolicyNotFound: nil,
	} {
		tellAll(t, 8, story{reason, func(s *stage) {
			n := s.scene("n1")
			d := s.driven(n, change, command("cure"))
			if change == nil {
				d.policy = "another"
			}
			s.begin()
			n.fail(sick, "")
			s.until("it is told", func() bool { return d.gaveUp })
			expect(s, "told", s.saidTo(d), "False/False/"+reason)
			n.repair()
			s.until("the request is gone", func() bool { return d.request() == nil })
		}})
	}
}
