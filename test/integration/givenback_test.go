//go:build integration

package integration

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

func TestAHealedNodeIsGivenBackWhateverElseIsSo(t *testing.T) {
	t.Parallel()
	closed := time.Now().UTC().Add(6 * time.Hour).Format("15:04")
	later := time.Now().UTC().Add(7 * time.Hour).Format("15:04")
	for name, befalls := range map[string]func(*scene){
		"paused":   func(s *scene) { s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"paused":true}}`) },
		"excluded": func(s *scene) { s.label(s.nodes[0], "true") },
		"storm": func(s *scene) {
			s.change(&v1alpha1.RemediationBudget{}, `{"spec":{"minHealthy":"90%","stormCooldown":"1h"}}`)
			s.ready(corev1.ConditionFalse, s.nodes[1:]...)
			s.Eventually(func() *v1alpha1.Storm {
				var b v1alpha1.RemediationBudget
				s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: s.name}, &b)).To(Succeed())
				return b.Status.Groups[v1alpha1.UngroupedNodes].Storm
			}).ShouldNot(BeNil())
		},
		"window": func(s *scene) {
			s.change(&v1alpha1.RemediationBudget{}, fmt.Sprintf(`{"spec":{"allowedWindows":[{"start":%q,"end":%q}]}}`, closed, later))
		},
		"unpolicied": func(s *scene) {
			s.Expect(s.client.Delete(s.ctx, &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: s.name}})).To(Succeed())
		},
		"edited": func(s *scene) {
			s.change(&v1alpha1.RemedyPolicy{}, `{"spec":{"match":[{"type":"Other","status":"True"}],"steps":[{"command":{"argv":["/bin/true"]}}]}}`)
		},
		"unbudgeted": func(s *scene) {
			s.Expect(s.client.Delete(s.ctx, &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: s.name}})).To(Succeed())
		},
	} {
		t.Run("parked and "+name, func(t *testing.T) {
			t.Parallel()
			s, m := newNeighbourhood(t, "parked-"+name)
			node := s.nodes[0]
			s.policy(park())
			s.startController()
			s.Eventually(s.parked).WithArguments(node).Should(BeTrue())
			befalls(s)
			s.settle(node)
			s.Expect(s.service(node)).To(Equal(outByUs))
			m.repair()
			s.expectBack(node, v1alpha1.ReasonRecovered)
		})
		t.Run("drained and "+name, func(t *testing.T) {
			t.Parallel()
			s, m := newNeighbourhood(t, "drained-"+name)
			node := s.nodes[0]
			pod := m.pod("slow", "ReplicaSet")
			m.set(func(state *machineState) { state.hung = true })
			s.policy(drainAndReboot())
			s.startController()
			s.Eventually(s.isTerminating).WithArguments(pod).Should(BeTrue())
			s.label(node, "true") // nothing new is begun
			m.set(func(state *machineState) { state.hung = false })
			s.Eventually(s.state).WithArguments(node).Should(Equal("Waiting/" + gates.ReasonExcluded))
			s.Eventually(s.permits).Should(BeEmpty())
			befalls(s)
			s.settle(node)
			s.Expect(s.service(node)).To(Equal(outByUs))
			m.repair()
			s.expectBack(node, v1alpha1.ReasonRecoveredByItself)
			s.Expect(m.get().runs).To(BeEmpty())
		})
	}
}

// newNeighbourhood creates a scene of a node that is sick, with a machine, and two that
// are well.
func newNeighbourhood(t *testing.T, name string) (*scene, *machine) {
	t.Helper()
	s := newSceneApart(t, name, 3, "3")
	s.clock = newLeaping()
	s.ready(corev1.ConditionTrue, s.nodes[1:]...)
	m := s.machine(s.nodes[0], sick)
	m.breakDown()
	return s, m
}

// expectBack expects that the node is given back, and the state of its remediation.
func (s *scene) expectBack(node, state string) {
	s.t.Helper()
	s.Eventually(func() bool {
		return s.ended(node) && len(s.maintenances(node)) == 0 && s.service(node) == inService
	}).Should(BeTrue())
	s.Expect(s.state(node)).To(Equal(state))
	s.expectOutOnce(node)
}

// isTerminating reports whether the pod was told to end.
func (s *scene) isTerminating(pod *corev1.Pod) bool {
	var p corev1.Pod
	s.Expect(s.client.Get(s.ctx, client.ObjectKeyFromObject(pod), &p)).To(Succeed())
	return p.DeletionTimestamp != nil
}

func TestNothingIsDoneToANodeThatAPersonHasCordoned(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]v1alpha1.Step{"reboot": drainAndReboot(), "maintenance": park()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, "person-"+name)
			node := s.nodes[0]
			s.setUnschedulable(node, true)
			m.pod("web", "ReplicaSet")
			m.breakDown()
			s.policy(step)
			s.startController()
			s.Eventually(s.state).WithArguments(node).Should(Equal("Waiting/" + gates.ReasonCordoned))
			s.settle(node)
			s.Expect(s.maintenances(node)).To(BeEmpty())
			s.Expect(s.actions(node)).To(BeEmpty())
			s.Expect(m.podNames()).To(Equal([]string{"web"}))
			m.repair()
			s.Eventually(s.ended).WithArguments(node).Should(BeTrue())
			s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecoveredByItself))
			s.Expect(s.cordons.of(node)).To(Equal([]string{inService, cordoned}))
		})
	}
}

// A person who takes our mark away has made the cordon one of their own.
func TestACordonThatAPersonHasTakenOverIsLeft(t *testing.T) {
	t.Parallel()
	s, m := newMachine(t, "takeover")
	node := s.nodes[0]
	m.breakDown()
	s.policy(park())
	s.startController()
	s.Eventually(s.parked).WithArguments(node).Should(BeTrue())
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, v1alpha1.CordonedAnnotation)
	s.Expect(s.client.Patch(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
	m.repair()
	s.Eventually(s.ended).WithArguments(node).Should(BeTrue())
	s.Eventually(s.maintenances).WithArguments(node).Should(BeEmpty())
	s.settle(node)
	s.Expect(s.service(node)).To(Equal(cordoned))
}

func TestANodeThatAPersonUncordonsInMaintenanceIsCordonedAgainAndGivenBackOnce(t *testing.T) {
	t.Parallel()
	s, m := newMachine(t, "stubborn")
	node := s.nodes[0]
	m.breakDown()
	s.policy(park())
	s.startController()
	s.Eventually(s.parked).WithArguments(node).Should(BeTrue())
	s.setUnschedulable(node, false)
	m.pod("late", "ReplicaSet")
	s.Eventually(s.service).WithArguments(node).Should(Equal(outByUs))
	s.Eventually(m.podNames).Should(BeEmpty(), "what came meanwhile is evicted as well")
	s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonInMaintenance))
	m.repair()
	s.Eventually(s.back).WithArguments(node).Should(BeTrue())
	s.Eventually(s.cordons.of).WithArguments(node).Should(Equal([]string{inService, outByUs, isOdd, outByUs, inService}))
}

func TestANodeThatAPersonAndAPolicyHoldIsGivenBackWithTheLast(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"person", "policy"} {
		t.Run("the "+first+" first", func(t *testing.T) {
			t.Parallel()
			s, m := newMachine(t, "two-"+first)
			node := s.nodes[0]
			m.breakDown()
			s.policy(park())
			s.startController()
			s.Eventually(s.parked).WithArguments(node).Should(BeTrue())
			s.maintain("jane", node)
			s.Eventually(func() string {
				var nm v1alpha1.NodeMaintenance
				s.Expect(s.client.Get(s.ctx, types.NamespacedName{Name: s.name + "-jane"}, &nm)).To(Succeed())
				if c := nm.Condition(v1alpha1.MaintenanceCordoned); c != nil {
					return c.Reason
				}
				return ""
			}).Should(Equal(v1alpha1.ReasonCordoned))
			if first == "person" {
				s.release(s.name + "-jane")
				s.Eventually(s.maintenances).WithArguments(node).Should(HaveLen(1))
				s.settle(node)
				s.Expect(s.service(node)).To(Equal(outByUs))
				s.Expect(s.parked(node)).To(BeTrue())
				m.repair()
			} else {
				m.repair()
				s.Eventually(s.maintenances).WithArguments(node).Should(ConsistOf(s.name + "-jane"))
				s.Expect(s.state(node)).To(Equal(v1alpha1.ReasonRecovered))
				s.settle(node)
				s.Expect(s.service(node)).To(Equal(outByUs))
				s.release(s.name + "-jane")
			}
			s.Eventually(s.back).WithArguments(node).Should(BeTrue())
			s.expectOutOnce(node)
		})
	}
	t.Run("nothing is begun", func(t *testing.T) {
		t.Parallel()
		s, m := newMachine(t, "held")
		node := s.nodes[0]
		s.maintain("jane", node)
		s.policy(wholePolicy()...)
		s.startController()
		s.Eventually(s.service).WithArguments(node).Should(Equal(outByUs))
		m.set(func(state *machineState) { state.faulty, state.cure = true, v1alpha1.RemedyRestartUnit })
		s.Eventually(s.state).WithArguments(node).Should(Equal("Waiting/" + gates.ReasonInMaintenance))
		s.settle(node)
		s.Expect(s.actions(node)).To(BeEmpty())
		s.release(s.name + "-jane")
		s.Eventually(s.back).WithArguments(node).Should(BeTrue())
		s.Expect(m.get().runs).To(Equal(map[string]int{v1alpha1.RemedyRestartUnit: 1}))
	})
}
