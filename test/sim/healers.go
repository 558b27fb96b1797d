package sim

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/apiserver"
)

// What another healer marks a node with that it has: medik8s' taint, its label, kured's annotation.
const (
	healerTaint      = "remediation.medik8s.io/self-node-remediation"
	healerLabel      = "remediation.medik8s.io/exclude-from-remediation"
	healerAnnotation = "weave.works/kured-reboot-in-progress"
	healerNamespace  = "medik8s-leases"
)

// healer is another program that has a node.
type healer struct {
	sign  sign
	since time.Time
}

// sign is how it shows that.
type sign struct {
	// everything is to be left to it, gentle steps included.
	everything bool
	// mark marks the node, unmark takes the mark away, and marked tells whether it is there.
	mark, unmark func(*corev1.Node)
	marked       func(*corev1.Node) bool
	// leases: by a Lease of its own, not on the node.
	leases bool
}

// signs are the ways to show it.
func signs() []sign {
	return []sign{
		{
			mark: func(n *corev1.Node) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: healerTaint, Effect: corev1.TaintEffectNoSchedule})
			},
			unmark: func(n *corev1.Node) { n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, ofHealer) },
			marked: func(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, ofHealer) },
		},
		leases(),
		{
			everything: true,
			mark:       func(n *corev1.Node) { n.Labels[healerLabel] = "true" },
			unmark:     func(n *corev1.Node) { delete(n.Labels, healerLabel) },
			marked:     func(n *corev1.Node) bool { return n.Labels[healerLabel] != "" },
		},
		{
			mark:   func(n *corev1.Node) { annotate(n, healerAnnotation, "now") },
			unmark: func(n *corev1.Node) { delete(n.Annotations, healerAnnotation) },
			marked: func(n *corev1.Node) bool { return n.Annotations[healerAnnotation] != "" },
		},
	}
}

// leases is a sign that no cache has.
func leases() sign { return sign{leases: true} }

func ofHealer(t corev1.Taint) bool { return t.Key == healerTaint }

// healerLease is that of a node.
func healerLease(node string) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: healerNamespace, Name: "node-" + node},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("NodeHealthCheck-workers"), LeaseDurationSeconds: ptr.To[int32](24 * 3600),
			RenewTime: &metav1.MicroTime{Time: time.Now()},
		},
	}
}

// otherHealer lets another healer have a node for a while.
func (w *world) otherHealer() bool {
	obj, ok := w.anObject()
	if !ok || w.healers[obj.Name] != nil {
		return false
	}
	w.healsFor(obj.Name, of(w.choices, signs()...), w.while())
	return true
}

// comeBetween lets the controllers be cut off right after one has announced a disruptive action. Another
// healer has the node by the time when they can create it, which only its Lease shows.
func (w *world) comeBetween() bool {
	return w.set(disruptionAnnounced, func(_ *process, announced client.Object) {
		name := announced.(*v1alpha1.Remediation).Spec.NodeName //nolint:forcetypeassert // nothing else springs it
		for _, p := range w.leaders() {
			w.cutOffFor(p, quietFor+5*time.Second)
		}
		if w.healers[name] == nil {
			w.healsFor(name, leases(), 15*time.Minute)
		}
	})
}

// healsFor lets another healer have a node for so long.
func (w *world) healsFor(name string, s sign, long time.Duration) {
	w.heals(name, s)
	w.after(long, func() { w.healed(name) })
}

// heals lets another healer have a node from now.
func (w *world) heals(name string, s sign) {
	if w.healers == nil {
		w.healers = map[string]*healer{}
	}
	if s.leases {
		if leaseHolder(w, name) != "" { // it looks again later
			return
		}
		w.say("another healer", "holds the Lease of node %s", name)
		w.must(w.admin.Create(w.ctx, healerLease(name)))
	}
	w.healers[name] = &healer{sign: s, since: time.Now()}
	if s.leases {
		return
	}
	w.changeNode(name, s.mark)
}

// healed lets it give the node back.
func (w *world) healed(name string) {
	h := w.healers[name]
	if h == nil {
		return
	}
	delete(w.healers, name)
	if h.sign.leases {
		w.remove(healerLease(name))
		return
	}
	w.changeNode(name, h.sign.unmark)
}

// leaseHolder is who holds the Lease of a node; "": nobody.
func leaseHolder(w *world, node string) string {
	lease := apiserver.Peek[*coordinationv1.Lease](w.server, client.ObjectKeyFromObject(healerLease(node)))
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// changeNode changes a node, if there is one.
func (w *world) changeNode(name string, change func(*corev1.Node)) {
	var node corev1.Node
	if w.admin.Get(w.ctx, client.ObjectKey{Name: name}, &node) == nil {
		change(&node)
		w.update(&node)
	}
}

// has reports whether the healer shows that it has the node.
func (h *healer) has(w *world, node *corev1.Node) bool {
	if h.sign.leases {
		return leaseHolder(w, node.Name) == *healerLease(node.Name).Spec.HolderIdentity
	}
	return h.sign.marked(node)
}
