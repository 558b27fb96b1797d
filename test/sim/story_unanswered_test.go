package sim

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/test/apiserver"
)

// progress returns what the node's only remediation says about where it stands.
func (s *stage) progress(n *node) string {
	for _, c := range s.only(n).Status.Conditions {
		if c.Type == v1alpha1.RemediationProgressing {
			return c.Message
		}
	}
	return ""
}

// unheard waits until the node controller has not heard of the node.
func (s *stage) unheard(n *node) {
	s.until("nobody hears of it", func() bool { return n.ready() == corev1.ConditionUnknown })
}

func TestANodeThatDoesNotAnswerIsTakenOutOrGivenUp(t *testing.T) {
	unknown := v1alpha1.ConditionMatch{Type: string(corev1.NodeReady), Status: corev1.ConditionUnknown}
	ill := v1alpha1.ConditionMatch{Type: sick, Status: corev1.ConditionTrue}
	for _, test := range []struct {
		name    string
		match   v1alpha1.ConditionMatch
		steps   []v1alpha1.Step
		history []string
		state   string
		service string
	}{
		{"taken out", unknown, wholePolicy(), []string{"1/1 Expired", "1/1 Expired", "4/1 Succeeded"}, v1alpha1.ReasonInMaintenance, outByUs},
		{"given up", unknown, wholePolicy()[:3], []string{"1/1 Expired", "1/1 Expired"}, v1alpha1.ReasonExhausted, inService},
		{"reboot given up", unknown, wholePolicy()[2:3], []string{"1/1 Expired", "1/1 Expired"}, v1alpha1.ReasonExhausted, outByUs},
		{"sick", ill, wholePolicy(), []string{"1/1 Expired", "1/1 Expired", "4/1 Succeeded"}, v1alpha1.ReasonInMaintenance, outByUs},
	} {
		tellAll(t, 12, story{test.name, func(s *stage) {
			n := s.scene("n1")
			s.pod(n, "web")
			s.policy(func(p *v1alpha1.RemedyPolicySpec) { p.Match = []v1alpha1.ConditionMatch{test.match} }, test.steps...)
			s.healthy()
			if test.match.Type == sick { // and off as soon as somebody wants to act
				s.world.end(n.runner)
				s.begin()
				n.fail(sick, "")
				s.until("an action waits", func() bool { return len(s.actions(n)) == 1 })
				n.powerOff()
			} else {
				n.powerOff()
				s.unheard(n)
				s.startController()
			}
			s.until("it comes to its end", func() bool { return s.state(n) == test.state && len(s.permits()) == 0 })
			expect(s, "history", s.records(n), test.history)
			expect(s, "service", n.service(), test.service)
			if test.state == v1alpha1.ReasonExhausted {
				expect(s, s.progress(n), strings.Contains(s.progress(n), "node n1 is not Ready and its runner does not answer"), true)
			} else {
				m := apiserver.Peek[*v1alpha1.NodeMaintenance](s.server, client.ObjectKey{Name: s.maintenances(n)[0]})
				expect(s, "stuck pods", len(m.Status.Drain.Pods), 1)
				expect(s, "reason", m.Status.Drain.Pods[0].Reason, v1alpha1.PodStuckTerminating)
			}
			s.pass(3 * time.Hour)
			expect(s, "state", s.state(n), test.state)
			n.repair()
			n.powerOn()
			s.back(n)
			expect(s, "executions", n.ran(), []string{})
		}})
	}
}

// Who was away gets what is gentlest once it answers again: nothing of it was tried yet.
func TestANodeThatAnswersAgainIsMendedByTheGentlestStep(t *testing.T) {
	for name, steps := range map[string][]v1alpha1.Step{"given up": wholePolicy()[:3], "to be taken out": wholePolicy()} {
		tellAll(t, 12, story{name, func(s *stage) {
			n := s.scene("n1")
			s.policy(nil, steps...)
			s.healthy()
			s.world.end(n.runner)
			s.begin()
			n.fail(sick, v1alpha1.RemedyRestartUnit)
			s.until("an action waits", func() bool { return len(s.actions(n)) == 1 })
			n.powerOff()
			s.until("another one waits", func() bool { return len(s.actions(n)) == 2 })
			s.excluded(n, true)
			if len(steps) == 3 {
				s.comesTo(n, v1alpha1.ReasonExhausted)
			} else {
				s.comesTo(n, "Waiting/"+gates.ReasonExcluded)
				expect(s, "step", s.only(n).Status.Step, 4)
			}
			n.powerOn()
			s.until("it is up", func() bool { return n.ready() == corev1.ConditionTrue })
			s.excluded(n, false)
			s.back(n)
			s.expectHealed(n, "runtime.service")
			expect(s, "history", s.records(n), []string{"1/1 Expired", "1/1 Expired", "1/1 Succeeded"})
		}})
	}
}

func TestANodeThatDoesNotComeBackStaysOut(t *testing.T) {
	for name, match := range map[string]v1alpha1.ConditionMatch{
		"sick": {Type: sick, Status: corev1.ConditionTrue}, "unready": {Type: string(corev1.NodeReady), Status: corev1.ConditionFalse},
	} {
		tellAll(t, 12, story{name, func(s *stage) {
			n := s.scene("n1")
			n.staysOff()
			s.policy(func(p *v1alpha1.RemedyPolicySpec) { p.Match = []v1alpha1.ConditionMatch{match} }, drainAndReboot())
			s.begin()
			n.fail(sick, "")
			s.unready(true, n)
			s.until("it reboots", func() bool { return len(n.executions) == 1 })
			s.unheard(n)
			expect(s, "state", s.state(n), v1alpha1.ReasonActing) // it may take its time
			s.comesTo(n, v1alpha1.ReasonExhausted)
			expect(s, "history", s.records(n), []string{"1/1 NotBack"})
			expect(s, s.progress(n), strings.Contains(s.progress(n), "has not come back"), true)
			s.pass(time.Hour)
			expect(s, "service", n.service(), outByUs)
			s.mend(n)
			n.powerOn()
			s.back(n)
			s.expectOutOnce(n)
			expect(s, "executions", n.ran(), []string{"reboot"})
		}})
	}
}

