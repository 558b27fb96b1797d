package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

const besideHealer = "No disruptive step starts while another healer has the node"

// heldByOthers looks at a step that the controller starts. It has asked the API server right before, so no
// cache that is behind is an excuse.
func (o *oracles) heldByOthers(r *v1alpha1.Remediation, step *v1alpha1.Step, node *corev1.Node) {
	h := o.world.healers[node.Name]
	if h == nil || !h.has(o.world, node) {
		return
	}
	if step.Disruptive() && time.Since(h.since) > o.onItsWay() {
		o.world.broken(besideHealer, "%s: step %d on node %s, %s after that", r.Name, r.Status.Step, node.Name, time.Since(h.since))
	}
	if h.sign.everything && o.knows(h.since) {
		o.world.broken("Nothing starts on a node that is excluded for other healers", "%s: step %d on node %s", r.Name, r.Status.Step, node.Name)
	}
}

// createdBesideOthers looks at an action that was announced, perhaps long ago. One for a node that has been
// deleted since is created by a request that arrives late, and no runner of the next node executes it.
func (o *oracles) createdBesideOthers(a *v1alpha1.NodeAction) {
	node, r, h := find[*corev1.Node](o, a.Spec.NodeName), o.remediations[a.Spec.RemediationUID], o.world.healers[a.Spec.NodeName]
	if node != nil && node.UID != a.Spec.NodeUID {
		return
	}
	if _, givenUp := o.forgotten[a.Name]; givenUp || node == nil || r == nil || h == nil || !h.has(o.world, node) {
		return
	}
	if step := r.Step(a.Spec.Step); step != nil && step.Disruptive() && a.Spec.ExpiresAt.After(time.Now()) && time.Since(h.since) > o.onItsWay() {
		o.world.broken(besideHealer, "%s on node %s is created, %s after that", a.Name, node.Name, time.Since(h.since))
	}
}
