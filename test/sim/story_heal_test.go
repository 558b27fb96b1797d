package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/runner/remedy"
)

const recovered = v1alpha1.ReasonRecovered

func TestACommandHealsANode(t *testing.T) {
	tellAll(t, 6, story{"heal", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, command("cure"), command("more"))
		s.begin()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.ends(n)
		s.expectHealed(n, "cure")
		expect(s, "actions", len(s.actions(n)), 1)
		expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
	}})
}

func TestAPersonStartsOverOnceWhenNothingHasHelped(t *testing.T) {
	tellAll(t, 6, story{"retry", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, command("try"))
		s.begin()
		n.fail(sick, "")
		s.comesTo(n, v1alpha1.ReasonExhausted)
		s.ends(n)
		expect(s, "executions", n.ran(), []string{"try"})
		s.note(n, v1alpha1.RetryAnnotation, "1")
		s.until("it has started over", func() bool { return s.only(n).Status.Retried == "1" })
		s.until("it ran again", func() bool { return len(n.executions) == 2 })
		s.ends(n)
		s.note(n, v1alpha1.RetryAnnotation, "1")
		s.pass(time.Hour)
		expect(s, "executions", n.ran(), []string{"try", "try"})
		expect(s, "history", s.records(n), []string{"1/1 Succeeded", "1/1 Succeeded"})
		history := s.only(n).Status.History
		expect(s, "of a former try", []bool{history[0].Former, history[len(history)-1].Former}, []bool{true, false})
	}})
}

func TestAFaultThatComesBackHasToHoldBeforeTheNextStep(t *testing.T) {
	tellAll(t, 6, story{"relapse", func(s *stage) {
		n := s.scene("n1")
		s.policy(func(p *v1alpha1.RemedyPolicySpec) {
			p.Match[0].For, p.Recovery.HealthyFor = duration(5*time.Minute), duration(10*time.Minute)
		}, command("first"), command("second"))
		s.begin()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.comesTo(n, v1alpha1.ReasonHealing)
		s.pass(9 * time.Minute)
		n.fail(sick, "")
		s.comesTo(n, "Verifying/"+gates.ReasonNoEvidence)
		s.pass(time.Minute)
		delete(n.faults, sick)
		s.comesTo(n, v1alpha1.ReasonHealing)
		expect(s, "executions", n.ran(), []string{"first"})
		s.pass(time.Minute)
		again := time.Now()
		n.fail(sick, "")
		s.until("the second step ran", func() bool { return len(n.executions) == 2 })
		expect(s, "it held for 5 min", n.executions[1].began.Sub(again) >= 5*time.Minute, true)
	}})
}

func TestAStepThatDoesNotHelpIsFollowedByTheNext(t *testing.T) {
	tellAll(t, 12, story{"escalate", func(s *stage) {
		n := s.scene("n1")
		twice := command("first")
		twice.Attempts = 2
		s.policy(nil, twice, command("second"))
		s.begin()
		n.fail(sick, "")
		s.comesTo(n, v1alpha1.ReasonExhausted)
		s.ends(n) // an exhausted remediation holds no permit
		expect(s, "ended", s.only(n).Ended(), false)
		expect(s, "executions", n.ran(), []string{"first", "first", "second"})
		expect(s, "history", s.records(n), []string{"1/1 Succeeded", "1/2 Succeeded", "2/1 Succeeded"})
		n.repair()
		s.back(n)
		expect(s, "state", s.state(n), recovered)
	}})
}

// The unit hangs again after its restart where a command is what helps.
func TestAUnitIsRestartedAndWhereThatIsInVainTheNextStepIsTaken(t *testing.T) {
	for cure, ran := range map[string][]string{
		v1alpha1.RemedyRestartUnit: {"runtime.service"},
		v1alpha1.RemedyCommand:     {"runtime.service", "second"},
	} {
		tellAll(t, 6, story{"cured by " + cure, func(s *stage) {
			n := s.scene("n1")
			s.policy(nil, restart("runtime.service"), command("second"))
			s.begin()
			n.fail(sick, cure)
			s.ends(n)
			s.expectHealed(n, ran...)
			expect(s, "actions", len(s.actions(n)), len(ran))
			expect(s, "first", s.records(n)[0], "1/1 Succeeded")
		}})
	}
}

