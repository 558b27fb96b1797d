package sim

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

func TestAPolicyThatChangesHoldsWhatItStartedAndTheNodeIsStillGivenBack(t *testing.T) {
	for name, change := range map[string]func(*stage){
		"edited": func(s *stage) {
			s.edit(func(p *v1alpha1.RemedyPolicySpec) { p.Steps = []v1alpha1.Step{command("new")} })
		},
		"deleted": func(s *stage) { s.deletePolicyOfStory() },
	} {
		tellAll(t, 6, story{name + " while a step is executed", func(s *stage) {
			n := s.scene("n1")
			release := n.holdCommands()
			s.policy(nil, command("first"), command("second"))
			s.begin()
			n.fail(sick, "")
			s.until("it runs", func() bool { return len(n.executions) == 1 })
			change(s)
			release()
			s.comesTo(n, "Waiting/"+v1alpha1.ReasonSuperseded)
			s.pass(time.Hour)
			expect(s, "state", s.state(n), "Waiting/"+v1alpha1.ReasonSuperseded)
			n.repair()
			s.ends(n)
			s.expectHealed(n, "first")
			expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
		}}, story{name + " before anything is done", func(s *stage) {
			n := s.scene("n1")
			s.excluded(n, true)
			s.policy(nil, command("old"))
			s.begin()
			n.fail(sick, "")
			s.comesTo(n, "Waiting/"+gates.ReasonExcluded)
			change(s)
			s.excluded(n, false)
			s.comesTo(n, "Waiting/"+v1alpha1.ReasonSuperseded)
			n.repair()
			s.ends(n)
			expect(s, "state", s.state(n), v1alpha1.ReasonRecoveredByItself)
			expect(s, "executions", n.ran(), []string{})
		}})
	}
}

// deletePolicyOfStory lets a person delete the policy.
func (s *stage) deletePolicyOfStory() {
	s.people.edited = time.Now()
	for _, p := range stored[*v1alpha1.RemedyPolicy](s.oracles) {
		s.remove(p.DeepCopy())
	}
}

func TestAnActionWhosePolicyIsEditedBeforeItsClaimIsNotExecutedUntilTheStepIsBack(t *testing.T) {
	tellAll(t, 8, story{"unclaimed", func(s *stage) {
		n := s.scene("n1")
		n.deaf = true
		s.policy(nil, command("cure"))
		s.begin()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.until("an action waits", func() bool { return len(s.actions(n)) == 1 })
		s.edit(func(p *v1alpha1.RemedyPolicySpec) { p.Steps = []v1alpha1.Step{command("new")} })
		n.deaf = false
		n.startRunner()
		s.until("it is superseded", func() bool {
			return s.state(n) == "Waiting/"+v1alpha1.ReasonSuperseded && len(s.permits()) == 0
		})
		s.pass(time.Hour)
		expect(s, "executions", n.ran(), []string{})
		s.edit(func(p *v1alpha1.RemedyPolicySpec) { p.Steps = []v1alpha1.Step{command("cure")} })
		s.ends(n)
		s.expectHealed(n, "cure")
	}})
}

func TestAnActionBeforeWhoseClaimTheClusterIsPausedIsExecutedAfterIt(t *testing.T) {
	tellAll(t, 8, story{"unclaimed", func(s *stage) {
		n := s.scene("n1")
		n.deaf = true
		s.policy(nil, command("cure"))
		s.begin()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.until("an action waits", func() bool { return len(s.actions(n)) == 1 })
		s.endLeaders() // no controller cancels it
		pause := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget}}
		pause.Spec.Paused = true
		s.create(pause)
		n.deaf = false
		n.startRunner()
		s.until("it has finished", func() bool { return s.actions(n)[0].Finished() != nil })
		s.oneLeader()
		s.until("it is held", func() bool { return s.state(n) == "Waiting/"+gates.ReasonPaused && len(s.permits()) == 0 })
		s.pass(time.Hour)
		expect(s, "executions", n.ran(), []string{})
		s.remove(pause)
		s.ends(n)
		s.expectHealed(n, "cure")
	}})
}

func TestTwoConditionsOfOnePolicyAreOneRemediation(t *testing.T) {
	tellAll(t, 15, story{"two", func(s *stage) {
		s.scene("n1", "n2", "n3")
		s.policy(func(p *v1alpha1.RemedyPolicySpec) {
			p.Match = append(p.Match, v1alpha1.ConditionMatch{Type: "DiskUnhealthy", Status: "True"})
		}, command("cure"))
		s.begin()
		for _, n := range s.nodes {
			n.fail("DiskUnhealthy", v1alpha1.RemedyCommand)
			n.fail(sick, v1alpha1.RemedyCommand)
		}
		for _, n := range s.nodes {
			s.ends(n)
			expect(s, "state", s.state(n), recovered)
			expect(s, "executions", n.ran(), []string{"cure"})
		}
	}})
}

// The condition comes and goes, never for long enough to be recovered, before it goes for
// good.
func TestANodeWhoseConditionFlapsHasNotRecovered(t *testing.T) {
	tellAll(t, 6, story{"flapping", func(s *stage) {
		n := s.scene("n1")
		try := command("try")
		try.VerifyTimeout = duration(time.Hour)
		s.policy(func(p *v1alpha1.RemedyPolicySpec) { p.Recovery.HealthyFor = duration(10 * time.Minute) }, try)
		s.begin()
		n.fail(sick, "")
		s.until("it ran", func() bool { return len(n.executions) == 1 && n.executions[0].done })
		for range 4 {
			n.repair()
			s.pass(5 * time.Minute)
			expect(s, "ended", s.only(n).Ended(), false)
			n.fail(sick, "")
			s.pass(5 * time.Minute)
			expect(s, "ended", s.only(n).Ended(), false)
		}
		n.repair()
		well := time.Now()
		s.ends(n)
		s.expectHealed(n, "try")
		expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
		expect(s, "well for 10 min", time.Since(well) >= 10*time.Minute, true)
	}})
}
