package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// closedNow is a window that is closed now, and for hours.
func closedNow() []v1alpha1.Window {
	at := func(d time.Duration) string { return time.Now().UTC().Add(d).Format("15:04") }
	return []v1alpha1.Window{{Start: at(6 * time.Hour), End: at(7 * time.Hour)}}
}

// always takes every window away.
func always(b *v1alpha1.RemediationBudgetSpec) { b.AllowedWindows = nil }

func TestEachHoldEndsWhenItsReasonIsGone(t *testing.T) {
	type (
		budget = v1alpha1.RemediationBudgetSpec
		policy = v1alpha1.RemedyPolicySpec
	)
	for _, test := range []struct {
		reason        string
		hold, release func(*stage)
	}{
		{
			gates.ReasonPaused,
			func(s *stage) { s.limit(func(b *budget) { b.Paused = true }) },
			func(s *stage) { s.limit(func(b *budget) { b.Paused = false }) },
		},
		{
			gates.ReasonDryRun,
			func(s *stage) { s.edit(func(p *policy) { p.Mode = v1alpha1.ModeDryRun }) },
			func(s *stage) { s.edit(func(p *policy) { p.Mode = v1alpha1.ModeEnforce }) },
		},
		{
			gates.ReasonJoining,
			func(s *stage) { s.edit(func(p *policy) { p.DelayAfterJoin = ptr.To(duration(720 * time.Hour)) }) },
			func(s *stage) { s.edit(func(p *policy) { p.DelayAfterJoin = ptr.To(duration(0)) }) },
		},
		{
			gates.ReasonOutsideWindow,
			func(s *stage) { s.limit(func(b *budget) { b.AllowedWindows = closedNow() }) },
			func(s *stage) { s.limit(always) },
		},
		{
			gates.ReasonDisruptionLimit,
			func(s *stage) { s.limit(func(b *budget) { b.MaxUnavailable = ptr.To(intstr.FromInt32(0)) }) },
			func(s *stage) { s.limit(func(b *budget) { b.MaxUnavailable = ptr.To(intstr.FromInt32(1)) }) },
		},
		{
			gates.ReasonCordoned,
			func(s *stage) { s.unschedulable(s.nodes[0], true) },
			func(s *stage) { s.unschedulable(s.nodes[0], false) },
		},
		{
			gates.ReasonExcluded,
			func(s *stage) { s.excluded(s.nodes[0], true) },
			func(s *stage) { s.excluded(s.nodes[0], false) },
		},
		{
			gates.ReasonOtherHealer,
			func(s *stage) { s.heals("n1", signs()[0]) },
			func(s *stage) { s.healed("n1") },
		},
		{
			gates.ReasonOtherHealer,
			func(s *stage) { s.heals("n1", leases()) },
			func(s *stage) { s.healed("n1") },
		},
		{
			gates.ReasonNoBudget,
			func(s *stage) { s.dropBudget() },
			func(s *stage) {
				s.people.limited = time.Now()
				b := &v1alpha1.RemediationBudget{}
				b.Name = "workers"
				s.create(b)
			},
		},
		{
			gates.ReasonApprovalRequired,
			func(s *stage) { s.edit(func(p *policy) { p.Steps[0].RequireApproval = true }) },
			func(s *stage) { s.note(s.nodes[0], v1alpha1.ApprovedStepAnnotation, "1") },
		},
	} {
		tellAll(t, 12, story{test.reason, func(s *stage) {
			n := s.scene("n1", "n2", "n3")
			s.policy(nil, reboot())
			s.healthy()
			test.hold(s)
			s.begin()
			n.fail(sick, v1alpha1.RemedyReboot)
			s.comesTo(n, "Waiting/"+test.reason)
			s.pass(10 * time.Minute)
			expect(s, "state", s.state(n), "Waiting/"+test.reason)
			expect(s, "permits", s.permits(), []string{})
			expect(s, "actions", len(s.actions(n)), 0)
			test.release(s)
			s.back(n)
			s.expectHealed(n, "reboot")
		}})
	}
}

func (s *stage) dropBudget() {
	s.people.limited = time.Now()
	var b v1alpha1.RemediationBudget
	s.must(s.admin.Get(s.ctx, client.ObjectKey{Name: "workers"}, &b))
	s.remove(&b)
}

// unready lets kubelets say that their nodes are not Ready, or that they are.
func (s *stage) unready(to bool, nodes ...*node) {
	for _, n := range nodes {
		n.unready = to
		n.kubelet()
	}
}

func TestAStormHoldsDisruptiveStepsUntilItHasBeenCalm(t *testing.T) {
	tellAll(t, 6, story{"storm", func(s *stage) {
		n := s.scene("n1", "n2", "n3", "n4", "n5")
		s.policy(nil, reboot())
		s.limit(func(b *v1alpha1.RemediationBudgetSpec) {
			b.MinHealthy, b.StormCooldown = ptr.To(intstr.FromString("60%")), ptr.To(duration(10*time.Minute))
		})
		s.begin()
		s.unready(true, s.nodes[2:]...) // two of five are healthy
		s.until("it storms", s.storm)
		n.fail(sick, v1alpha1.RemedyReboot)
		s.comesTo(n, "Waiting/"+gates.ReasonStorm)
		s.pass(time.Hour)
		expect(s, "executions", n.ran(), []string{})
		s.unready(false, s.nodes[2:]...)
		calm := time.Now()
		s.back(n)
		s.expectHealed(n, "reboot")
		expect(s, "calm for 10 min", n.executions[0].began.Sub(calm) >= 10*time.Minute-time.Second, true)
		expect(s, "history", s.records(n), []string{"1/1 Succeeded"})
		s.expectOutOnce(n)
	}})
}

