//go:build integration

package integration

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

const unanswering = "Waiting/" + gates.ReasonRunnerAway

// progress returns what the node's only remediation says about where it stands.
func (s *scene) progress(node string) string {
	for _, c := range s.remediations(node)[0].Status.Conditions {
		if c.Type == v1alpha1.RemediationProgressing {
			return c.Message
		}
	}
	return ""
}

// unclaimed returns how many actions of the node nobody has claimed, and may.
func (s *scene) unclaimed(node string) (n int) {
	for _, a := range s.actions(node) {
		if a.Status.Claim == nil && a.Finished() == nil {
			n++
		}
	}
	return n
}

// goUnanswered leaps over every time in which a runner may claim an action, and over the
// backoff after it.
func (s *scene) goUnanswered(node string) {
	switch {
	case s.unclaimed(node) > 0:
		s.leap(70 * time.Second)
	case s.state(node) == unanswering:
		s.leap(31 * time.Second)
	case s.state(node) == "Waiting/"+gates.ReasonNoEvidence && s.once("silent"):
		s.leap(time.Minute)
	default:
		return
	}
	s.poke(node)
}

// matchUnknown is the entry for a node that the node controller has not heard of.
var matchUnknown = v1alpha1.ConditionMatch{Type: string(corev1.NodeReady), Status: corev1.ConditionUnknown}

func TestANodeThatDoesNotAnswerIsTakenOutOrGivenUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		match   v1alpha1.ConditionMatch
		steps   []v1alpha1.Step
		history []string
		state   string
		service string
	}{
		{
			name: "taken-out", match: matchUnknown, steps: wholePolicy(),
			history: []string{"1/1 Expired", "1/1 Expired", "4/1 Succeeded"}, state: v1alpha1.ReasonInMaintenance, service: outByUs,
		},
		{
			name: "given-up", match: matchUnknown, steps: wholePolicy()[:3],
			history: []string{"1/1 Expired", "1/1 Expired"}, state: v1alpha1.ReasonExhausted, service: inService,
		},
		{
			name: "reboot-given-up", match: matchUnknown, steps: wholePolicy()[2:3],
			history: []string{"1/1 Expired", "1/1 Expired"}, state: v1alpha1.ReasonExhausted, service: outByUs,
		},
		{
			name: "sick", match: v1alpha1.ConditionMatch{Type: sick, Status: corev1.ConditionTrue}, steps: wholePolicy(),
			history: []string{"1/1 Expired", "1/1 Expired", "4/1 Succeeded"}, state: v1alpha1.ReasonInMaintenance, service: outByUs,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, "away-"+test.name)
			node := s.nodes[0]
			policy := s.policy(test.steps...)
			policy.Spec.Match = []v1alpha1.ConditionMatch{test.match}
			s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
			pod := m.pod("web", "ReplicaSet")
			m.breakDown()
			m.set(func(state *machineState) { state.deaf = true })
			s.Eventually(m.reports).Should(Equal("True"))
			m.switchOff()
			s.Eventually(s.readiness).WithArguments(node).Should(Equal(corev1.ConditionUnknown))
			if test.match.Type == matchUnknown.Type {
				s.leap(time.Minute) // the Lease is old
			}
			s.startController()
			s.Eventually(func() string {
				s.goUnanswered(node)
				if s.state(node) == v1alpha1.ReasonTakingOut && s.isTerminating(pod) {
					s.leap(2 * time.Minute) // the pod does not end
					s.poke(node)
				}
				return s.state(node)
			}).Should(Equal(test.state))
			s.expectHistory(test.history...)
			s.Eventually(s.permits).Should(BeEmpty())
			s.Expect(s.service(node)).To(Equal(test.service))
			s.Expect(m.get().runs).To(BeEmpty())
			if test.state == v1alpha1.ReasonExhausted {
				s.Expect(s.progress(node)).To(ContainSubstring("node " + node + " is not Ready and its runner does not answer"))
			} else {
				s.expectStuck(node)
			}
			s.leap(time.Hour)
			s.poke(node)
			s.settle(node)
			s.Expect(s.state(node)).To(Equal(test.state))

			m.repair()
			m.switchOn()
			s.Eventually(s.back).WithArguments(node).Should(BeTrue())
		})
	}
}

