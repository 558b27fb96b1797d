//go:build integration

package interop

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestKarpenter(t *testing.T) {
	t.Parallel()
	w := newKarpenter(t, newestKarpenter)
	for _, scene := range []struct {
		says string
		play func(*karpenter)
	}{
		{"while Karpenter reboots a node Nodemend holds, and reboots it afterwards", (*karpenter).reboots},
		{"while Karpenter replaces a node Nodemend holds, and is done when it is gone", (*karpenter).replaces},
		{"a node that Karpenter is not to repair is left to Nodemend", (*karpenter).vetoes},
		{"while Nodemend has a node out Karpenter does not repair it, and nothing of that stays", (*karpenter).holdsOff},
		{"a node of which all was in vain is left to Karpenter, which replaces it", (*karpenter).leaves},
		{"a NodeClaim that the step replace deletes is replaced by its NodePool", (*karpenter).deletes},
		{"one whose pods are protected goes when they are not, whether they go or not", (*karpenter).waits},
	} {
		t.Run(scene.says, func(t *testing.T) {
			t.Parallel()
			scene.play(w.of(t))
		})
	}
}

// What Karpenter's provider for kwok reboots a node for, and what it replaces it for, when it has lasted for 30 s.
const (
	toReboot  = "KWOKRebootRequired"
	toReplace = "KWOKUnhealthy"
)

func (w *karpenter) reboots() {
	of := w.nodePool("rebooted", protected, "")
	m := w.machine(of.node)
	// Any boot mends what Karpenter reboots for, and a reset by our runner what we do.
	var meanwhile atomic.Value
	m.onBoot = func() { m.set(toReboot, false) }
	m.onReset = func() {
		meanwhile.Store(condition(w.claim(of.claim), "Rebooting"))
		m.set("Sick", false)
	}
	m.start()

	m.set(toReboot, true)
	w.Eventually(func() string { return condition(w.claim(of.claim), "Rebooting") }).Should(HavePrefix("True/"))
	w.whileItStandsStill(func() {
		w.policy("rebooted", "rebooted", "Sick", reboot())
		m.set("Sick", true)
		w.Eventually(w.blocked).WithArguments("rebooted", of.node).Should(Equal(
			"OtherHealer: Karpenter is rebooting node " + of.node + ": NodeClaim " + of.claim))
	})
	w.Eventually(w.state).WithArguments("rebooted", of.node).Should(Equal(v1alpha1.ReasonRecovered))
	w.Expect(m.resets.Load()).To(BeEquivalentTo(1))
	w.Expect(meanwhile.Load()).To(Equal("False/RebootSucceeded"))
	w.Expect(w.history("rebooted", of.node)).To(Equal([]string{"1 Succeeded"}))
	w.isGivenBack("rebooted")
	w.isAsItWas(of)
}

func (w *karpenter) replaces() {
	of := w.nodePool("replaced", protected, "")
	m := w.machine(of.node)
	m.start()

	m.set(toReplace, true)
	w.Eventually(func() string { return condition(w.claim(of.claim), "DisruptionReason") }).Should(Equal("True/Unhealthy"))
	w.whileItStandsStill(func() {
		w.policy("replaced", "replaced", toReplace, reboot())
		w.Eventually(w.blocked).WithArguments("replaced", of.node).Should(Equal(
			"NodeLeaving: Karpenter is removing node " + of.node + ": it has the taint karpenter.sh/disrupted"))
	})
	w.Eventually(w.node).WithArguments(of.node).Should(BeNil())
	w.Eventually(w.claim).WithArguments(of.claim).Should(BeNil())
	w.Eventually(w.ended).WithArguments("replaced", of.node).Should(BeTrue())
	w.Expect(w.history("replaced", of.node)).To(BeEmpty())
	w.Expect(m.resets.Load()).To(BeZero())
	w.Eventually(w.nodesOf).WithArguments("replaced").Should(HaveLen(1))
	w.isGivenBack("replaced")
}

func (w *karpenter) vetoes() {
	of := w.nodePool("vetoed", "", `karpenter.sh/do-not-repair: "true"`)
	w.policy("vetoed", "vetoed", toReplace, reboot())
	m := w.machine(of.node)
	m.start()

	m.set(toReplace, true)
	w.Eventually(m.resets.Load).Should(BeEquivalentTo(1))
	// Karpenter says so when it would have acted.
	w.Eventually(w.events).WithArguments(of.node).Should(ContainElement(ContainSubstring(vetoed)))
	m.set(toReplace, false)
	w.Eventually(w.state).WithArguments("vetoed", of.node).Should(Equal(v1alpha1.ReasonRecovered))
	w.Expect(m.resets.Load()).To(BeEquivalentTo(1))
	w.isGivenBack("vetoed")
	w.Expect(w.node(of.node).Annotations).To(HaveKeyWithValue("karpenter.sh/do-not-repair", "true"))
	w.isAsItWas(of)
}

// vetoed is what Karpenter says in an event when it would have repaired a node.
const vetoed = `repair is blocked through the "karpenter.sh/do-not-repair" annotation`

func (w *karpenter) holdsOff() {
	of := w.nodePool("held-off", "", "")
	w.policy("held-off", "held-off", toReplace, reboot())
	m := w.machine(of.node)
	m.start()

	m.set(toReplace, true)
	w.Eventually(m.resets.Load).Should(BeEquivalentTo(1))
	w.Eventually(w.events).WithArguments(of.node).Should(ContainElement(ContainSubstring(vetoed)))
	m.set(toReplace, false)
	w.Eventually(w.state).WithArguments("held-off", of.node).Should(Equal(v1alpha1.ReasonRecovered))
	w.Expect(m.resets.Load()).To(BeEquivalentTo(1))
	w.isGivenBack("held-off")
	w.Expect(w.node(of.node).Annotations).NotTo(HaveKey("karpenter.sh/do-not-repair"))
	w.isAsItWas(of)
}

