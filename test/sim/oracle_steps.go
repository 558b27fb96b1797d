package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// The next attempt or step is taken only after the one before was executed and a check has
// confirmed afterwards that the fault is still there.
func (o *oracles) advancedOnEvidence(old, updated *v1alpha1.Remediation) {
	before, after := &old.Status, &updated.Status
	if updated.Annotations[v1alpha1.TombstoneAnnotation] != "" || before.Step == 0 || after.Step < before.Step || after.Step == before.Step && after.Attempt <= before.Attempt || len(after.History) == 0 {
		return
	}
	node := find[*corev1.Node](o, updated.Spec.NodeName)
	n := o.world.node(updated.Spec.NodeName)
	if node == nil || notReady(node) || time.Since(n.turned) < quietFor {
		return // then steps are left out that need its runner
	}
	last := after.History[len(after.History)-1]
	if !last.Executed {
		if last.Outcome != v1alpha1.ReasonExpired { // twice in vain on a node that was not Ready
			o.world.broken("The next step is taken only after the one before was executed", "%s: %d/%d after %s", updated.Name, after.Step, after.Attempt, last.Outcome)
		}
		return
	}
	for _, e := range n.executions {
		if e.order.Action != last.Action || e.ends.IsZero() {
			continue
		}
		for _, m := range updated.Spec.Match {
			if m.Type == string(corev1.NodeReady) || o.sawInAnyBoot(n, m.Type, m.Status, e.ends) {
				return
			}
		}
		o.world.broken("The next step is taken only after a check has confirmed the fault", "%s: %d/%d", updated.Name, after.Step, after.Attempt)
	}
}

func notReady(node *corev1.Node) bool {
	c := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
	return c == nil || c.Status != corev1.ConditionTrue
}

// A node has recovered only when checks have seen so after the last execution.
func (o *oracles) recoveredOnEvidence(old, updated *v1alpha1.Remediation) {
	if old.Ended() || !updated.Ended() || updated.State() != v1alpha1.ReasonRecovered && updated.State() != v1alpha1.ReasonRecoveredByItself {
		return
	}
	n := o.world.node(updated.Spec.NodeName)
	var after time.Time
	for _, e := range n.executions {
		if e.ends.After(after) && strings.HasPrefix(e.order.Action, updated.Name+"-") {
			after = e.ends
		}
	}
	for _, m := range updated.Spec.Match {
		if m.Type != string(corev1.NodeReady) && !o.sawInAnyBoot(n, m.Type, corev1.ConditionFalse, after) {
			o.world.broken("A node has recovered only when a check has seen so", "%s: %s was not seen well since %s", updated.Name, m.Type, after.UTC().Format(time.TimeOnly))
		}
	}
}

// Nothing starts before a condition has held for its time, and nothing while the cluster
// is paused.
func (o *oracles) dueWhenCreated(action *v1alpha1.NodeAction) {
	remediation := find[*v1alpha1.Remediation](o, action.Spec.Remediation)
	node := find[*corev1.Node](o, action.Spec.NodeName)
	if action.Spec.ExpiresAt.Time.Before(time.Now().Add(-time.Hour)) || remediation == nil || node == nil {
		return // it only takes its name
	}
	pause := find[*v1alpha1.RemediationBudget](o, v1alpha1.ClusterPauseBudget)
	if pause != nil && time.Since(pause.CreationTimestamp.Time) > quietFor {
		o.world.broken("A pause of the cluster holds from the moment at which it is written", "%s was created %s after it",
			action.Name, time.Since(pause.CreationTimestamp.Time))
	}
}

// Of two open remediations of one node and policy one ends soon: a create that was on its
// way for long may make a second one.
func (o *oracles) onlyOne() {
	if !o.quiet() {
		return
	}
	type both struct{ node, policy types.UID }
	open := map[both]string{}
	for _, r := range stored[*v1alpha1.Remediation](o) {
		if r.Ended() || time.Since(r.CreationTimestamp.Time) < quietFor {
			continue
		}
		key := both{r.Spec.NodeUID, r.Spec.Policy.UID}
		if other, twice := open[key]; twice {
			o.world.broken("One remediation of a node and a policy is open at a time", "%s and %s", other, r.Name)
		}
		open[key] = r.Name
	}
}

// A step that requires approval is not executed without it.
func (o *oracles) approved(e *execution) {
	action := find[*v1alpha1.NodeAction](o, e.order.Action)
	if action == nil || !e.order.Step.RequireApproval {
		return
	}
	if r := find[*v1alpha1.Remediation](o, action.Spec.Remediation); r != nil && !r.Approved(action.Spec.Step) {
		o.world.broken("A step that requires approval is not executed without it", "%s", e.order.Action)
	}
}

// Every node that is sick for long has a remediation of every policy for it.
func (o *oracles) noticed() {
	now := time.Now()
	if !o.quiet() || now.Sub(o.world.people.edited) <= quietFor {
		return
	}
	for _, node := range stored[*corev1.Node](o) {
		for _, p := range stored[*v1alpha1.RemedyPolicy](o) {
			if selected, err := fleet.Selects(p.Spec.NodeSelector, node); err != nil || !selected {
				continue
			}
			for i := range p.Spec.Match {
				m := &p.Spec.Match[i]
				c := v1alpha1.FindNodeCondition(node, m.Type)
				if m.Matches(c) && now.Sub(c.LastTransitionTime.Add(m.For.Duration)) > quietFor && !c.LastTransitionTime.IsZero() && !o.cared(node, p, c) {
					o.world.broken("Every sick node has a remediation", "node %s: %s is %s since %s, policy %s, and there is none",
						node.Name, c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.TimeOnly), p.Name)
				}
			}
		}
	}
}

// cared reports whether there is a remediation for the condition: open, or of this incident.
func (o *oracles) cared(node *corev1.Node, p *v1alpha1.RemedyPolicy, c *corev1.NodeCondition) bool {
	trigger := v1alpha1.Trigger{Type: string(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime}
	for _, r := range stored[*v1alpha1.Remediation](o) {
		if r.Spec.NodeUID == node.UID && r.Spec.Policy.UID == p.UID && (!r.Ended() || r.Covers(&trigger)) {
			return true
		}
	}
	return false
}