// noProgram says that a program is not there.
func noProgram(order remedy.Order) *remedy.Outcome {
	if order.Step.Command == nil || order.Step.Command.Argv[0] != "/bin/missing" {
		return nil
	}
	return &remedy.Outcome{Reason: v1alpha1.ReasonStartFailed, Message: "there is no missing"}
}

// heldAtStep1 waits until a step that can't be executed has been tried so often, and
// holds.
func (s *stage) heldAtStep1(n *node, reason string, tries int) {
	s.until("it holds", func() bool {
		return s.state(n) == "Waiting/"+reason && len(s.records(n)) == tries && len(s.permits()) == 0
	})
	r := s.only(n)
	expect(s, "step", []int32{r.Status.Step, r.Status.Attempt}, []int32{1, 1})
	for _, record := range r.Status.History {
		expect(s, "record", []any{record.Step, record.Attempt, record.Outcome, record.Executed}, []any{1, 1, reason, false})
	}
}

func TestAWrongPathHoldsUntilTheProgramIsThere(t *testing.T) {
	for name, lacks := range map[string]func(remedy.Order) *remedy.Outcome{
		v1alpha1.ReasonStartFailed: noProgram,
		v1alpha1.ReasonUnitNotFound: func(remedy.Order) *remedy.Outcome {
			return &remedy.Outcome{Reason: v1alpha1.ReasonUnitNotFound, Message: "there is no such unit"}
		},
	} {
		tellAll(t, 6, story{name, func(s *stage) {
			n := s.scene("n1")
			n.lacks = lacks
			s.policy(nil, command("missing"), command("second"))
			s.begin()
			n.fail(sick, v1alpha1.RemedyCommand)
			s.heldAtStep1(n, name, 1)
			s.heldAtStep1(n, name, 3)
			expect(s, "executions", n.ran(), []string{})
			n.lacks = nil
			s.ends(n)
			s.expectHealed(n, "missing")
			for _, a := range s.actions(n) {
				expect(s, "step", a.Spec.Step, 1)
			}
		}})
	}
}

func TestAWrongPathHoldsUntilThePolicyIsMendedAndAPersonStartsOver(t *testing.T) {
	tellAll(t, 12, story{"mended", func(s *stage) {
		n := s.scene("n1")
		n.lacks = noProgram
		s.policy(nil, command("missing"), command("second"))
		s.begin()
		n.fail(sick, v1alpha1.RemedyCommand)
		s.heldAtStep1(n, v1alpha1.ReasonStartFailed, 4)
		expect(s, "message", strings.Contains(blockedMessage(s.only(n)), "missing"), true)

		s.edit(func(p *v1alpha1.RemedyPolicySpec) { p.Steps[0] = command("cure") })
		s.comesTo(n, "Waiting/"+v1alpha1.ReasonSuperseded)
		s.pass(time.Hour)
		expect(s, "state", s.state(n), "Waiting/"+v1alpha1.ReasonSuperseded) // what its policy said when it started, or nothing
		expect(s, "executions", n.ran(), []string{})

		name := s.names(n)[0]
		s.drop(name)
		s.buried(n, name)
		s.pass(time.Minute)
		s.drop(name + "-deleted")
		s.until("another one", func() bool { return len(s.names(n)) == 1 && s.names(n)[0] != name+"-deleted" })
		s.ends(n)
		s.expectHealed(n, "cure")
	}})
}

func blockedMessage(r *v1alpha1.Remediation) string {
	for _, c := range r.Status.Conditions {
		if c.Type == v1alpha1.RemediationBlocked {
			return c.Message
		}
	}
	return ""
}

func TestWithoutEvidenceNothingMoreIsDone(t *testing.T) {
	tellAll(t, 12, story{"evidence", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, command("first"), command("second"))
		s.begin()
		n.fail(sick, "")
		s.until("it acts", func() bool { return len(n.executions) == 1 })
		n.blind = true // from here on nobody has seen anything
		s.comesTo(n, "Verifying/"+gates.ReasonNoEvidence)
		s.until("it holds no permit", func() bool { return len(s.permits()) == 0 })
		s.pass(time.Hour)
		expect(s, "executions", n.ran(), []string{"first"})
		n.repair()
		n.blind = false
		s.ends(n)
		s.expectHealed(n, "first")
	}})
}
