package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/remediation"
)

const releaseRequired = v1alpha1.ReasonHealing + "/" + remediation.ReasonReleaseRequired

func manual(p *v1alpha1.RemedyPolicySpec) { p.Recovery.Release = v1alpha1.ReleaseManual }

// sickAndParked makes a node that is out for a policy, whose change may be nil.
func (s *stage) sickAndParked(change func(*v1alpha1.RemedyPolicySpec)) *node {
	n := s.scene("n1")
	s.policy(change, park())
	s.begin()
	n.fail(sick, "")
	s.parked(n)
	return n
}

func TestAPersonHasTheLastWordWhereThePolicySaysSo(t *testing.T) {
	tellAll(t, 10, story{"manual", func(s *stage) {
		n := s.sickAndParked(manual)
		n.repair()
		s.comesTo(n, releaseRequired)
		s.pass(time.Hour)
		expect(s, "service", n.service(), outByUs)
		n.fail(sick, "") // again: nothing else is done
		s.comesTo(n, v1alpha1.ReasonInMaintenance)
		n.repair()
		s.comesTo(n, releaseRequired)
		s.release(s.maintenances(n)[0])
		s.back(n)
		expectOneOf(s, "state", s.state(n), recovered, v1alpha1.ReasonReleased)
		s.expectOutOnce(n)
	}})
}

func TestDeletingAPolicysMaintenanceGivesASickNodeBack(t *testing.T) {
	released := func(s *stage, n *node) {
		s.release(s.maintenances(n)[0])
		s.back(n)
		expect(s, "state", s.state(n), v1alpha1.ReasonReleased)
		s.pass(time.Hour)
		expect(s, "of one incident", len(s.remediations(n)), 1)
		s.expectOutOnce(n)
		n.repair()
		s.pass(5 * time.Minute)
		n.fail(sick, "")
		s.until("the next incident is another one", func() bool { return len(s.remediations(n)) == 2 })
	}
	tellAll(t, 12, story{"parked", func(s *stage) { released(s, s.sickAndParked(nil)) }}, story{"draining", func(s *stage) {
		n := s.draining(nil)
		released(s, n)
		expect(s, "executions", n.ran(), []string{})
	}})
}

// draining makes a node that is being drained for a reboot, by a pod that does not end.
func (s *stage) draining(change func(*v1alpha1.RemedyPolicySpec)) *node {
	n := s.scene("n1")
	s.slowPod(n, "first")
	s.policy(change, drainAndReboot())
	s.begin()
	n.fail(sick, v1alpha1.RemedyReboot)
	s.until("it drains", func() bool { return s.terminating("first") })
	return n
}

func TestDeletingTheRemediationOfAParkedNode(t *testing.T) {
	// Without deaths: a controller that starts after the tombstone is gone does not know
	// whose the maintenance was, and leaves it to a person.
	tellAll(t, 1000, story{"and its tombstone starts over", func(s *stage) {
		n := s.sickAndParked(nil)
		former, held := s.only(n), s.maintenances(n)
		s.drop(former.Name)
		s.buried(n, former.Name)
		s.pass(time.Minute)
		s.drop(former.Name + "-deleted")
		s.until("it is out anew", func() bool {
			return len(s.names(n)) == 1 && s.only(n).UID != former.UID && s.state(n) == v1alpha1.ReasonInMaintenance &&
				len(s.maintenances(n)) == 1 && !slices.Equal(s.maintenances(n), held)
		})
	}})
	tellAll(t, 12, story{"that is sick leaves it out", func(s *stage) {
		n := s.sickAndParked(nil)
		name := s.names(n)[0]
		s.drop(name)
		s.buried(n, name)
		expect(s, "state", s.state(n), v1alpha1.ReasonDeleted)
		n.repair()
		s.pass(time.Hour)
		expect(s, "service", n.service(), outByUs) // nobody decides but a person
		expect(s, "maintenances", len(s.maintenances(n)), 1)
		expect(s, "permits", s.permits(), []string{})
		n.fail(sick, "") // another incident finds it held
		s.until("it waits", func() bool { return s.open(n) == "Waiting/"+gates.ReasonInMaintenance })
		s.release(s.maintenances(n)[0])
		s.until("it is out", func() bool { return s.open(n) == v1alpha1.ReasonInMaintenance })
		n.repair()
		s.until("it is back", func() bool { return n.service() == inService })
	}}, story{"that is well gives it back", func(s *stage) {
		n := s.sickAndParked(manual)
		n.repair()
		s.comesTo(n, releaseRequired)
		name := s.names(n)[0]
		s.drop(name)
		s.buried(n, name)
		s.back(n)
		s.expectOutOnce(n)
	}})
}

