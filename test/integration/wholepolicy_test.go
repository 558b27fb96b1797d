//go:build integration

package integration

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// wholePolicy is restart, command, reboot, maintenance.
func wholePolicy() []v1alpha1.Step {
	restart := shell("")
	restart.Command, restart.RestartUnit = nil, &v1alpha1.RestartUnitRemedy{Name: "containerd.service"}
	steps := []v1alpha1.Step{restart, shell("true"), drainAndReboot(), park()}
	for i := range steps {
		steps[i].VerifyTimeout = duration(time.Second)
	}
	return steps
}

func TestAWholePolicyEndsWithTheFirstStepThatHelps(t *testing.T) {
	t.Parallel()
	const restart, command, reboot = v1alpha1.RemedyRestartUnit, v1alpha1.RemedyCommand, v1alpha1.RemedyReboot
	for _, test := range []struct {
		name string
		how  machineState
		// drain of the maintenance; the default when nil. Reboots don't drain then.
		drain   *v1alpha1.Drain
		history []string
		runs    map[string]int
		cordons []string
	}{
		{
			name: "restart-helps", how: machineState{cure: restart},
			history: []string{"1/1 Succeeded"}, runs: map[string]int{restart: 1}, cordons: []string{inService},
		},
		{
			name: "command-helps", how: machineState{cure: command},
			history: []string{"1/1 Succeeded", "2/1 Succeeded"}, runs: map[string]int{restart: 1, command: 1}, cordons: []string{inService},
		},
		{
			name: "reboot-helps", how: machineState{cure: reboot},
			history: []string{"1/1 Succeeded", "2/1 Succeeded", "3/1 Succeeded"},
			runs:    map[string]int{restart: 1, command: 1, reboot: 1}, cordons: []string{inService, outByUs, inService},
		},
		{
			name:    "repair-helps",
			history: []string{"1/1 Succeeded", "2/1 Succeeded", "3/1 Succeeded", "4/1 Succeeded"},
			runs:    map[string]int{restart: 1, command: 1, reboot: 1}, cordons: []string{inService, outByUs, inService},
		},
		{
			name: "restart-fails", how: machineState{outcomes: map[string]string{restart: v1alpha1.ReasonFailed}, cure: command},
			history: []string{"1/1 Failed", "2/1 Succeeded"}, runs: map[string]int{restart: 1, command: 1}, cordons: []string{inService},
		},
		{
			name: "command-fails", how: machineState{outcomes: map[string]string{command: v1alpha1.ReasonTimedOut}, cure: reboot},
			history: []string{"1/1 Succeeded", "2/1 TimedOut", "3/1 Succeeded"},
			runs:    map[string]int{restart: 1, command: 1, reboot: 1}, cordons: []string{inService, outByUs, inService},
		},
		{
			name: "reboot-fails", how: machineState{lost: true},
			history: []string{"1/1 Succeeded", "2/1 Succeeded", "3/1 NotBack", "4/1 Succeeded"},
			runs:    map[string]int{restart: 1, command: 1, reboot: 1}, cordons: []string{inService, outByUs, inService},
		},
		{
			name: "maintenance-fails", drain: &v1alpha1.Drain{Timeout: duration(2 * time.Second), OnTimeout: v1alpha1.OnTimeoutAbort},
			history: []string{"1/1 Succeeded", "2/1 Succeeded", "3/1 Succeeded", "4/1 Aborted", "4/1 Succeeded"},
			runs:    map[string]int{restart: 1, command: 1, reboot: 1}, cordons: []string{inService, outByUs, inService, outByUs, inService},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, test.name)
			node := s.nodes[0]
			steps := wholePolicy()
			if test.drain != nil {
				steps[2].Reboot.Drain, steps[3].Maintenance.Drain = nil, test.drain
			}
			unmanaged := m.pod("alone", map[bool]string{true: "", false: "ReplicaSet"}[test.drain != nil])
			m.set(func(state *machineState) {
				state.cure, state.outcomes, state.lost, state.faulty = test.how.cure, test.how.outcomes, test.how.lost, true
			})
			s.policy(steps...)
			s.startController()

			s.Eventually(func() bool {
				switch state := s.state(node); {
				case m.get().lost && s.readiness(node) == corev1.ConditionUnknown && s.once("leapt"):
					s.leap(10 * time.Minute)
					s.poke(node)
				case state == "Waiting/"+gates.ReasonNoEvidence && s.once("silent"): // since the reboot
					s.leap(time.Minute)
					s.poke(node)
				case state == "Waiting/"+v1alpha1.ReasonDrainAborted && s.service(node) == inService && s.once("leapt"):
					s.Expect(s.client.Delete(s.ctx, unmanaged, client.GracePeriodSeconds(0))).To(Succeed())
					s.leap(time.Minute)
				case s.parked(node) && s.once("parked"):
					s.expectOut(node)
					m.repair()
					if m.get().off {
						m.switchOn()
					}
				}
				return s.back(node)
			}).Should(BeTrue())
			s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecovered))
			s.expectHistory(test.history...)
			s.Expect(m.get().runs).To(Equal(test.runs))
			s.Eventually(s.cordons.of).WithArguments(node).Should(Equal(test.cordons))
		})
	}
}

