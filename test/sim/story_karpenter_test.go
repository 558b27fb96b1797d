package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/others"
)

// nodeClaim is that of a node. Karpenter may decide by what it has read before we have told it to leave the node
// alone: what it writes then comes after that.
type nodeClaim struct {
	s    *stage
	node *node
}

// ofKarpenter gives the node a NodeClaim, of a NodePool.
func (s *stage) ofKarpenter(n *node) *nodeClaim {
	c := &nodeClaim{s, n}
	claim := c.empty()
	s.create(claim)
	s.changeNode(n.name, func(o *corev1.Node) {
		o.Labels[others.NodePoolLabel] = "workers"
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: "NodeClaim", Name: claim.GetName(), UID: claim.GetUID()}}
	})
	return c
}

func (c *nodeClaim) empty() *unstructured.Unstructured {
	claim := &unstructured.Unstructured{Object: map[string]any{}}
	claim.SetGroupVersionKind(remediatorKinds()[3])
	claim.SetName("of-" + c.node.name)
	return claim
}

// change changes it as Karpenter does.
func (c *nodeClaim) change(change func(*unstructured.Unstructured)) {
	claim := c.empty()
	c.s.must(c.s.admin.Get(c.s.ctx, types.NamespacedName{Name: claim.GetName()}, claim))
	change(claim)
	c.s.must(c.s.admin.Update(c.s.ctx, claim))
}

// says has conditions of it be True, and no others.
func (c *nodeClaim) says(kinds ...string) {
	claim := c.empty()
	c.s.must(c.s.admin.Get(c.s.ctx, types.NamespacedName{Name: claim.GetName()}, claim))
	all := []any{}
	for _, kind := range kinds {
		all = append(all, map[string]any{"type": kind, "status": "True"})
	}
	c.s.must(unstructured.SetNestedSlice(claim.Object, all, "status", "conditions"))
	c.s.must(c.s.admin.Status().Update(c.s.ctx, claim))
}

// deletes begins to delete it: its finalizer keeps it, and the Node has not been told yet.
func (c *nodeClaim) deletes() {
	c.change(func(claim *unstructured.Unstructured) { claim.SetFinalizers([]string{"karpenter.sh/termination"}) })
	c.s.remove(c.empty())
}

// told reports whether Karpenter has been told to leave the node alone.
func (c *nodeClaim) told() bool {
	return c.node.object().Annotations[others.DoNotRepairAnnotation] == "true"
}

// gone ends what deletes began, with the machine and the Node.
func (c *nodeClaim) gone() {
	c.change(func(claim *unstructured.Unstructured) { claim.SetFinalizers(nil) })
	c.node.powerOff()
	c.s.must(client.IgnoreNotFound(c.s.admin.Delete(c.s.ctx, c.node.object())))
}

func TestKarpenterHasDecidedBeforeItWasTold(t *testing.T) {
	for name, decides := range map[string]func(*nodeClaim){
		"to reboot the node":  func(c *nodeClaim) { c.says("DisruptionReason", "Rebooting") },
		"to replace the node": func(c *nodeClaim) { c.says("DisruptionReason") },
	} {
		for of, step := range map[string]v1alpha1.Step{"at once": reboot(), "after a drain": drainAndReboot()} {
			tellAll(t, 6, story{name + ", and we would act " + of, func(s *stage) {
				n := s.scene("n1", "n2")
				c := s.ofKarpenter(n)
				s.policy(nil, step)
				s.begin()
				n.fail(sick, v1alpha1.RemedyReboot)
				s.until("it is told", c.told)
				expect(s, "actions", len(s.actions(n)), 0)
				decides(c)
				s.until("we wait", func() bool { return s.only(n).BlockedBy() == gates.ReasonOtherHealer })
				s.pass(10 * time.Minute)
				expect(s, "executions", n.ran(), []string(nil))
				c.says() // it is done, or has thought better of it
				s.back(n)
				s.expectHealed(n, "reboot")
				expect(s, "it is still told", c.told(), false)
			}})
		}
	}
	tellAll(t, 6, story{"to delete the NodeClaim", func(s *stage) {
		n := s.scene("n1", "n2")
		c := s.ofKarpenter(n)
		s.policy(nil, reboot())
		s.begin()
		n.fail(sick, v1alpha1.RemedyReboot)
		s.until("it is told", c.told)
		c.deletes()
		s.until("we wait", func() bool { return s.only(n).BlockedBy() == gates.ReasonOtherHealer })
		s.pass(10 * time.Minute)
		expect(s, "executions", n.ran(), []string(nil))
		c.gone()
		s.until("it is over", func() bool { return s.over(n) })
		expect(s, "outcome", s.first(n), v1alpha1.ReasonNodeGone)
	}})
}

// What is on its way already nobody takes back: then both act, we once.
func TestKarpenterDecidesWhileWeAct(t *testing.T) {
	tellAll(t, 6, story{"to reboot the node", func(s *stage) {
		n := s.scene("n1", "n2")
		c := s.ofKarpenter(n)
		step := reboot()
		step.Attempts = 2
		s.policy(nil, step)
		s.begin()
		n.fail(sick, "")
		s.until("it is announced", func() bool { return len(s.actions(n)) == 1 })
		c.says("DisruptionReason", "Rebooting")
		s.until("we wait", func() bool { return s.only(n).BlockedBy() == gates.ReasonOtherHealer })
		s.pass(time.Hour)
		expect(s, "executions", n.ran(), []string{"reboot"})
		n.repair()
		s.back(n)
		expect(s, "executions", n.ran(), []string{"reboot"})
	}})
}
