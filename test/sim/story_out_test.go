package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// The node is drained, switched off, switched on with the part as it was, and repaired.
// Nobody touches Kubernetes.
func TestANodeWithAFailedPartIsOutUntilItIsRepaired(t *testing.T) {
	tellAll(t, 6, story{"hardware", func(s *stage) {
		n := s.scene("n1")
		s.pod(n, "web")
		s.pod(n, "daemon")
		s.ofDaemonSet("daemon")
		s.policy(nil, park())
		s.begin()
		n.fail(sick, "")
		s.parked(n)
		s.expectOut(n)
		expect(s, "pods", s.podsOn(n), []string{"daemon"})
		n.powerOff()
		s.pass(time.Hour)
		s.expectOut(n)
		n.powerOn()
		s.pass(time.Hour)
		s.expectOut(n)
		n.repair()
		s.back(n)
		s.expectHealed(n)
		expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
		expect(s, "actions", len(s.actions(n)), 0)
		s.expectOutOnce(n)
	}})
}

func TestANodeIsDrainedBeforeItIsRebooted(t *testing.T) {
	tellAll(t, 6, story{"reboot", func(s *stage) {
		n := s.scene("n1")
		s.pod(n, "web")
		s.pod(n, "daemon")
		s.ofDaemonSet("daemon")
		s.policy(nil, drainAndReboot())
		s.begin()
		n.fail(sick, v1alpha1.RemedyReboot)
		s.back(n)
		s.expectHealed(n, "reboot")
		expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
		expect(s, "boots", n.boot, 2)
		expect(s, "pods that were rebooted", s.caught, []string{})
		expect(s, "pods", s.podsOn(n), []string{"daemon"})
		s.expectOutOnce(n)
	}})
}

// A part is repaired while the node runs, and it is switched off right after.
func TestANodeThatIsSwitchedOffIsNotRecovered(t *testing.T) {
	tellAll(t, 12, story{"hotswap", func(s *stage) {
		n := s.scene("n1")
		s.policy(func(p *v1alpha1.RemedyPolicySpec) { p.Recovery.HealthyFor = duration(10 * time.Minute) }, park())
		s.begin()
		n.fail(sick, "")
		s.parked(n)
		n.repair()
		s.comesTo(n, v1alpha1.ReasonHealing)
		n.powerOff()
		s.until("nobody hears of it", func() bool { return n.ready() == corev1.ConditionUnknown })
		s.comesTo(n, v1alpha1.ReasonInMaintenance)
		s.pass(3 * time.Hour) // beyond all times that evidence lasts
		s.expectOut(n)
		n.powerOn()
		s.back(n)
		expect(s, "state", s.state(n), recovered)
		s.expectOutOnce(n)
	}})
}

func TestNoMoreNodesAreTakenOutThanTheBudgetAllows(t *testing.T) {
	tellAll(t, 90, story{"two controllers", func(s *stage) {
		s.scene("n1", "n2", "n3", "n4", "n5", "n6")
		s.limit(func(b *v1alpha1.RemediationBudgetSpec) {
			b.MaxConcurrent, b.MaxUnavailable = ptr.To(intstr.FromInt32(2)), ptr.To(intstr.FromInt32(2))
		})
		s.policy(nil, park())
		s.begin()
		s.startController() // both believe that they lead
		for _, n := range s.nodes {
			n.fail(sick, "")
		}
		out := map[*node]bool{}
		s.until("all were repaired", func() bool {
			over := 0
			for _, n := range s.nodes {
				switch s.state(n) {
				case v1alpha1.ReasonInMaintenance:
					if out[n] {
						continue
					}
					out[n] = true
					s.after(10*time.Minute, n.repair) // who is out for a while is repaired
				case recovered:
					if n.service() == inService {
						over++
					}
				}
			}
			return over == len(s.nodes) && len(s.permits()) == 0
		})
		for _, n := range s.nodes {
			s.expectOutOnce(n)
		}
		expect(s, "most at once", s.mostOut, 2)
	}})
}
