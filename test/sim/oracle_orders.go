package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// lateFor is how much later than what it has read a runner may begin to execute: it reads
// everything right before.
const lateFor = time.Minute

// chosen reports whether a selector selects the node. Those of runs have labels only.
func chosen(selector *metav1.LabelSelector, node *corev1.Node) bool {
	if selector == nil {
		return true
	}
	for key, value := range selector.MatchLabels {
		if node.Labels[key] != value {
			return false
		}
	}
	return true
}

// ordered looks whether what is executed is what was asked for, is still wanted, and is
// for this node.
func (o *oracles) ordered(e *execution) {
	a := o.actions[e.order.UID]
	if a == nil {
		o.world.broken("I6: only what an action asks for is executed", "%s on node %s has no action", e.order.Action, e.node.name)
		return
	}
	now := time.Now()
	if late := now.Sub(a.Spec.ExpiresAt.Time); late > lateFor {
		o.world.broken("Nothing is executed that has expired", "%s on node %s, %s after expiresAt", a.Name, e.node.name, late)
	}
	if at, told := o.forgotten[a.Name]; told && now.Sub(at) > lateFor {
		o.world.broken("Nothing is executed that its remediation does not wait for", "%s on node %s, given up %s ago", a.Name, e.node.name, now.Sub(at))
	}
	node := find[*corev1.Node](o, e.node.name)
	if node == nil || now.Sub(node.CreationTimestamp.Time) < lateFor {
		return
	}
	if node.UID != a.Spec.NodeUID {
		o.world.broken("Nothing is executed for an earlier node of the name", "%s on node %s", a.Name, node.Name)
	}
	if now.Sub(o.world.people.limited) > lateFor {
		o.underPolicy(e, a, node)
	}
}

// I6: what is executed is a step of a policy as it is now: enforced, not paused, and for
// this node.
func (o *oracles) underPolicy(e *execution, a *v1alpha1.NodeAction, node *corev1.Node) {
	if time.Since(o.edited[a.Spec.Policy.Name]) < lateFor {
		return
	}
	p, why := find[*v1alpha1.RemedyPolicy](o, a.Spec.Policy.Name), ""
	switch {
	case p == nil || p.UID != a.Spec.Policy.UID:
		why = "is gone"
	case p.Spec.Paused:
		why = "is paused"
	case p.Spec.Mode == v1alpha1.ModeDryRun:
		why = "is not enforced"
	case !chosen(p.Spec.NodeSelector, node):
		why = "does not select the node"
	default:
		for i := range p.Spec.Steps {
			if equality.Semantic.DeepEqual(p.Spec.Steps[i], e.order.Step) {
				return
			}
		}
		why = "does not have the step"
	}
	o.world.broken("I6: only what a policy says is executed", "%s on node %s, and policy %s %s", a.Name, node.Name, a.Spec.Policy.Name, why)
}

// A node is rebooted only out of service, and after the drain that the step asks for.
func (o *oracles) outOfService(e *execution) {
	w := o.world
	node := find[*corev1.Node](o, e.node.name)
	if e.remedy != v1alpha1.RemedyReboot || node == nil || time.Since(node.CreationTimestamp.Time) < quietFor {
		return
	}
	if time.Since(o.returned[node.Name]) < o.slack() {
		return // a person has put it back meanwhile
	}
	if !node.Spec.Unschedulable {
		w.broken("A node is rebooted only out of service", "%s: node %s is not cordoned", e.order.Action, node.Name)
	}
	drain := e.order.Step.Reboot.Drain
	if drain == nil || drain.OnTimeout == v1alpha1.OnTimeoutProceed {
		return
	}
	for _, pod := range stored[*corev1.Pod](o) {
		if pod.Spec.NodeName == node.Name && pod.DeletionTimestamp == nil && (pod.Labels[vetoLabel] == "" || drain.VetoedBy != nil) {
			w.broken("A node is rebooted only after its drain", "%s: nobody has evicted pod %s from node %s", e.order.Action, pod.Name, node.Name)
		}
	}
}

// slack is how much later than a change a controller may act on what was before it: hardly
// at all while nothing goes wrong with controllers.
func (o *oracles) slack() time.Duration {
	if time.Since(o.world.troubled) > quietFor && len(o.world.leaders()) == 1 {
		return 10 * time.Second
	}
	return quietFor
}