func (w *karpenter) leaves() {
	of := w.nodePool("left", "", "")
	step := reboot()
	step.VerifyTimeout = duration(time.Minute) // Karpenter would act after half of it
	w.policy("left", "left", toReplace, step)
	m := w.machine(of.node)
	m.start()

	m.set(toReplace, true)
	w.Eventually(w.events).WithArguments(of.node).Should(ContainElement(ContainSubstring(vetoed)))
	w.Expect(w.claim(of.claim).GetDeletionTimestamp()).To(BeNil())
	w.Eventually(w.node).WithArguments(of.node).Should(BeNil())
	w.Eventually(w.ended).WithArguments("left", of.node).Should(BeTrue())
	w.Expect(w.history("left", of.node)).To(Equal([]string{"1 Succeeded"}))
	w.Expect(m.resets.Load()).To(BeEquivalentTo(1))
	w.Eventually(w.nodesOf).WithArguments("left").Should(HaveLen(1))
	w.isGivenBack("left")
}

func (w *karpenter) deletes() {
	of := w.nodePool("deletes", "", "")
	w.policy("deletes", "deletes", "Sick", gentle(), replace())
	m := w.machine(of.node)
	m.start()

	m.set("Sick", true)
	w.Eventually(w.replaced).WithArguments("deletes", of.node).ShouldNot(BeNil())
	is := w.replaced("deletes", of.node)
	w.Expect(is.Machine).To(Equal(v1alpha1.ExternalObject{APIVersion: karpenterAPI, Kind: "NodeClaim", Name: of.claim, UID: of.uid}))
	w.Expect(is.Owner.Kind + " " + is.Owner.Name).To(Equal("NodePool deletes"))
	w.Expect(is.Wanted).To(BeEquivalentTo(1))
	w.isReplaced("deletes", of)
	w.Expect(w.history("deletes", of.node)).To(Equal([]string{"1 Succeeded", "2 Replaced"}))
	w.Eventually(w.nodesOf).WithArguments("deletes").Should(HaveLen(1))
}

func (w *karpenter) waits() {
	of := w.nodePool("waits", protected, "")
	stuck := w.podThatNeverGoes("waits")
	w.policy("waits", "waits", "Sick", replace())
	m := w.machine(of.node)
	m.start()

	m.set("Sick", true)
	w.Eventually(func() string {
		if is := w.replaced("waits", of.node); is != nil {
			return is.Said
		}
		return ""
	}).Should(And(ContainSubstring("Drained: "), ContainSubstring("no spec.terminationGracePeriod")))
	w.Expect(w.claim(of.claim)).NotTo(BeNil())
	w.unprotect("waits")
	// A pod that is over its time by a minute, Karpenter does not wait for.
	w.isReplaced("waits", of)
	w.Expect(w.client.Get(w.ctx, client.ObjectKeyFromObject(stuck), stuck)).To(Succeed())
	w.Expect(stuck.DeletionTimestamp).NotTo(BeNil())
	stuck.Finalizers = nil
	w.Expect(w.client.Update(w.ctx, stuck)).To(Succeed())
}

// podThatNeverGoes is the only one of a scene. A finalizer keeps it, as a dead node would.
func (w *karpenter) podThatNeverGoes(scene string) *corev1.Pod {
	w.t.Helper()
	var pods corev1.PodList
	w.Expect(w.client.List(w.ctx, &pods, client.MatchingLabels{sceneLabel: scene})).To(Succeed())
	w.Expect(pods.Items).To(HaveLen(1))
	pod := &pods.Items[0]
	before := pod.DeepCopy()
	pod.Finalizers = append(pod.Finalizers, "test/never-goes")
	w.Expect(w.client.Patch(w.ctx, pod, client.MergeFrom(before))).To(Succeed())
	return pod
}

// isReplaced wants the remediation of the policy to end since another node is in the place of this one.
func (w *karpenter) isReplaced(policy string, of claimed) {
	w.t.Helper()
	w.Eventually(w.claim).WithArguments(of.claim).Should(BeNil())
	w.Eventually(w.node).WithArguments(of.node).Should(BeNil())
	w.Eventually(w.state).WithArguments(policy, of.node).Should(Equal(v1alpha1.ReasonReplaced))
	w.isGivenBack(policy)
}

// isAsItWas wants the NodeClaim of a node to be the same, and nothing to be done about it.
func (w *karpenter) isAsItWas(of claimed) {
	w.t.Helper()
	claim, node := w.claim(of.claim), w.node(of.node)
	w.Expect(claim).NotTo(BeNil())
	w.Expect(claim.GetUID()).To(Equal(of.uid))
	w.Expect(claim.GetDeletionTimestamp()).To(BeNil())
	w.Expect(condition(claim, "Rebooting")).NotTo(HavePrefix("True/"))
	for _, taint := range node.Spec.Taints {
		w.Expect(taint.Key).NotTo(HavePrefix("karpenter.sh/"))
	}
}

// events are the messages of those about a node.
func (w *karpenter) events(node string) (messages []string) {
	w.t.Helper()
	var list corev1.EventList
	w.Expect(w.client.List(w.ctx, &list, client.InNamespace("default"))).To(Succeed())
	for i := range list.Items {
		if about := list.Items[i].InvolvedObject; about.Kind == "Node" && about.Name == node {
			messages = append(messages, strings.TrimSpace(list.Items[i].Message))
		}
	}
	return messages
}
