//go:build integration

package interop

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Karpenter before 1.15 cannot be told to leave a node alone, and only replaces. What both do alike is played
// with the newest.
func TestKarpenterThatHeedsNoVeto(t *testing.T) {
	t.Parallel()
	w := newKarpenter(t, olderKarpenter)
	for _, scene := range []struct {
		says string
		play func(*karpenter)
	}{
		{"a step that would not be over before it replaces the node is not begun, then or later", (*karpenter).isNear},
		{"a node whose NodeClaim it deletes is left to it, before the Node shows that, too", (*karpenter).isDeleting},
		{"a node that it replaces although we have it out is let go of", (*karpenter).replacesMeanwhile},
		{"a NodeClaim that the step replace deletes is replaced by its NodePool", (*karpenter).deletes},
	} {
		t.Run(scene.says, func(t *testing.T) {
			t.Parallel()
			scene.play(w.of(t))
		})
	}
}

// repairsAfter is for how long a node has not been Ready when this Karpenter replaces it, for kwok as on Azure.
const repairsAfter = 10 * time.Minute

func (w *karpenter) isNear() {
	of := w.nodePool("near", "", "")
	w.onAzure(of.node)
	m := w.machine(of.node)
	m.start()

	since := time.Now().Add(10*time.Second - repairsAfter).UTC().Truncate(time.Second)
	w.whileItStandsStill(func() {
		m.setSince(string(corev1.NodeReady), false, since)
		w.Eventually(w.isReady).WithArguments(of.node).Should(BeFalse())
		w.policy("near", "near", "Sick", reboot())
		m.set("Sick", true)
		w.Eventually(w.blocked).WithArguments("near", of.node).Should(HavePrefix(
			"OtherHealer: Karpenter repairs node " + of.node + " at " + since.Add(repairsAfter).Format(time.RFC3339) + ", if its NodeRepair is on: Ready=False since " + since.Format(time.RFC3339)))
	})

	w.isReplacedByIt("near", of)
	w.Expect(w.history("near", of.node)).To(BeEmpty())
	w.Expect(m.resets.Load()).To(BeZero())
}

func (w *karpenter) isDeleting() {
	of := w.nodePool("deleting", protected, "")
	m := w.machine(of.node)
	m.start()

	// What the Node does not show yet its NodeClaim does.
	w.whileItStandsStill(func() {
		w.Expect(w.client.Delete(w.ctx, w.claim(of.claim))).To(Succeed())
		w.policy("deleting", "deleting", "Sick", reboot())
		m.set("Sick", true)
		w.Eventually(w.blocked).WithArguments("deleting", of.node).Should(Equal(
			"OtherHealer: Karpenter is deleting node " + of.node + ": NodeClaim " + of.claim))
	})
	w.Eventually(w.blocked).WithArguments("deleting", of.node).Should(HavePrefix("NodeLeaving: "))
	w.unprotect("deleting")
	w.isReplacedByIt("deleting", of)
	w.Expect(w.history("deleting", of.node)).To(BeEmpty())
	w.Expect(m.resets.Load()).To(BeZero())
}

func (w *karpenter) replacesMeanwhile() {
	of := w.nodePool("meanwhile", "", "")
	w.onAzure(of.node)
	step := reboot()
	step.Timeout = duration(time.Minute) // nobody reports when the node is gone: it may run for so long
	w.policy("meanwhile", "meanwhile", "Sick", step)
	m := w.machine(of.node)
	told := make(chan string, 1)
	// It boots, and its kubelet does not come up.
	m.onReset = func() {
		told <- w.node(of.node).Annotations["karpenter.sh/do-not-repair"]
		m.setSince(string(corev1.NodeReady), false, time.Now().Add(-repairsAfter))
	}
	m.start()

	m.set("Sick", true)
	w.Eventually(m.resets.Load).Should(BeEquivalentTo(1))
	w.Expect(<-told).To(Equal("true"), "it is told so, as a newer one is")
	w.isReplacedByIt("meanwhile", of)
	w.Expect(m.resets.Load()).To(BeEquivalentTo(1))
}

// isReplacedByIt wants Karpenter to replace a node for a reason of its own, and the remediation of the policy to
// end by that.
func (w *karpenter) isReplacedByIt(policy string, of claimed) {
	w.t.Helper()
	w.Eventually(w.claim).WithArguments(of.claim).Should(BeNil())
	w.Eventually(w.node).WithArguments(of.node).Should(BeNil())
	w.Eventually(w.state).WithArguments(policy, of.node).Should(Equal(v1alpha1.ReasonNodeGone))
	w.Eventually(w.nodesOf).WithArguments(policy).Should(HaveLen(1))
	w.isGivenBack(policy)
}

// onAzure has a node look to Nodemend as one of Azure, whose provider repairs it for the same as that for kwok. And
// kwok, which would say at once that it is Ready again, is kept from it; its Lease is renewed all the same.
func (w *karpenter) onAzure(node string) {
	w.t.Helper()
	patch := `{"metadata":{"labels":{"karpenter.azure.com/aksnodeclass":"default"},"annotations":{"kwok.x-k8s.io/node":null}}}`
	w.Expect(w.client.Patch(w.ctx, w.node(node), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// isReady reports whether a node says that it is.
func (w *world) isReady(node string) bool {
	w.t.Helper()
	for _, c := range w.node(node).Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
