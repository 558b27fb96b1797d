//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// newParked creates a scene whose node is sick and parked; change the policy before.
func newParked(t *testing.T, name string, change func(*v1alpha1.RemedyPolicy)) (*scene, *machine) {
	t.Helper()
	s, m := newMachine(t, name)
	m.breakDown()
	policy := s.policy(park())
	if change != nil {
		change(policy)
		s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	}
	s.startController()
	s.Eventually(s.parked).WithArguments(s.nodes[0]).Should(BeTrue())
	return s, m
}

func TestAPersonHasTheLastWordWhereThePolicySaysSo(t *testing.T) {
	t.Parallel()
	s, m := newParked(t, "manual", func(p *v1alpha1.RemedyPolicy) { p.Spec.Recovery.Release = v1alpha1.ReleaseManual })
	node := s.nodes[0]
	m.repair()
	s.Eventually(s.state).WithArguments(node).Should(Equal("Healing/ReleaseRequired"))
	s.leap(time.Hour)
	s.settle(node)
	s.Expect(s.service(node)).To(Equal(outByUs))
	m.breakDown() // it is sick again: nothing else is done
	s.Eventually(s.state).WithArguments(node).Should(Equal(v1alpha1.ReasonInMaintenance))
	m.repair()
	s.Eventually(s.state).WithArguments(node).Should(Equal("Healing/ReleaseRequired"))
	s.release(s.maintenances(node)[0])
	s.Eventually(s.back).WithArguments(node).Should(BeTrue())
	// Released where the node's last report is too old at that moment to prove anything.
	s.Expect(s.state(node)).To(BeElementOf(v1alpha1.ReasonRecovered, v1alpha1.ReasonReleased))
	s.expectOutOnce(node)
}

func TestDeletingAPolicysMaintenanceGivesASickNodeBack(t *testing.T) {
	t.Parallel()
	t.Run("parked", func(t *testing.T) {
		t.Parallel()
		s, m := newParked(t, "free-parked", nil)
		s.expectReleased(m)
	})
	t.Run("draining", func(t *testing.T) {
		t.Parallel()
		s, m := newMachine(t, "free-draining")
		pod := m.pod("slow", "ReplicaSet")
		m.set(func(state *machineState) { state.faulty, state.hung = true, true })
		s.policy(drainAndReboot())
		s.startController()
		s.Eventually(s.isTerminating).WithArguments(pod).Should(BeTrue())
		s.expectReleased(m)
		s.Expect(m.get().runs).To(BeEmpty())
	})
}

// expectReleased lets a person delete the maintenance of the sick node, and expects that
// this is the end of it until the next incident.
func (s *scene) expectReleased(m *machine) {
	s.t.Helper()
	s.release(s.maintenances(m.node)[0])
	s.Eventually(s.back).WithArguments(m.node).Should(BeTrue())
	s.Expect(s.state(m.node)).To(Equal(v1alpha1.ReasonReleased))
	s.leap(time.Hour)
	s.settle(m.node)
	s.Expect(s.remediations(m.node)).To(HaveLen(1), "of one incident")
	s.expectOutOnce(m.node)

	m.repair()
	s.Eventually(m.reports).Should(Equal("False"))
	m.breakDown()
	s.Eventually(s.remediations).WithArguments(m.node).Should(HaveLen(2), "the next incident is another one")
}

func TestDeletingTheRemediationOfAParkedNode(t *testing.T) {
	t.Parallel()
	t.Run("and its tombstone starts over", func(t *testing.T) {
		t.Parallel()
		s, _ := newParked(t, "over", nil)
		node := s.nodes[0]
		former, held := s.remediations(node)[0], s.maintenances(node)
		s.deleteRemediation(former.Name)
		s.Eventually(s.names).WithArguments(node).Should(ConsistOf(former.Name + "-deleted"))
		s.deleteRemediation(former.Name + "-deleted")
		s.Eventually(s.parked).WithArguments(node).Should(BeTrue())
		s.Eventually(func(g Gomega) {
			now := s.remediations(node)
			g.Expect(now).To(HaveLen(1))
			g.Expect(now[0].UID).NotTo(Equal(former.UID))
			g.Expect(s.maintenances(node)).To(HaveLen(1))
			g.Expect(s.maintenances(node)).NotTo(Equal(held), "the former one has given the node back")
		}).Should(Succeed())
	})
	t.Run("that is sick leaves it out", func(t *testing.T) {
		t.Parallel()
		s, m := newParked(t, "left", nil)
		node := s.nodes[0]
		name := s.remediations(node)[0].Name
		s.deleteRemediation(name)
		s.Eventually(s.names).WithArguments(node).Should(ConsistOf(name + "-deleted"))
		s.Eventually(s.state).WithArguments(node).Should(Equal(v1alpha1.ReasonDeleted))
		m.repair()
		s.leap(time.Hour)
		s.settle(node)
		s.Expect(s.service(node)).To(Equal(outByUs), "nobody decides but a person")
		s.Expect(s.maintenances(node)).To(HaveLen(1))
		s.Expect(s.permits()).To(BeEmpty())

		m.breakDown() // another incident finds it held
		s.Eventually(s.open).WithArguments(node).Should(Equal("Waiting/" + gates.ReasonInMaintenance))
		s.release(s.maintenances(node)[0])
		s.Eventually(func() string { return s.open(node) }).Should(Equal(v1alpha1.ReasonInMaintenance + "/"))
		m.repair()
		s.Eventually(s.service).WithArguments(node).Should(Equal(inService))
	})
	t.Run("that is well gives it back", func(t *testing.T) {
		t.Parallel()
		s, m := newParked(t, "well", func(p *v1alpha1.RemedyPolicy) { p.Spec.Recovery.Release = v1alpha1.ReleaseManual })
		node := s.nodes[0]
		m.repair()
		s.Eventually(s.state).WithArguments(node).Should(Equal("Healing/ReleaseRequired"))
		name := s.remediations(node)[0].Name
		s.deleteRemediation(name)
		s.Eventually(s.names).WithArguments(node).Should(ConsistOf(name + "-deleted"))
		s.Eventually(s.back).WithArguments(node).Should(BeTrue())
		s.expectOutOnce(node)
	})
}