// What the detector had reported before the boot is not evidence.
func TestANodeThatHasRebootedByItselfIsNotRebootedOnWhatWasSeenBefore(t *testing.T) {
	for _, test := range []struct {
		name string
		// taken: it is drained by then. quick: it is back before anybody misses it.
		taken, quick bool
	}{
		{"waiting", false, false},
		{"drained", true, false},
		{"waiting, quick", false, true},
		{"drained, quick", true, true},
	} {
		tellAll(t, 12, story{test.name, func(s *stage) {
			n := s.scene("n1")
			s.slowPod(n, "slow")
			s.policy(nil, drainAndReboot())
			s.healthy()
			if !test.taken {
				s.excluded(n, true)
			}
			s.begin()
			n.fail(sick, "")
			if test.taken {
				s.until("it drains", func() bool { return s.terminating("slow") })
				s.excluded(n, true)
			} else {
				s.comesTo(n, "Waiting/"+gates.ReasonExcluded)
			}
			n.powerOff()
			n.blind = true // no check runs before the end
			if !test.quick {
				s.unheard(n)
			}
			s.letGo("slow")
			n.powerOn()
			s.until("it is up", func() bool {
				return n.object().Status.NodeInfo.BootID == n.bootID() && n.ready() == corev1.ConditionTrue
			})
			s.comesTo(n, "Waiting/"+gates.ReasonExcluded)
			s.pass(2 * time.Minute)
			before := s.maintenances(n)
			s.excluded(n, false)
			s.pass(time.Hour)
			expect(s, "actions", len(s.actions(n)), 0)
			expect(s, "maintenances", s.maintenances(n), before)
			n.repair()
			n.blind = false
			s.back(n)
			expect(s, "state", s.state(n), v1alpha1.ReasonRecoveredByItself)
			expect(s, "executions", n.ran(), []string{})
		}})
	}
}

// The incident that was going on before the boot is old enough only after it.
func TestARemediationThatBeginsAfterABootWaitsForAChecksWord(t *testing.T) {
	tellAll(t, 8, story{"begun", func(s *stage) {
		n := s.scene("n1")
		s.policy(func(p *v1alpha1.RemedyPolicySpec) { p.Match[0].For = duration(5 * time.Minute) }, drainAndReboot())
		s.begin()
		n.fail(sick, "")
		s.until("it is seen", func() bool { return n.status(sick) == corev1.ConditionTrue })
		n.powerOff()
		n.blind = true
		s.unheard(n)
		n.powerOn()
		s.until("it is up", func() bool { return n.ready() == corev1.ConditionTrue })
		expect(s, "remediations", len(s.remediations(n)), 0)
		s.until("it begins", func() bool { return len(s.remediations(n)) == 1 })
		s.pass(time.Hour)
		expect(s, "maintenances", s.maintenances(n), []string{})
		expect(s, "actions", len(s.actions(n)), 0)
		n.repair()
		n.blind = false
		s.back(n)
		expect(s, "state", s.state(n), v1alpha1.ReasonRecoveredByItself)
		expect(s, "executions", n.ran(), []string{})
	}})
}

// The boot ID tells whether a reboot that nobody reports on has happened.
func TestAKubeletRestartIsNotTakenForTheReboot(t *testing.T) {
	// silent lets the runner die as soon as it has begun the reboot.
	silent := func(s *stage, reboots bool) *node {
		n := s.scene("n1")
		n.acts = func(e *execution) bool {
			n.deaf, e.outcome = true, v1alpha1.ReasonRebootNotObserved
			s.after(e.order.Step.Timeout.Duration, e.finish)
			s.after(time.Second, func() {
				s.world.end(n.runner)
				if reboots {
					n.powerOff()
				}
			})
			return true
		}
		s.policy(nil, drainAndReboot())
		s.begin()
		n.fail(sick, "")
		s.until("it was told to reboot", func() bool { return len(n.executions) == 1 })
		return n
	}
	tellAll(t, 12, story{"kubelet", func(s *stage) {
		n := silent(s, false)
		s.pass(time.Minute)
		s.unready(true, n)
		s.pass(time.Minute)
		s.unready(false, n)
		s.comesTo(n, "Acting/NoReport")
		s.pass(10 * time.Minute)
		expectOneOf(s, "state", s.state(n), "Acting/NoReport", "Acting/StillRunning")
		expect(s, "history", s.records(n), []string{})
		expect(s, "service", n.service(), outByUs)
	}}, story{"boot", func(s *stage) {
		n := silent(s, true)
		s.unheard(n)
		n.powerOn()
		s.until("it is up", func() bool { return n.ready() == corev1.ConditionTrue })
		s.comesTo(n, v1alpha1.ReasonExhausted)
		expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
		expect(s, "service", n.service(), outByUs)
		n.repair()
		s.back(n)
		s.expectOutOnce(n)
		expect(s, "executions", n.ran(), []string{"reboot"})
	}})
}
