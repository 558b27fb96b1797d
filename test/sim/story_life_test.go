package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// buried waits until the node has nothing but the tombstone of this remediation.
func (s *stage) buried(n *node, name string) {
	s.until(name+" has a tombstone", func() bool {
		return slices.Equal(s.names(n), []string{name + "-deleted"}) && s.only(n).Ended() && len(s.permits()) == 0
	})
}

func TestADeletedRemediationIsNotStartedAgainUntilItsTombstoneIsDeleted(t *testing.T) {
	tellAll(t, 8, story{"tombstone", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, command("try"))
		s.begin()
		n.fail(sick, "")
		s.comesTo(n, v1alpha1.ReasonExhausted)
		name := s.names(n)[0]
		s.drop(name)
		s.buried(n, name)
		expect(s, "state", s.state(n), v1alpha1.ReasonDeleted)
		expect(s, "history", s.records(n), []string{"1/1 Succeeded"}) // the gates still count what was done
		s.pass(time.Hour)
		expect(s, "names", s.names(n), []string{name + "-deleted"})
		expect(s, "actions", len(s.actions(n)), 0)
		s.drop(name + "-deleted")
		s.until("it starts over", func() bool { return len(n.executions) == 2 })
	}})
}

func TestARemediationDeletedAsSoonAsItActsLeavesATombstoneAndNoPermit(t *testing.T) {
	tellAll(t, 6, story{"deleted", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, command("try"))
		s.begin()
		n.fail(sick, "")
		s.until("it acts", func() bool { r := s.only(n); return r != nil && r.Status.Action != "" })
		name := s.names(n)[0]
		s.drop(name)
		s.buried(n, name)
		s.until("its actions are gone", func() bool { return len(s.actions(n)) == 0 })
		expect(s, "at most one execution", len(n.executions) <= 1, true)
	}})
}

func TestARemediationDeletedAfterItsConditionFlappedIsNotStartedAgain(t *testing.T) {
	tellAll(t, 12, story{"flapped", func(s *stage) {
		n := s.scene("n1")
		s.excluded(n, true)
		s.policy(func(p *v1alpha1.RemedyPolicySpec) { p.Recovery.HealthyFor = duration(time.Hour) }, command("try"))
		s.begin()
		n.fail(sick, "")
		s.comesTo(n, "Waiting/"+gates.ReasonExcluded)
		name := s.names(n)[0]
		n.repair()
		s.comesTo(n, v1alpha1.ReasonHealing)
		n.fail(sick, "")
		s.comesTo(n, "Waiting/"+gates.ReasonExcluded)
		s.drop(name)
		s.buried(n, name)
		s.pass(time.Hour)
		expect(s, "names", s.names(n), []string{name + "-deleted"})
	}})
}

// holdCommands lets commands last until what is returned is called.
func (n *node) holdCommands() (release func()) {
	var held []*execution
	holds := true
	n.acts = func(e *execution) bool {
		if e.remedy != v1alpha1.RemedyCommand || !holds {
			return false
		}
		e.outcome = v1alpha1.ReasonSucceeded
		held = append(held, e)
		n.world.after(e.order.Step.Timeout.Duration, func() {
			if e.runs() {
				e.outcome = v1alpha1.ReasonTimedOut
				e.finish()
			}
		})
		return true
	}
	return func() {
		holds = false
		for _, e := range held {
			e.finish()
		}
	}
}

func TestARemediationDeletedWhileItsCommandRunsWaitsForItsEnd(t *testing.T) {
	tellAll(t, 8, story{"again", func(s *stage) {
		n := s.scene("n1")
		long := command("try")
		long.Timeout = duration(30 * time.Minute)
		release := n.holdCommands()
		s.policy(nil, long)
		s.begin()
		n.fail(sick, "")
		s.until("it runs", func() bool { return len(n.executions) == 1 })
		name := s.names(n)[0]
		s.drop(name)
		s.until("it waits", func() bool { return strings.HasSuffix(s.state(n), "/StillRunning") })
		s.pass(10 * time.Minute)
		expect(s, "names", s.names(n), []string{name})
		expect(s, "permits", s.permits(), []string{"n1"})
		release()
		s.buried(n, name)
		expect(s, "executions", n.ran(), []string{"try"})
		s.until("its actions are gone", func() bool { return len(s.actions(n)) == 0 })
	}})
}

