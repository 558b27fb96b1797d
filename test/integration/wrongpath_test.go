//go:build integration

package integration

import (
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// missing is a step whose program is not there.
func (s *scene) missing() v1alpha1.Step {
	step := shell("")
	step.Command.Argv = []string{s.path("program")}
	return step
}

// provide puts the program there, which heals the node.
func (s *scene) provide() {
	script := fmt.Sprintf("#!/bin/sh\necho ran >> %s\nrm -f %s\n", s.path("runs"), s.path("sick"))
	draft := s.path("draft")
	s.Expect(os.WriteFile(draft, []byte(script), 0o700)).To(Succeed())
	s.Expect(os.Rename(draft, s.path("program"))).To(Succeed())
}

// expectHeldAtStep1 expects that all tries so far were of the first attempt of step
// 1, not executed, and hold.
func (s *scene) expectHeldAtStep1() {
	s.t.Helper()
	r := s.remediations(s.nodes[0])[0]
	s.Expect([]int32{r.Status.Step, r.Status.Attempt}).To(Equal([]int32{1, 1}))
	for _, record := range r.Status.History {
		s.Expect([]any{record.Step, record.Attempt, record.Outcome, record.Executed}).
			To(Equal([]any{int32(1), int32(1), v1alpha1.ReasonStartFailed, false}))
	}
	for _, action := range s.actions(s.nodes[0]) {
		s.Expect(action.Spec.Step).To(BeEquivalentTo(1))
	}
}

// wrongPath: the program of the first step is missing, until a person puts it there.
var wrongPath = story{
	name: "missing",
	begin: func(s *scene) {
		s.policy(s.missing(), shell("echo ran >> "+s.path("second")))
		s.touch("sick")
		s.detect(s.nodes[0], "sick")
		s.startRunners()
	},
	goOn: func(s *scene) bool {
		if s.state(s.nodes[0]) != "Waiting/"+v1alpha1.ReasonStartFailed || len(s.permits()) > 0 {
			return s.over(s.nodes[0])
		}
		tries := len(s.remediations(s.nodes[0])[0].Status.History)
		s.expectHeldAtStep1()
		enough := 3
		if s.clock == nil {
			enough = 1 // the next is a minute away
		}
		if tries >= enough && s.once("provided") {
			s.provide()
		}
		if s.once(fmt.Sprintf("try-%d", tries)) {
			s.leap(2 * time.Minute)
		}
		return false
	},
	midway: func(s *scene) bool { return s.state(s.nodes[0]) == "Waiting/"+v1alpha1.ReasonStartFailed },
	expect: func(s *scene) {
		s.Expect(s.state(s.nodes[0])).To(Equal(v1alpha1.ReasonRecovered))
		history := s.history()
		last := len(history) - 1
		s.Expect(history[:last]).To(HaveEach("1/1 " + v1alpha1.ReasonStartFailed))
		s.Expect(history[last]).To(Equal("1/1 " + v1alpha1.ReasonSucceeded))
		s.Expect(s.lines("runs")).To(Equal(1), "executions")
		s.Expect(s.lines("second")).To(BeZero())
		for _, action := range s.actions(s.nodes[0]) {
			s.Expect(action.Spec.Step).To(BeEquivalentTo(1))
		}
	},
}

func TestAWrongPathHoldsUntilThePolicyIsMendedAndAPersonStartsOver(t *testing.T) {
	t.Parallel()
	s := newSceneApart(t, "mended", 1, "1")
	s.clock = newLeaping()
	node := s.nodes[0]
	policy := s.policy(s.missing(), shell("echo ran >> "+s.path("second")))
	s.touch("sick")
	s.detect(node, "sick")
	s.startRunners()
	s.startController()
	for tries := 1; tries <= 4; tries++ {
		s.Eventually(func() int {
			if len(s.remediations(node)) == 0 {
				return 0
			}
			return len(s.history())
		}).Should(Equal(tries))
		s.Eventually(s.state).WithArguments(node).Should(Equal("Waiting/" + v1alpha1.ReasonStartFailed))
		s.expectHeldAtStep1()
		s.Expect(blockedMessage(&s.remediations(node)[0])).To(ContainSubstring(s.path("program")))
		if tries < 4 {
			s.leap(5 * time.Minute)
		}
	}

	policy.Spec.Steps[0] = shell(fmt.Sprintf("echo ran >> %s; rm -f %s", s.path("runs"), s.path("sick")))
	s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	s.Eventually(s.state).WithArguments(node).Should(Equal("Waiting/" + v1alpha1.ReasonSuperseded))
	s.leap(time.Hour)
	s.settle(node)
	s.Expect(s.state(node)).To(HavePrefix("Waiting/"), "it does what its policy said when it started, or nothing")
	s.expectHeldAtStep1()
	s.Expect(s.lines("runs")).To(BeZero())

	name := s.remediations(node)[0].Name
	s.deleteRemediation(name)
	s.Eventually(s.names).WithArguments(node).Should(ConsistOf(name + "-deleted"))
	s.deleteRemediation(name + "-deleted")
	s.Eventually(s.names).WithArguments(node).Should(And(Not(BeEmpty()), Not(ContainElement(name+"-deleted"))))
	s.Eventually(func() bool { return s.over(node) }).Should(BeTrue())
	s.expectHealedOnce()
	s.Expect(s.lines("second")).To(BeZero())
}

func blockedMessage(r *v1alpha1.Remediation) string {
	for _, c := range r.Status.Conditions {
		if c.Type == v1alpha1.RemediationBlocked {
			return c.Message
		}
	}
	return ""
}
