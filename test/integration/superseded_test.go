//go:build integration

package integration

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// newNodeWithTwoSteps makes the node sick, with a first step that takes until the file
// "hold" is removed, and a second.
func (s *scene) newNodeWithTwoSteps() {
	s.policy(
		shell(fmt.Sprintf("echo ran >> %s; while [ -e %s ]; do sleep 0.1; done", s.path("runs"), s.path("hold"))),
		shell("echo ran >> "+s.path("second")),
	)
	s.touch("sick")
	s.touch("hold")
	s.detect(s.nodes[0], "sick")
	s.startRunners()
}

// interfere lets a person change the policy while the first step is executed, which
// does not help; later the node recovers, for whatever reason.
func (s *scene) interfere(change func()) (over bool) {
	if s.lines("runs") == 1 && s.once("changed") {
		change()
		s.remove("hold")
	}
	if s.state(s.nodes[0]) == "Waiting/"+v1alpha1.ReasonSuperseded && s.since("superseded") > 700*time.Millisecond {
		s.setSick(false)
	}
	return s.over(s.nodes[0])
}

// expectOnlyTheFirstStep expects that what had begun was finished and remembered,
// that nothing else was executed, and that the node was given back.
func (s *scene) expectOnlyTheFirstStep() {
	s.t.Helper()
	s.Expect(s.exists("superseded")).To(BeTrue(), "it was shown as superseded")
	s.Expect(s.state(s.nodes[0])).To(Equal(v1alpha1.ReasonRecovered))
	s.expectHistory("1/1 Succeeded")
	s.Expect(s.actions(s.nodes[0])).To(HaveLen(1))
	s.Expect(s.lines("runs")).To(Equal(1), "executions")
	s.Expect(s.lines("second") + s.lines("new")).To(BeZero())
}

// policyEdited: all steps of the policy are replaced while the first is executed.
var policyEdited = story{
	name:  "edit",
	begin: (*scene).newNodeWithTwoSteps,
	goOn: func(s *scene) bool {
		return s.interfere(func() {
			policy := &v1alpha1.RemedyPolicy{}
			s.Expect(s.client.Get(s.ctx, client.ObjectKey{Name: s.name}, policy)).To(Succeed())
			policy.Spec.Steps = []v1alpha1.Step{shell("echo ran >> " + s.path("new"))}
			s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
		})
	},
	midway: func(s *scene) bool { return s.lines("runs") == 1 },
	expect: (*scene).expectOnlyTheFirstStep,
}

// policyDeleted: the policy is deleted while the first step is executed.
var policyDeleted = story{
	name:  "unpolicied",
	begin: (*scene).newNodeWithTwoSteps,
	goOn: func(s *scene) bool {
		return s.interfere(func() {
			policy := &v1alpha1.RemedyPolicy{}
			policy.Name = s.name
			s.Expect(s.client.Delete(s.ctx, policy)).To(Succeed())
		})
	},
	midway: func(s *scene) bool { return s.lines("runs") == 1 },
	expect: (*scene).expectOnlyTheFirstStep,
}

func TestAnActionWhosePolicyIsEditedBeforeItsClaimIsNotExecutedUntilTheStepIsBack(t *testing.T) {
	t.Parallel()
	s := newSceneApart(t, "unclaimed", 1, "1")
	s.clock = newLeaping()
	node := s.nodes[0]
	cure := shell(fmt.Sprintf("echo ran >> %s; rm -f %s", s.path("runs"), s.path("sick")))
	policy := s.policy(cure)
	s.touch("sick")
	s.detect(node, "sick")
	s.startController()
	s.Eventually(s.actions).WithArguments(node).Should(HaveLen(1))
	policy.Spec.Steps = []v1alpha1.Step{shell("echo ran >> " + s.path("new"))}
	s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	s.startRunners()

	s.Eventually(s.state).WithArguments(node).Should(Equal("Waiting/" + v1alpha1.ReasonSuperseded))
	s.expectHistory("1/1 Superseded")
	s.Eventually(s.permits).Should(BeEmpty())
	policy.Spec.Steps = []v1alpha1.Step{cure}
	s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	s.leap(time.Minute)
	s.Eventually(func() bool { return s.over(node) }).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecovered))
	s.expectHistory("1/1 Superseded", "1/1 Succeeded")
	s.Expect(s.lines("runs")).To(Equal(1))
	s.Expect(s.lines("new")).To(BeZero())
}