func TestANodeThatComesBackUnhealthyIsNotRebootedAgainAndAgain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		attempts int32
		budget   string
		state    string
	}{
		{name: "attempts", attempts: 2, state: "Exhausted"},
		{name: "maxreboots", attempts: 5, budget: `{"spec":{"maxReboots":{"count":2,"per":"24h"}}}`, state: "Waiting/" + gates.ReasonMaxReboots},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, "loop-"+test.name)
			node := s.nodes[0]
			if test.budget != "" {
				s.change(&v1alpha1.RemediationBudget{}, test.budget)
			}
			m.breakDown()
			step := drainAndReboot()
			step.Attempts, step.VerifyTimeout = test.attempts, duration(time.Second)
			s.policy(step)
			s.startController()
			s.Eventually(s.state).WithArguments(node).Should(Equal(test.state))
			s.leap(time.Hour)
			s.settle(node)
			s.Expect(m.reboots()).To(Equal(2))
			s.Eventually(s.permits).Should(BeEmpty())
			s.Expect(s.service(node)).To(Equal(outByUs), "it stays out")
			s.Expect(m.get().boot).To(Equal(3))

			m.repair()
			s.Eventually(s.back).WithArguments(node).Should(BeTrue())
			s.expectOutOnce(node)
		})
	}
}

func TestRebootsOfOnePolicyCountForTheNext(t *testing.T) {
	t.Parallel()
	s, m := newMachine(t, "rate")
	node := s.nodes[0]
	m.set(func(state *machineState) { state.cure = v1alpha1.RemedyReboot })
	s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"maxReboots":{"count":2,"per":"24h"}}}`)
	policy := s.policy(drainAndReboot())
	s.startController()
	for incident := 1; incident <= 2; incident++ {
		m.breakDown()
		s.Eventually(func() int { return s.countEnded(node) }).Should(Equal(incident))
		s.Expect(m.reboots()).To(Equal(incident))
		s.Expect(s.client.Delete(s.ctx, policy)).To(Succeed())
		policy = s.policy(drainAndReboot())
	}
	m.breakDown()
	s.Eventually(s.open).WithArguments(node).Should(Equal("Waiting/" + gates.ReasonMaxReboots))
	s.settle(node)
	s.Expect(m.reboots()).To(Equal(2))
	s.Expect(s.service(node)).To(Equal(inService), "nothing has begun")
	s.leap(25 * time.Hour)
	s.Eventually(func() int { return s.countEnded(node) }).Should(Equal(3))
	s.Expect(m.reboots()).To(Equal(3))
}

func TestANodeThatIsSickAgainIsNotRebootedBeyondMaxRemediations(t *testing.T) {
	t.Parallel()
	s, m := newMachine(t, "pattern")
	node := s.nodes[0]
	m.set(func(state *machineState) { state.cure = v1alpha1.RemedyReboot })
	s.policy(drainAndReboot())
	s.change(&v1alpha1.RemedyPolicy{}, `{"spec":{"maxRemediations":{"count":1,"per":"24h"}}}`)
	s.startController()
	m.breakDown()
	s.Eventually(s.back).WithArguments(node).Should(BeTrue())
	m.breakDown()
	s.Eventually(s.open).WithArguments(node).Should(Equal("Waiting/" + gates.ReasonMaxRemediations))
	s.settle(node)
	s.Expect(m.reboots()).To(Equal(1))
	s.expectOutOnce(node)
}