func TestARemediationWhoseNodeIsGoneIsDeletedWithoutATrace(t *testing.T) {
	tellAll(t, 12, story{"leaves", func(s *stage) {
		n := s.scene("n1")
		s.excluded(n, true)
		s.policy(nil, command("try"))
		s.begin()
		n.fail(sick, "")
		s.comesTo(n, "Waiting/"+gates.ReasonExcluded)
		for _, p := range s.leaders() {
			s.world.end(p)
		}
		n.powerOff()
		s.people.replaced[n.name] = true
		s.remove(n.object().DeepCopy())
		s.drop(s.names(n)[0])
		s.startController()
		s.until("there is no trace", func() bool { return len(s.names(n)) == 0 })
	}})
}

func TestADeletedNodeEndsItsRemediation(t *testing.T) {
	tellAll(t, 12, story{"gone", func(s *stage) {
		n := s.scene("n1")
		n.deaf = true
		s.policy(nil, command("try"))
		s.begin()
		n.fail(sick, "")
		s.until("it waits for a runner", func() bool { return len(s.actions(n)) == 1 })
		n.powerOff()
		s.people.replaced[n.name] = true
		s.remove(n.object().DeepCopy())
		s.comesTo(n, v1alpha1.ReasonNodeGone)
		s.until("permits are back", func() bool { return len(s.permits()) == 0 })
	}})
}

func TestALostNodeActionIsNotRepeatedWhileItMayRun(t *testing.T) {
	tellAll(t, 12, story{"lost", func(s *stage) {
		n := s.scene("n1")
		n.deaf = true
		s.policy(nil, command("try"))
		s.begin()
		n.fail(sick, "")
		s.comesTo(n, v1alpha1.ReasonActing)
		s.people.meddled = time.Now()
		expires := s.actions(n)[0].Spec.ExpiresAt.Add(time.Minute)
		s.remove(s.actions(n)[0].DeepCopy())
		s.comesTo(n, "Acting/StillRunning")
		n.deaf = false
		n.startRunner()
		s.until("it may not run any more", func() bool {
			if !time.Now().Before(expires) {
				return true
			}
			expect(s, "permits", s.permits(), []string{"n1"})
			expect(s, "actions", len(s.actions(n)), 0)
			return false
		})
	}})
}

func TestOnlySoManyEndedRemediationsOfANodeAreKept(t *testing.T) {
	tellAll(t, 15, story{"history", func(s *stage) {
		s.profile.historyLimit = 1
		n := s.scene("n1")
		s.policy(func(p *v1alpha1.RemedyPolicySpec) {
			p.MaxRemediations = &v1alpha1.Rate{Count: 10, Per: duration(time.Hour)} // needs them for an hour
		}, command("cure"))
		s.begin()
		incident := func(ended int) {
			n.fail(sick, v1alpha1.RemedyCommand)
			s.until("it is over", func() bool { return s.countEnded(n) == ended })
		}
		incident(1)
		first := s.names(n)[0]
		incident(2)
		expect(s, "of the first", slices.Contains(s.names(n), first), true)
		s.pass(2 * time.Hour)
		n.fail(sick, v1alpha1.RemedyCommand)
		s.until("only the last is left", func() bool { return len(s.names(n)) == 1 && s.countEnded(n) == 1 && s.names(n)[0] != first })
		s.until("actions go with their remediation", func() bool { return len(s.actions(n)) == 1 })
	}})
}