// newDraining creates a scene whose node drains for a reboot, which takes as long as its
// runtime hangs.
func newDraining(t *testing.T, name string) (*scene, *machine) {
	t.Helper()
	s, m := newMachine(t, name)
	m.set(func(state *machineState) { state.faulty, state.hung = true, true })
	first := m.pod("first", "ReplicaSet")
	policy := s.policy(drainAndReboot())
	policy.Spec.Recovery.HealthyFor = duration(time.Hour)
	s.Expect(s.client.Update(s.ctx, policy)).To(Succeed())
	s.startController()
	s.Eventually(s.isTerminating).WithArguments(first).Should(BeTrue())
	return s, m
}

func TestADrainStops(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		befalls func(*scene, *machine)
		state   string
		// goOn ends the story.
		goOn func(*scene, *machine)
	}{
		{
			name: "deleted", state: v1alpha1.ReasonDeleted,
			befalls: func(s *scene, m *machine) { s.deleteRemediation(s.remediations(m.node)[0].Name) },
			goOn:    func(s *scene, m *machine) { s.release(s.maintenances(m.node)[0]) },
		},
		{
			name: "recovered", state: v1alpha1.ReasonHealing,
			befalls: func(_ *scene, m *machine) { m.repair() },
			goOn:    func(s *scene, _ *machine) { s.leap(time.Hour) },
		},
		{
			name: "paused", state: "Waiting/" + gates.ReasonPaused,
			befalls: func(s *scene, _ *machine) { s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"paused":true}}`) },
			goOn: func(s *scene, m *machine) {
				m.set(func(state *machineState) { state.hung, state.cure = false, v1alpha1.RemedyReboot })
				s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"paused":false}}`)
				s.Eventually(m.reboots).Should(Equal(1))
				s.Eventually(s.state).WithArguments(m.node).Should(Equal(v1alpha1.ReasonHealing))
				s.Expect(m.podNames()).To(BeEmpty())
				s.leap(time.Hour)
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, m := newDraining(t, "halt-"+test.name)
			node := s.nodes[0]
			test.befalls(s, m)
			s.Eventually(func() string {
				all := s.remediations(node) // a deleted one and its tombstone, for a moment
				return strings.TrimSuffix(all[0].State()+"/"+all[0].BlockedBy(), "/")
			}).Should(Equal(test.state))
			s.Eventually(s.drainOf).WithArguments(node).Should(Equal(v1alpha1.ReasonDrainNotWanted))
			later := m.pod("later", "ReplicaSet")
			s.Consistently(s.isTerminating, "6s").WithArguments(later).Should(BeFalse())
			s.Expect(s.service(node)).To(Equal(outByUs))
			s.Expect(m.get().runs).To(BeEmpty())
			test.goOn(s, m)
			s.Eventually(s.service).WithArguments(node).Should(Equal(inService))
			s.Eventually(s.maintenances).WithArguments(node).Should(BeEmpty())
			s.expectOutOnce(node)
		})
	}
}

