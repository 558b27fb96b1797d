package sim

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// wholePolicy is restart, command, reboot, maintenance.
func wholePolicy() []v1alpha1.Step {
	return []v1alpha1.Step{restart("runtime.service"), command("clean"), drainAndReboot(), park()}
}

// endsAs lets the remedy end like this.
func (n *node) endsAs(remedy, outcome string) {
	n.acts = func(e *execution) bool {
		if e.remedy != remedy {
			return false
		}
		e.outcome = outcome
		n.world.after(2*time.Second, e.finish)
		return true
	}
}

// staysOff lets the node not come back from a reboot.
func (n *node) staysOff() {
	n.acts = func(e *execution) bool {
		if e.remedy != v1alpha1.RemedyReboot {
			return false
		}
		n.powerOff()
		return true
	}
}

func TestAWholePolicyEndsWithTheFirstStepThatHelps(t *testing.T) {
	const unit = "runtime.service"
	never, once := []string{inService}, []string{inService, outByUs, inService}
	for _, test := range []struct {
		name, cure string
		befalls    func(*node)
		history    []string
		ran        []string
		service    []string
	}{
		{"restart helps", v1alpha1.RemedyRestartUnit, nil, []string{"1/1 Succeeded"}, []string{unit}, never},
		{"command helps", v1alpha1.RemedyCommand, nil, []string{"1/1 Succeeded", "2/1 Succeeded"}, []string{unit, "clean"}, never},
		{
			"reboot helps", v1alpha1.RemedyReboot, nil,
			[]string{"1/1 Succeeded", "2/1 Succeeded", "3/1 Succeeded"}, []string{unit, "clean", "reboot"}, once,
		},
		{
			"repair helps", "", nil,
			[]string{"1/1 Succeeded", "2/1 Succeeded", "3/1 Succeeded", "4/1 Succeeded"}, []string{unit, "clean", "reboot"}, once,
		},
		{
			"restart fails", v1alpha1.RemedyCommand, func(n *node) { n.endsAs(v1alpha1.RemedyRestartUnit, v1alpha1.ReasonFailed) },
			[]string{"1/1 Failed", "2/1 Succeeded"}, []string{unit, "clean"}, never,
		},
		{
			"command fails", v1alpha1.RemedyReboot, func(n *node) { n.endsAs(v1alpha1.RemedyCommand, v1alpha1.ReasonTimedOut) },
			[]string{"1/1 Succeeded", "2/1 TimedOut", "3/1 Succeeded"}, []string{unit, "clean", "reboot"}, once,
		},
		{
			"reboot fails", "", (*node).staysOff,
			[]string{"1/1 Succeeded", "2/1 Succeeded", "3/1 NotBack", "4/1 Succeeded"}, []string{unit, "clean", "reboot"}, once,
		},
	} {
		tellAll(t, 15, story{test.name, func(s *stage) {
			n := s.scene("n1")
			if test.befalls != nil {
				test.befalls(n)
			}
			s.policy(nil, wholePolicy()...)
			s.begin()
			n.fail(sick, test.cure)
			if len(test.history) == 4 {
				s.parked(n)
				s.expectOut(n)
				n.repair()
				n.powerOn()
			}
			s.back(n)
			s.expectHealed(n, test.ran...)
			expect(s, "history", s.records(n), test.history)
			expect(s, "service", s.service[n.name], test.service)
		}})
	}
}

func TestADrainThatIsAbortedIsTriedAgain(t *testing.T) {
	tellAll(t, 10, story{"aborted", func(s *stage) {
		n := s.scene("n1")
		s.pod(n, "alone")
		s.alone("alone")
		step := park()
		step.Maintenance.Drain = &v1alpha1.Drain{Timeout: duration(2 * time.Minute), OnTimeout: v1alpha1.OnTimeoutAbort}
		s.policy(nil, step)
		s.begin()
		n.fail(sick, "")
		s.until("it was aborted", func() bool {
			return s.state(n) == "Waiting/"+v1alpha1.ReasonDrainAborted && n.service() == inService
		})
		s.deletePodOfStory("alone")
		s.parked(n)
		n.repair()
		s.back(n)
		s.expectHealed(n)
		expect(s, "last", s.records(n)[len(s.records(n))-1], "1/1 Succeeded")
	}})
}

func TestANodeThatComesBackUnhealthyIsNotRebootedAgainAndAgain(t *testing.T) {
	for _, test := range []struct {
		name     string
		attempts int32
		rate     *v1alpha1.Rate
		state    string
	}{
		{"attempts", 2, nil, v1alpha1.ReasonExhausted},
		{"maxReboots", 5, &v1alpha1.Rate{Count: 2, Per: duration(24 * time.Hour)}, "Waiting/" + gates.ReasonMaxReboots},
	} {
		tellAll(t, 15, story{test.name, func(s *stage) {
			n := s.scene("n1")
			s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.MaxReboots = test.rate })
			step := drainAndReboot()
			step.Attempts = test.attempts
			s.policy(nil, step)
			s.begin()
			n.fail(sick, "")
			s.comesTo(n, test.state)
			s.pass(3 * time.Hour)
			expect(s, "state", s.state(n), test.state)
			expect(s, "executions", n.ran(), []string{"reboot", "reboot"})
			expect(s, "permits", s.permits(), []string{})
			expect(s, "service", n.service(), outByUs)
			n.repair()
			s.back(n)
			s.expectOutOnce(n)
		}})
	}
}

func TestRebootsOfOnePolicyCountForTheNext(t *testing.T) {
	tellAll(t, 40, story{"rate", func(s *stage) {
		n := s.scene("n1")
		s.limit(func(b *v1alpha1.RemediationBudgetSpec) {
			b.MaxReboots = &v1alpha1.Rate{Count: 2, Per: duration(6 * time.Hour)}
		})
		s.policy(nil, drainAndReboot())
		s.begin()
		for incident := 1; incident <= 2; incident++ {
			n.fail(sick, v1alpha1.RemedyReboot)
			s.until("it is over", func() bool { return s.countEnded(n) == incident && n.service() == inService })
			expect(s, "reboots", len(n.executions), incident)
			s.deletePolicyOfStory()
			s.pass(time.Minute)
			s.policy(nil, drainAndReboot())
		}
		n.fail(sick, v1alpha1.RemedyReboot)
		s.until("it is held", func() bool { return s.open(n) == "Waiting/"+gates.ReasonMaxReboots })
		s.pass(time.Hour)
		expect(s, "reboots", len(n.executions), 2)
		expect(s, "service", n.service(), inService) // nothing has begun
		s.until("it is over", func() bool { return s.countEnded(n) == 3 })
		expect(s, "reboots", len(n.executions), 3)
	}})
}

func TestANodeThatIsSickAgainIsNotRebootedBeyondMaxRemediations(t *testing.T) {
	tellAll(t, 20, story{"pattern", func(s *stage) {
		n := s.scene("n1")
		s.policy(func(p *v1alpha1.RemedyPolicySpec) {
			p.MaxRemediations = ptr.To(v1alpha1.Rate{Count: 1, Per: duration(24 * time.Hour)})
		}, drainAndReboot())
		s.begin()
		n.fail(sick, v1alpha1.RemedyReboot)
		s.back(n)
		n.fail(sick, v1alpha1.RemedyReboot)
		s.until("it is held", func() bool { return s.open(n) == "Waiting/"+gates.ReasonMaxRemediations })
		s.pass(3 * time.Hour)
		expect(s, "executions", n.ran(), []string{"reboot"})
		s.expectOutOnce(n)
	}})
}
