package sim

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// I9: recovery is always processed.
func TestAHealedNodeIsGivenBackWhateverElseIsSo(t *testing.T) {
	for name, befalls := range map[string]func(*stage){
		"paused":   func(s *stage) { s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.Paused = true }) },
		"excluded": func(s *stage) { s.excluded(s.nodes[0], true) },
		"storm": func(s *stage) {
			s.limit(func(b *v1alpha1.RemediationBudgetSpec) {
				b.MinHealthy, b.StormCooldown = ptr.To(intstr.FromString("90%")), ptr.To(duration(time.Hour))
			})
			s.unready(true, s.nodes[1:]...)
			s.until("it storms", s.storm)
		},
		"window": func(s *stage) {
			s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.AllowedWindows = closedNow() })
		},
		"unpolicied": (*stage).deletePolicyOfStory,
		"edited": func(s *stage) {
			s.edit(func(p *v1alpha1.RemedyPolicySpec) {
				p.Match[0].Type, p.Steps = "Other", []v1alpha1.Step{command("new")}
			})
		},
		"unbudgeted": (*stage).dropBudget,
	} {
		tellAll(t, 20, story{"parked and " + name, func(s *stage) {
			n := s.scene("n1", "n2", "n3")
			s.policy(nil, park())
			s.begin()
			n.fail(sick, "")
			s.parked(n)
			befalls(s)
			s.pass(10 * time.Minute)
			expect(s, "service", n.service(), outByUs)
			n.repair()
			s.back(n)
			expect(s, "state", s.state(n), recovered)
			s.expectOutOnce(n)
		}}, story{"drained and " + name, func(s *stage) {
			n := s.scene("n1", "n2", "n3")
			s.slowPod(n, "slow")
			s.policy(nil, drainAndReboot())
			s.begin()
			n.fail(sick, "")
			s.until("the pod ends", func() bool { return s.terminating("slow") })
			s.excluded(n, true) // nothing new is begun
			s.letGo("slow")
			s.until("it holds", func() bool {
				return s.state(n) == "Waiting/"+gates.ReasonExcluded && len(s.permits()) == 0
			})
			befalls(s)
			s.pass(10 * time.Minute)
			expect(s, "service", n.service(), outByUs)
			n.repair()
			s.back(n)
			expect(s, "state", s.state(n), v1alpha1.ReasonRecoveredByItself)
			expect(s, "executions", n.ran(), []string{})
			s.expectOutOnce(n)
		}})
	}
}

// A person who takes our mark away has made the cordon one of their own.
func TestACordonThatAPersonHasTakenOverIsLeft(t *testing.T) {
	tellAll(t, 8, story{"takeover", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, park())
		s.begin()
		n.fail(sick, "")
		s.parked(n)
		obj := n.object().DeepCopy()
		delete(obj.Annotations, v1alpha1.CordonedAnnotation)
		s.people.cordoned[n.name] = true
		s.update(obj)
		n.repair()
		s.until("it is over", func() bool { return s.only(n).Ended() && len(s.maintenances(n)) == 0 })
		s.pass(10 * time.Minute)
		expect(s, "service", n.service(), cordoned)
	}})
}

func TestANodeThatAPersonUncordonsInMaintenanceIsCordonedAgainAndGivenBackOnce(t *testing.T) {
	tellAll(t, 8, story{"stubborn", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, park())
		s.begin()
		n.fail(sick, "")
		s.parked(n)
		s.unschedulable(n, false)
		s.pod(n, "late")
		s.until("it is out again", func() bool { return n.service() == outByUs })
		s.until("what came meanwhile is evicted", func() bool { return len(s.podsOn(n)) == 0 })
		expect(s, "state", s.state(n), v1alpha1.ReasonInMaintenance)
		n.repair()
		s.back(n)
		expect(s, "service", s.service[n.name], []string{inService, outByUs, isOdd, outByUs, inService})
	}})
}

// maintain creates a person's maintenance of the node.
func (s *stage) maintain(n *node) {
	s.create(&v1alpha1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		Spec:       v1alpha1.NodeMaintenanceSpec{NodeName: n.name, Reason: "swap DIMM A1", RequestedBy: "jane@example.com"},
	})
}

func TestANodeThatAPersonAndAPolicyHoldIsGivenBackWithTheLast(t *testing.T) {
	held := func(s *stage) *node {
		n := s.scene("n1")
		s.policy(nil, park())
		s.begin()
		n.fail(sick, "")
		s.parked(n)
		s.maintain(n)
		s.pass(time.Minute)
		return n
	}
	tellAll(t, 10, story{"the person first", func(s *stage) {
		n := held(s)
		s.release("jane")
		s.until("one is left", func() bool { return len(s.maintenances(n)) == 1 })
		s.pass(10 * time.Minute)
		s.expectOut(n)
		n.repair()
		s.back(n)
		s.expectOutOnce(n)
	}}, story{"the policy first", func(s *stage) {
		n := held(s)
		n.repair()
		s.until("one is left", func() bool { return len(s.maintenances(n)) == 1 && s.only(n).Ended() })
		expect(s, "left", s.maintenances(n), []string{"jane"})
		expect(s, "state", s.state(n), recovered)
		s.pass(10 * time.Minute)
		expect(s, "service", n.service(), outByUs)
		s.release("jane")
		s.back(n)
		s.expectOutOnce(n)
	}}, story{"nothing is begun", func(s *stage) {
		n := s.scene("n1")
		s.maintain(n)
		s.policy(nil, wholePolicy()...)
		s.begin()
		s.until("it is out", func() bool { return n.service() == outByUs })
		n.fail(sick, v1alpha1.RemedyRestartUnit)
		s.comesTo(n, "Waiting/"+gates.ReasonInMaintenance)
		s.pass(time.Hour)
		expect(s, "actions", len(s.actions(n)), 0)
		s.release("jane")
		s.back(n)
		s.expectHealed(n, "runtime.service")
	}})
}