func TestANodeThatIsCreatedAnewInMaintenanceIsAnotherOne(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]v1alpha1.Step{"parked": {park()}, "draining": {drainAndReboot()}, "rebooting": {drainAndReboot(), park()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, "anew-"+name)
			node := s.nodes[0]
			m.pod("web", "ReplicaSet")
			m.set(func(state *machineState) { state.faulty, state.hung, state.lost = true, name == "draining", true })
			s.policy(steps...)
			s.startController()
			switch name {
			case "parked":
				s.Eventually(s.parked).WithArguments(node).Should(BeTrue())
			case "draining":
				s.Eventually(s.state).WithArguments(node).Should(Equal(v1alpha1.ReasonTakingOut))
			case "rebooting":
				s.Eventually(m.reboots).Should(Equal(1))
			}
			s.Eventually(s.service).WithArguments(node).Should(Equal(outByUs))
			first := s.remediations(node)[0].Name
			m.set(func(state *machineState) { state.off, state.unchecked = true, true })
			s.Expect(s.client.Delete(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})).To(Succeed())
			s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: s.labels()}})
			m.repair()
			m.switchOn()
			if name == "rebooting" { // until then the machine that was may do what it was told
				s.Eventually(s.state).WithArguments(node).Should(Equal("Acting/StillRunning"))
				s.leap(10 * time.Minute)
				s.poke(node)
			}
			s.Eventually(s.maintenances).WithArguments(node).Should(BeEmpty())
			if name != "rebooting" {
				s.Eventually(s.state).WithArguments(node).Should(Equal(v1alpha1.ReasonNodeGone))
			}
			s.Eventually(s.permits).Should(BeEmpty())
			s.settle(node)
			s.Expect(s.service(node)).To(Equal(inService))
			s.Expect(s.cordons.of(node)).To(Equal([]string{inService, outByUs, nodeGone, inService}))

			m.set(func(state *machineState) {
				state.unchecked, state.hung, state.faulty, state.lost = false, false, true, false
			})
			s.Eventually(func() bool {
				for _, r := range s.remediations(node) {
					if r.Name != first && r.Status.Maintenance != "" {
						return true
					}
				}
				return false
			}).Should(BeTrue(), "the new node's incident is one of its own")
		})
	}
}

// A part is repaired while the machine runs, and it is switched off right after.
func TestANodeThatIsSwitchedOffIsNotRecovered(t *testing.T) {
	t.Parallel()
	s, m := newParked(t, "hotswap", func(p *v1alpha1.RemedyPolicy) { p.Spec.Recovery.HealthyFor = duration(30 * time.Second) })
	node := s.nodes[0]
	m.repair()
	s.Eventually(s.state).WithArguments(node).Should(Equal(v1alpha1.ReasonHealing))
	m.switchOff()
	s.Eventually(func() string { return string(s.readiness(node)) }).Should(Equal("Unknown"))
	s.Eventually(s.state).WithArguments(node).Should(Equal(v1alpha1.ReasonInMaintenance))
	for i := range 3 { // within and beyond all times that evidence lasts
		s.leap([]time.Duration{40 * time.Second, 5 * time.Minute, 24 * time.Hour}[i])
		s.poke(node)
		s.settle(node)
		s.Expect(s.service(node)).To(Equal(outByUs), fmt.Sprint(i))
	}
	s.expectOut(node)
	m.switchOn()
	s.Eventually(s.state).WithArguments(node).Should(Equal(v1alpha1.ReasonHealing))
	s.leap(30 * time.Second)
	s.Eventually(s.back).WithArguments(node).Should(BeTrue())
	s.expectOutOnce(node)
}

func TestTwoControllersTakeOutNoMoreNodesThanTheBudgetAllows(t *testing.T) {
	t.Parallel()
	const nodes, unavailable = 12, 3
	s := newSceneApart(t, "fleet", nodes, "2")
	for _, node := range s.nodes {
		s.machine(node, hardwareFailure)
	}
	s.change(&v1alpha1.RemediationBudget{}, fmt.Sprintf(`{"spec":{"maxUnavailable":%d}}`, unavailable))
	for _, node := range s.nodes {
		s.Eventually(func() string { return string(s.readiness(node)) }).Should(Equal("True"))
	}
	s.policyFor(hardwareFailure, park())
	s.startController()
	s.startController()
	for _, m := range s.machines {
		m.breakDown()
	}
	over := func() (n int) {
		for _, m := range s.machines {
			if s.ended(m.node) {
				n++
			}
		}
		return n
	}
	s.Eventually(func() int { // who is out for a while is repaired
		for _, m := range s.machines {
			if s.state(m.node) == v1alpha1.ReasonInMaintenance && s.once("out-"+m.node) {
				continue
			}
			if s.exists("out-"+m.node) && s.since("out-"+m.node) > 2*time.Second && m.get().faulty {
				s.Expect(s.state(m.node)).To(Equal(v1alpha1.ReasonInMaintenance))
				m.repair()
			}
		}
		return over()
	}).Should(Equal(nodes))
	for _, node := range s.nodes {
		s.expectOutOnce(node)
		s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecovered))
	}
	s.Eventually(s.permits).Should(BeEmpty())
	s.cordons.mu.Lock()
	defer s.cordons.mu.Unlock()
	s.Expect(s.cordons.most).To(Equal(unavailable), "most at once")
}
