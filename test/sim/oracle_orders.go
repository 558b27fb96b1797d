package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// switchTime is how long before the end of its step's timeout no power is switched off any more.
const switchTime = 11 * time.Minute

// late is how much later than what it has read a runner may begin to execute. It reads
// everything right before, so that is hardly at all, unless its requests take long.
func (n *node) late() time.Duration {
	if time.Since(n.slow) > 0 {
		return 2 * time.Second
	}
	return time.Minute
}

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
	now, late := time.Now(), e.node.late()
	const slack = 3 * time.Second // of clocks that are corrected
	latest := a.Spec.ExpiresAt.Time
	if is := find[*v1alpha1.NodeAction](o, a.Name); e.remedy == v1alpha1.RemedyReplace && is != nil && is.Status.Claim != nil {
		latest = later(latest, is.Status.Claim.Time.Add(5*time.Minute)) // it is begun once what others have sent can't arrive
	} else if is != nil && is.Status.Power != nil && is.Status.Claim != nil { // it is cut as long as there is time to switch it on
		latest = later(latest, is.Status.Claim.Time.Add(a.Spec.Timeout.Duration-switchTime))
	}
	if after := now.Sub(latest); after > late+slack {
		o.world.broken("Nothing is executed that has expired", "%s on node %s, %s after that", a.Name, e.node.name, after)
	}
	if at, told := o.forgotten[a.Name]; told && now.Sub(at) > late {
		o.world.broken("Nothing is executed that its remediation does not wait for", "%s on node %s, given up %s ago", a.Name, e.node.name, now.Sub(at))
	}
	node := find[*corev1.Node](o, e.node.name)
	if node == nil || now.Sub(node.CreationTimestamp.Time) < late+time.Second {
		return
	}
	if node.UID != a.Spec.NodeUID {
		o.world.broken("Nothing is executed for an earlier node of the name", "%s on node %s", a.Name, node.Name)
	}
	if now.Sub(o.world.people.limited) > late {
		o.underPolicy(e, a, node)
	}
	if v1alpha1.Excluded(node) && now.Sub(o.labelled[node.Name]) > late {
		o.world.broken("Nothing is executed on a node that is excluded", "%s on node %s", a.Name, node.Name)
	}
	if at, paused := o.paused[v1alpha1.ClusterPauseBudget]; paused && now.Sub(at) > late { // each runner asks itself
		o.world.broken("Nothing is executed once the cluster is paused", "%s on node %s, paused %s ago", a.Name, node.Name, now.Sub(at))
	}
	for _, b := range stored[*v1alpha1.RemediationBudget](o) {
		if at, paused := o.paused[b.Name]; paused && selects(b, node) && o.everybodyKnows(later(at, o.world.people.limited).Add(late)) && o.settled() {
			o.world.broken("No surprise: nothing begins in a pause", "%s on node %s, budget %s is paused since %s", a.Name, node.Name, b.Name, now.Sub(at))
		}
	}
}

// I6: what is executed is a step of a policy as it is now: enforced, not paused, and for
// this node.
func (o *oracles) underPolicy(e *execution, a *v1alpha1.NodeAction, node *corev1.Node) {
	if time.Since(o.edited[a.Spec.Policy.Name]) < e.node.late() {
		return
	}
	if why := o.notOfPolicy(a.Spec.Policy, e.order.Step, node); why != "" {
		o.world.broken("I6: only what a policy says is executed", "%s on node %s, and policy %s %s", a.Name, node.Name, a.Spec.Policy.Name, why)
	}
}

// notOfPolicy says why a step is not one of its policy for this node, "" if it is.
func (o *oracles) notOfPolicy(ref v1alpha1.PolicyReference, step v1alpha1.Step, node *corev1.Node) string {
	p := find[*v1alpha1.RemedyPolicy](o, ref.Name)
	switch {
	case p == nil || p.UID != ref.UID:
		return "is gone"
	case p.Spec.Paused:
		return "is paused"
	case p.Spec.Mode == v1alpha1.ModeDryRun:
		return "is not enforced"
	case !chosen(p.Spec.NodeSelector, node):
		return "does not select the node"
	}
	for i := range p.Spec.Steps {
		if equality.Semantic.DeepEqual(p.Spec.Steps[i], step) {
			return ""
		}
	}
	return "does not have the step"
}

// A node is rebooted, and its machine replaced, only out of service, and after the drain that the step asks for.
func (o *oracles) outOfService(e *execution) {
	w := o.world
	node := find[*corev1.Node](o, e.node.name)
	if e.remedy != v1alpha1.RemedyReboot && e.remedy != v1alpha1.RemedyReplace || node == nil || time.Since(node.CreationTimestamp.Time) < quietFor {
		return
	}
	if !o.returned[node.Name].IsZero() && !o.everybodyKnows(o.returned[node.Name].Add(e.node.late())) {
		return // a person has put it back meanwhile
	}
	if !node.Spec.Unschedulable {
		w.broken("A node is rebooted only out of service", "%s: node %s is not cordoned", e.order.Action, node.Name)
	}
	drain := e.order.Step.Drain()
	if drain == nil {
		return
	}
	for _, pod := range stored[*corev1.Pod](o) {
		vetoes := drain.VetoedBy != nil && pod.Labels[vetoLabel] != "" // whatever the time
		evicted := drain.OnTimeout != v1alpha1.OnTimeoutProceed && pod.Labels[vetoLabel] == ""
		if pod.Spec.NodeName == node.Name && pod.DeletionTimestamp == nil && (vetoes || evicted) {
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
	return staleFor
}