func TestADrainStops(t *testing.T) {
	healthyForHours := func(p *v1alpha1.RemedyPolicySpec) { p.Recovery.HealthyFor = duration(3 * time.Hour) }
	for _, test := range []struct {
		name          string
		befalls, goOn func(*stage, *node)
	}{
		{
			"deleted",
			func(s *stage, n *node) { s.drop(s.names(n)[0]) },
			func(s *stage, n *node) { s.release(s.maintenances(n)[0]) },
		},
		{"recovered", func(_ *stage, n *node) { n.repair() }, func(*stage, *node) {}},
		{
			"paused",
			func(s *stage, _ *node) { s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.Paused = true }) },
			func(s *stage, n *node) {
				s.letGo("first")
				s.letGo("later")
				s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.Paused = false })
				s.until("it reboots", func() bool { return len(n.executions) == 1 })
				s.comesTo(n, v1alpha1.ReasonHealing)
				expect(s, "pods", s.podsOn(n), []string{})
			},
		},
	} {
		tellAll(t, 15, story{test.name, func(s *stage) {
			n := s.draining(healthyForHours)
			test.befalls(s, n)
			s.until("nobody wants the drain", func() bool { return s.drainOf(n) == v1alpha1.ReasonDrainNotWanted })
			s.pod(n, "later")
			s.pass(30 * time.Minute)
			expect(s, "the pod ends", s.terminating("later"), false)
			expect(s, "service", n.service(), outByUs)
			expect(s, "executions", n.ran(), []string{})
			test.goOn(s, n)
			s.until("it is back", func() bool { return n.service() == inService && len(s.maintenances(n)) == 0 })
			s.expectOutOnce(n)
		}})
	}
}

func TestANodeThatIsCreatedAnewInMaintenanceIsAnotherOne(t *testing.T) {
	for name, steps := range map[string][]v1alpha1.Step{"parked": {park()}, "draining": {drainAndReboot()}, "rebooting": {drainAndReboot(), park()}} {
		tellAll(t, 15, story{name, func(s *stage) {
			n := s.scene("n1")
			if name == "draining" {
				s.slowPod(n, "web")
			}
			n.staysOff()
			s.policy(nil, steps...)
			s.begin()
			n.fail(sick, "")
			switch name {
			case "parked":
				s.parked(n)
			case "draining":
				s.comesTo(n, v1alpha1.ReasonTakingOut)
			case "rebooting":
				s.until("it reboots", func() bool { return len(n.executions) == 1 })
			}
			s.until("it is out", func() bool { return n.service() == outByUs })
			first := s.names(n)[0]
			n.powerOff()
			n.blind = true
			s.people.replaced[n.name], s.people.limited = true, time.Now()
			s.remove(n.object().DeepCopy())
			s.register(n, map[string]string{"rack": "r1"})
			n.repair()
			n.powerOn()
			s.until("nobody holds it", func() bool { return len(s.maintenances(n)) == 0 && len(s.permits()) == 0 })
			s.until("the first is over", func() bool { return s.countEnded(n) == len(s.remediations(n)) })
			s.pass(10 * time.Minute)
			expect(s, "service", n.service(), inService)
			expect(s, "service", s.service[n.name], []string{inService, outByUs, nodeGone, inService})
			n.blind, n.acts = false, nil
			n.fail(sick, "")
			s.until("the new node's incident is one of its own", func() bool {
				return slices.ContainsFunc(s.remediations(n), func(r *v1alpha1.Remediation) bool { return r.Name != first && r.Status.Maintenance != "" })
			})
		}})
	}
}

// The controller sees the maintenance only when it is being deleted, and its permit is
// another's.
func TestANodeIsNotTakenOutForAMaintenanceThatIsDeletedBefore(t *testing.T) {
	tellAll(t, 4, story{"unseen", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, park())
		s.begin()
		for _, p := range s.leaders() {
			s.stall(p, &v1alpha1Maintenance, 5*time.Minute)
		}
		n.fail(sick, "")
		s.until("it is to be taken out", func() bool { return len(s.maintenances(n)) > 0 })
		s.release(s.maintenances(n)[0])
		s.until("it is given back", func() bool { return len(s.maintenances(n)) == 0 })
		if !s.died { // one that starts anew sees it at once
			expect(s, "service", s.service[n.name], []string{inService})
		}
	}})
}