// expectStuck expects that the node's maintenance lists the pod that does not end.
func (s *scene) expectStuck(node string) {
	s.t.Helper()
	var nm v1alpha1.NodeMaintenance
	s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: s.maintenances(node)[0]}, &nm)).To(Succeed())
	s.Expect(nm.Status.Drain.Pods).To(ConsistOf(HaveField("Reason", v1alpha1.PodStuckTerminating)))
}

func TestANodeThatDoesNotComeBackStaysOut(t *testing.T) {
	t.Parallel()
	for name, match := range map[string]v1alpha1.ConditionMatch{"sick": {Type: sick, Status: corev1.ConditionTrue}, "unready": {Type: "Ready", Status: corev1.ConditionFalse}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, "lost-"+name)
			node := s.nodes[0]
			policy := s.policy(drainAndReboot())
			policy.Spec.Match = []v1alpha1.ConditionMatch{match}
			s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
			m.set(func(state *machineState) { state.faulty, state.unready, state.lost = true, true, true })
			s.startController()
			s.Eventually(m.reboots).Should(Equal(1))
			s.Eventually(s.readiness).WithArguments(node).Should(Equal(corev1.ConditionUnknown))
			s.poke(node)
			s.settle(node)
			s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonActing), "it may take its time")
			s.leap(10 * time.Minute)
			s.poke(node)
			s.Eventually(s.state).WithArguments(node).Should(Equal(v1alpha1.ReasonExhausted))
			s.expectHistory("1/1 NotBack")
			s.Expect(s.progress(node)).To(ContainSubstring("has not come back"))
			s.Expect(s.service(node)).To(Equal(outByUs))
			s.Expect(s.actions(node)).To(HaveLen(1))

			m.set(func(state *machineState) { state.faulty, state.unready = false, false })
			m.switchOn()
			s.Eventually(s.back).WithArguments(node).Should(BeTrue())
			s.expectOutOnce(node)
			s.Expect(m.reboots()).To(Equal(1))
		})
	}
}

// What the detector had reported before the boot is not evidence.
func TestANodeThatHasRebootedByItselfIsNotRebootedOnWhatWasSeenBefore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		// taken: it is drained by then. quick: it is back before anybody misses it.
		taken, quick bool
	}{
		{name: "waiting"}, {name: "drained", taken: true}, {name: "waiting-quick", quick: true}, {name: "drained-quick", taken: true, quick: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, "itself-"+test.name)
			node := s.nodes[0]
			pod := m.pod("slow", "ReplicaSet")
			m.breakDown()
			m.set(func(state *machineState) { state.hung = true })
			s.policy(drainAndReboot())
			if !test.taken {
				s.label(node, "true")
			}
			s.startController()
			if test.taken {
				s.Eventually(s.isTerminating).WithArguments(pod).Should(BeTrue())
				s.label(node, "true")
			} else {
				s.Eventually(s.state).WithArguments(node).Should(Equal("Waiting/" + gates.ReasonExcluded))
			}
			m.set(func(state *machineState) { state.unchecked = true })
			if !test.quick {
				m.switchOff()
				s.Eventually(s.readiness).WithArguments(node).Should(Equal(corev1.ConditionUnknown))
			}
			m.set(func(state *machineState) { state.hung = false })
			m.switchOn()
			s.Eventually(func() string { return s.findNode(node).Status.NodeInfo.BootID }).Should(Equal(bootID(2)))
			s.Eventually(s.readiness).WithArguments(node).Should(Equal(corev1.ConditionTrue))
			if test.taken { // and pods are gone
				s.Eventually(s.state).WithArguments(node).Should(Equal("Waiting/" + gates.ReasonExcluded))
			}
			before := s.maintenances(node)
			s.label(node, "false")
			s.settle(node)
			s.Expect(len(s.actions(node))).To(BeZero(), "no check has run since it booted")
			s.Expect(s.maintenances(node)).To(Equal(before))

			m.repair()
			m.set(func(state *machineState) { state.unchecked = false })
			s.Eventually(s.back).WithArguments(node).Should(BeTrue())
			s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecoveredByItself))
			s.Expect(m.get().runs).To(BeEmpty())
		})
	}
}