// Where a network is away, the pods of its nodes run on; those that were evicted meanwhile are
// killed as soon as their kubelet is back.
func TestAStormHoldsWhatWouldDrainNodesThatAreNotReady(t *testing.T) {
	tellAll(t, 6, story{"not ready", func(s *stage) {
		s.scene("n1", "n2", "n3", "n4", "n5")
		s.policy(nil, park())
		s.limit(func(b *v1alpha1.RemediationBudgetSpec) {
			b.MinHealthy, b.StormCooldown = ptr.To(intstr.FromString("60%")), ptr.To(duration(10*time.Minute))
		})
		s.begin()
		lost := s.nodes[2:] // two of five are healthy
		s.unready(true, lost...)
		s.until("it storms", s.storm)
		for _, n := range lost {
			n.fail(sick, "")
		}
		for _, n := range lost {
			s.comesTo(n, "Waiting/"+gates.ReasonStorm)
		}
		s.pass(time.Hour)
		for _, n := range lost {
			expect(s, "maintenances", s.maintenances(n), []string{})
		}
		s.unready(false, lost...)
		for _, n := range lost[1:] {
			delete(n.faults, sick)
		}
		s.comesTo(lost[0], v1alpha1.ReasonInMaintenance)
		s.pass(time.Minute)
		s.expectOut(lost[0])
	}})
}

// The oracles of I1 see to the limit.
func TestEveryNodeOfAFleetIsHealedWithinTheBudget(t *testing.T) {
	tellAll(t, 40, story{"fleet", func(s *stage) {
		s.scene("n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8")
		s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.MaxConcurrent = ptr.To(intstr.FromString("34%")) })
		s.policy(nil, command("cure"))
		s.begin()
		for _, n := range s.nodes {
			n.fail(sick, v1alpha1.RemedyCommand)
		}
		most := 0
		s.until("all are healed", func() bool {
			most = max(most, len(s.permits()))
			return !slices.ContainsFunc(s.nodes, func(n *node) bool { return !s.over(n) })
		})
		expect(s, "most at once", most, 2)
		for _, n := range s.nodes {
			s.expectHealed(n, "cure")
		}
	}})
}

func TestNothingIsDoneToANodeThatAPersonHasCordoned(t *testing.T) {
	for name, step := range map[string]v1alpha1.Step{"reboot": drainAndReboot(), "maintenance": park()} {
		tellAll(t, 15, story{name, func(s *stage) {
			n := s.scene("n1")
			s.pod(n, "web")
			s.policy(nil, step)
			s.healthy()
			s.unschedulable(n, true)
			s.begin()
			n.fail(sick, "")
			s.comesTo(n, "Waiting/"+gates.ReasonCordoned)
			s.pass(time.Hour)
			expect(s, "maintenances", s.maintenances(n), []string{})
			expect(s, "actions", len(s.actions(n)), 0)
			expect(s, "pods", s.podsOn(n), []string{"web"})
			n.repair()
			s.ends(n)
			expect(s, "state", s.state(n), v1alpha1.ReasonRecoveredByItself)
			expect(s, "service", s.service[n.name], []string{inService, cordoned})
		}})
	}
}

// ready returns the status of the node's Ready condition.
func (n *node) ready() corev1.ConditionStatus { return n.status(string(corev1.NodeReady)) }

// Whatever is refused for one node, or for one policy, delays no other.
func TestANodeOrAPolicyThatFailsForEverHoldsUpNoOther(t *testing.T) {
	refused := ""
	for name, refuses := range map[string]func(*call) bool{
		"node": func(c *call) bool { return c.request.IsWrite() && strings.HasPrefix(c.request.Name, "n1-") },
		"policy": func(c *call) bool {
			if c.request.Verb == "create" && c.request.Kind == "Remediation" && refused == "" {
				refused = c.request.Name
			}
			return c.request.IsWrite() && c.request.Name == refused
		},
	} {
		tellAll(t, 7, story{name, func(s *stage) {
			refused = ""
			s.scene("n1", "n2", "n3")
			s.policy(nil, command("cure"))
			s.begin()
			s.refuses = refuses
			for _, n := range s.nodes {
				n.fail(sick, v1alpha1.RemedyCommand)
			}
			for _, n := range s.nodes[1:] {
				s.ends(n)
				s.expectHealed(n, "cure")
			}
			expect(s, "of the first", s.nodes[0].ran(), []string{})
			s.refuses = nil
		}})
	}
}

// Nobody claims in a pause of a budget what was created right before it: the runner, which comes
// back meanwhile, asks for the pause of the cluster alone.
func TestWhatNobodyHasClaimedIsCancelledAtOnceInAPauseOfItsBudget(t *testing.T) {
	tellAll(t, 12, story{"paused", func(s *stage) {
		n := s.scene("n1")
		s.policy(nil, restart("runtime.service"))
		s.healthy()
		s.begin()
		n.fail(sick, v1alpha1.RemedyRestartUnit)
		s.until("it is seen", func() bool { return n.status(sick) == corev1.ConditionTrue })
		s.world.end(n.runner)
		s.until("an action waits", func() bool { return len(s.actions(n)) == 1 })
		s.world.end(n.detector.process) // so that no report has anybody look again
		s.pass(5 * time.Second)         // and nothing else does
		s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.Paused = true })
		s.pass(15 * time.Second)
		n.startRunner()
		s.pass(15 * time.Minute)
		expect(s, "executions", n.ran(), []string{})
		n.startDetector()
		s.limit(func(b *v1alpha1.RemediationBudgetSpec) { b.Paused = false })
		s.back(n)
		s.expectHealed(n, "runtime.service")
	}})
}