// The incident that was going on before the boot is old enough only after it.
func TestARemediationThatBeginsAfterABootWaitsForAChecksWord(t *testing.T) {
	t.Parallel()
	s, m := newMachine(t, "begun")
	node := s.nodes[0]
	m.breakDown()
	policy := s.policy(drainAndReboot())
	policy.Spec.Match[0].For = duration(time.Minute)
	s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	s.startController()
	s.Eventually(m.reports).Should(Equal("True"))
	m.set(func(state *machineState) { state.unchecked = true })
	m.switchOff()
	s.Eventually(s.readiness).WithArguments(node).Should(Equal(corev1.ConditionUnknown))
	s.leap(2 * time.Second) // no machine is back in the same second
	m.switchOn()
	s.Eventually(s.readiness).WithArguments(node).Should(Equal(corev1.ConditionTrue))
	s.Expect(s.remediations(node)).To(BeEmpty())
	s.leap(time.Minute)
	s.label(node, "false") // whoever waits for the minute looks again
	s.Eventually(s.remediations).WithArguments(node).Should(HaveLen(1))
	s.settle(node)
	s.Expect(s.maintenances(node)).To(BeEmpty(), "no check has run since it booted")
	s.Expect(s.actions(node)).To(BeEmpty())

	m.repair()
	m.set(func(state *machineState) { state.unchecked = false })
	s.Eventually(s.back).WithArguments(node).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecoveredByItself))
	s.Expect(m.get().runs).To(BeEmpty())
}

// The boot ID tells whether a reboot that nobody reports on has happened.
func TestAKubeletRestartIsNotTakenForTheReboot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		befalls func(*machine)
		state   string
		history []string
	}{
		{
			name: "kubelet",
			befalls: func(m *machine) {
				m.set(func(s *machineState) { s.unready = true })
				m.s.Eventually(m.s.readiness).WithArguments(m.node).Should(Equal(corev1.ConditionFalse))
				m.set(func(s *machineState) { s.unready = false })
			},
			state: "Acting/NoReport",
		},
		{
			name: "boot",
			befalls: func(m *machine) {
				m.switchOff()
				m.s.Eventually(m.s.readiness).WithArguments(m.node).Should(Equal(corev1.ConditionUnknown))
				m.switchOn()
			},
			state: v1alpha1.ReasonExhausted, history: []string{"1/1 Succeeded"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, "looks-"+test.name)
			node := s.nodes[0]
			m.set(func(state *machineState) { state.faulty, state.mute = true, true })
			step := drainAndReboot()
			step.VerifyTimeout = duration(time.Second)
			s.policy(step)
			s.startController()
			s.Eventually(m.reboots).Should(Equal(1))
			test.befalls(m)
			s.Eventually(s.readiness).WithArguments(node).Should(Equal(corev1.ConditionTrue))
			s.settle(node)
			s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonActing), "its runner may report yet")
			s.leap(10 * time.Minute)
			s.Eventually(s.state).WithArguments(node).Should(Equal(test.state))
			s.settle(node)
			s.Expect(s.state(node)).To(Equal(test.state))
			s.Expect(s.history()).To(Equal(test.history))
			s.Expect(m.reboots()).To(Equal(1))
			s.Expect(s.service(node)).To(Equal(outByUs))
			m.repair()
			if test.history == nil { // the reboot may happen yet
				s.Eventually(s.state).WithArguments(node).Should(Equal("Acting/StillRunning"))
				s.Expect(s.service(node)).To(Equal(outByUs))
				s.leap(10 * time.Minute)
			}
			s.Eventually(s.back).WithArguments(node).Should(BeTrue())
			s.expectOutOnce(node)
		})
	}
}
