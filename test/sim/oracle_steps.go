package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// The next attempt or step is taken only after the one before was executed and a check has
// confirmed afterwards that the fault is still there, and so it is given up after the last.
func (o *oracles) advancedOnEvidence(old, updated *v1alpha1.Remediation) {
	before, after := &old.Status, &updated.Status
	advanced := after.Step > before.Step || after.Step == before.Step && after.Attempt > before.Attempt
	exhausted := old.State() != v1alpha1.ReasonExhausted && updated.State() == v1alpha1.ReasonExhausted
	if updated.Annotations[v1alpha1.TombstoneAnnotation] != "" || before.Step == 0 || !advanced && !exhausted || len(after.History) == 0 {
		return
	}
	last := &after.History[len(after.History)-1]
	if i := len(after.History) - 2; i >= 0 && last.Step == after.Step && last.Attempt == after.Attempt {
		last = &after.History[i] // the next one has failed at once
	}
	n := o.world.node(updated.Spec.NodeName)
	e := n.executionOf(last.Action)
	step := updated.Step(after.Step)
	ended, handed := o.handed[last.Action]
	// Of a node that was told to reboot and was not back in time nobody knows whether it has.
	unknown := last.Outcome == v1alpha1.ReasonNotBack
	if advanced && step.NeedsRunner() && e == nil && !handed && !unknown && !n.bootedSince(last) {
		o.world.broken("The next step is taken only after the one before was executed", "%s: %d/%d after %s", updated.Name, after.Step, after.Attempt, last.Outcome)
		return
	}
	if e != nil {
		ended = e.ends
	} else if handed && ended.IsZero() {
		o.world.broken("The next step is taken only after another program's object is gone", "%s: %d/%d", updated.Name, after.Step, after.Attempt)
		return
	}
	node := find[*corev1.Node](o, updated.Spec.NodeName)
	if node == nil || notReady(node) || time.Since(n.turned) < quietFor || ended.IsZero() || updated.Spec.Request != nil {
		return // steps that need its runner are left out while it is not Ready
	}
	for _, m := range updated.Spec.Match {
		if m.Type == string(corev1.NodeReady) || o.sawInAnyBoot(n, m.Type, m.Status, ended) {
			return
		}
	}
	o.world.broken("The next step is taken only after a check has confirmed the fault", "%s: %d/%d", updated.Name, after.Step, after.Attempt)
}

// No step is left out on a node that answers: steps that need its runner are while it is not
// Ready, and only then.
func (o *oracles) gentlestFirst(old, updated *v1alpha1.Remediation) {
	before, after := &old.Status, &updated.Status
	began := after.Action != "" && after.Action != before.Action || after.Maintenance != "" && before.Maintenance == ""
	if updated.Annotations[v1alpha1.TombstoneAnnotation] != "" || !began || len(after.History) == 0 {
		return // a tombstone tells what its remediation had begun
	}
	last := &after.History[len(after.History)-1]
	if last.Former || last.Outcome != v1alpha1.ReasonExpired || last.Step >= after.Step {
		return
	}
	node := find[*corev1.Node](o, updated.Spec.NodeName)
	if node != nil && !notReady(node) && o.everybodyKnows(o.world.node(node.Name).turned) {
		o.world.broken("No step is left out on a node that answers", "%s: step %d is begun, and %d was not executed, although node %s is Ready",
			updated.Name, after.Step, last.Step, node.Name)
	}
}

// executionOf returns the last execution of an action on the host, nil if there was none.
func (n *node) executionOf(action string) *execution {
	for i := len(n.executions) - 1; i >= 0; i-- {
		if n.executions[i].order.Action == action {
			return n.executions[i]
		}
	}
	return nil
}

// bootedSince reports whether the host has booted since a reboot was asked for: nobody can
// tell then whether that was why.
func (n *node) bootedSince(asked *v1alpha1.ActionRecord) bool {
	return asked.Remedy == v1alpha1.RemedyReboot && asked.StartedAt != nil && n.booted.After(asked.StartedAt.Time)
}

func notReady(node *corev1.Node) bool {
	c := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
	return c == nil || c.Status != corev1.ConditionTrue
}

// justRecovered reports whether the remediation has ended since its node has recovered.
func justRecovered(old, updated *v1alpha1.Remediation) bool {
	return !old.Ended() && updated.Ended() && (updated.State() == v1alpha1.ReasonRecovered || updated.State() == v1alpha1.ReasonRecoveredByItself)
}

// A node has recovered only when it was well for as long as the policy says.
func (o *oracles) recoveredForLong(old, updated *v1alpha1.Remediation) {
	node := find[*corev1.Node](o, updated.Spec.NodeName)
	if !justRecovered(old, updated) || node == nil || node.UID != updated.Spec.NodeUID {
		return
	}
	const slack = 5 * time.Second // of clocks that are corrected
	healthyFor := updated.Spec.Recovery.HealthyFor.Duration
	for i := range updated.Spec.Match {
		m := &updated.Spec.Match[i]
		c := v1alpha1.FindNodeCondition(node, m.Type)
		if m.Type == string(corev1.NodeReady) || m.Debounces() || c == nil || !o.everybodyKnows(o.turned[node.Name+"/"+m.Type]) {
			continue // or nobody may know yet what it is
		}
		if since := time.Since(c.LastTransitionTime.Time); m.Matches(c) || since < healthyFor-slack {
			o.world.broken("A node has recovered only when it was well for healthyFor", "%s: %s is %s since %s, healthyFor %s",
				updated.Name, m.Type, c.Status, since, healthyFor)
		}
	}
}

// A node has recovered only when the fault is gone that has started the remediation, however old a cache is: what has ended
// as recovered covers that fault.
func (o *oracles) recoveredFromItsFault(old, updated *v1alpha1.Remediation) {
	node := find[*corev1.Node](o, updated.Spec.NodeName)
	if !justRecovered(old, updated) || node == nil || node.UID != updated.Spec.NodeUID || updated.Spec.Request != nil {
		return
	}
	trigger := &updated.Spec.Trigger
	c := v1alpha1.FindNodeCondition(node, trigger.Type)
	debounced := v1alpha1.DebounceOf(updated.Spec.Match, trigger).Duration > 0
	if c != nil && c.Status == trigger.Status && c.LastTransitionTime.Equal(&trigger.LastTransitionTime) && !debounced {
		o.world.broken("A node has recovered only when its fault is gone", "%s: %s is %s since %s", updated.Name, c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.TimeOnly))
	}
}

// A node that was taken out has recovered only when it is Ready.
func (o *oracles) recoveredAsReady(old, updated *v1alpha1.Remediation) {
	if !justRecovered(old, updated) || old.Status.Maintenance == "" {
		return
	}
	if since, known := o.unwell[updated.Spec.NodeName]["not Ready"]; known && o.everybodyKnows(since) {
		o.world.broken("A node that was taken out has recovered only when it is Ready", "%s: node %s is not Ready since %s",
			updated.Name, updated.Spec.NodeName, time.Since(since))
	}
}

// A node that a policy leaves to people to give back is given back by them. One that was never
// cordoned is none.
func (o *oracles) releasedByPeople(old, updated *v1alpha1.Remediation) {
	m := find[*v1alpha1.NodeMaintenance](o, old.Status.Maintenance)
	if justRecovered(old, updated) && updated.Spec.Recovery.Release == v1alpha1.ReleaseManual &&
		m != nil && m.DeletionTimestamp == nil && m.WasCordoned() && o.named[m.UID] {
		o.world.broken("A node that a policy leaves to people to give back is given back by them", "%s, maintenance %s", updated.Name, m.Name)
	}
}

// A remediation starts over only when a person has asked for that, and once each time.
func (o *oracles) startedOverAsAsked(old, updated *v1alpha1.Remediation) {
	for _, record := range updated.Status.History {
		before := slices.IndexFunc(old.Status.History, func(r v1alpha1.ActionRecord) bool { return r.Action == record.Action })
		if before >= 0 && record.Former && !old.Status.History[before].Former && updated.Status.Retried == old.Status.Retried {
			o.world.broken("A remediation starts over only when a person has asked for that", "%s, with %s=%s as before",
				updated.Name, v1alpha1.RetryAnnotation, updated.Status.Retried)
		}
	}
}

// A node has recovered only when checks have seen so after the last execution.
func (o *oracles) recoveredOnEvidence(old, updated *v1alpha1.Remediation) {
	if !justRecovered(old, updated) {
		return
	}
	n := o.world.node(updated.Spec.NodeName)
	var after time.Time
	for _, e := range n.executions {
		if a := o.actions[e.order.UID]; a != nil && a.Spec.RemediationUID == updated.UID && e.ends.After(after) && !o.world.people.blinded[a.Name] {
			after = e.ends
		}
	}
	for _, m := range updated.Spec.Match {
		if m.Type != string(corev1.NodeReady) && !o.sawInAnyBoot(n, m.Type, corev1.ConditionFalse, after) {
			o.world.broken("A node has recovered only when a check has seen so", "%s: %s was not seen well since %s", updated.Name, m.Type, after.UTC().Format(time.TimeOnly))
		}
	}
}

// Nothing starts while the cluster is paused.
func (o *oracles) dueWhenCreated(action *v1alpha1.NodeAction) {
	remediation := find[*v1alpha1.Remediation](o, action.Spec.Remediation)
	node := find[*corev1.Node](o, action.Spec.NodeName)
	if action.Spec.ExpiresAt.Time.Before(time.Now().Add(-time.Hour)) || remediation == nil || node == nil {
		return // it only takes its name
	}
	pause := find[*v1alpha1.RemediationBudget](o, v1alpha1.ClusterPauseBudget)
	slack := 2 * time.Second // it is asked of the API server right before
	if o.world.mayBeOnItsWay() {
		slack = quietFor
	}
	if pause != nil && time.Since(pause.CreationTimestamp.Time) > slack {
		o.world.broken("A pause of the cluster holds from the moment at which it is written", "%s was created %s after it",
			action.Name, time.Since(pause.CreationTimestamp.Time))
	}
}

// Of two open remediations of one node and policy one ends soon: a create that was on its
// way for long may make a second one.
func (o *oracles) onlyOne() {
	w := o.world
	if len(w.leaders()) != 1 || !time.Now().After(w.troubled) {
		return
	}
	type both struct{ node, policy types.UID }
	open := map[both]string{}
	for _, r := range stored[*v1alpha1.Remediation](o) {
		if created := r.CreationTimestamp.Time; r.Ended() || !o.everybodyKnows(created) || w.wentWrong.After(created) || w.people.limited.After(created) {
			continue // not everybody may know of it yet
		}
		key := both{r.Spec.NodeUID, r.Spec.Policy.UID}
		if other, twice := open[key]; twice {
			w.broken("One remediation of a node and a policy is open at a time", "%s and %s", other, r.Name)
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
	if r := o.remediations[action.Spec.RemediationUID]; r != nil && !r.Approved(action.Spec.Step) {
		o.world.broken("A step that requires approval is not executed without it", "%s", e.order.Action)
	}
}

// Every node that is sick for long has a remediation of every policy for it.
func (o *oracles) noticed() {
	now := time.Now()
	if !o.quiet() || now.Sub(o.world.people.edited) <= quietFor || now.Sub(o.world.delayed) <= quietFor {
		return
	}
	for _, node := range stored[*corev1.Node](o) {
		for _, p := range stored[*v1alpha1.RemedyPolicy](o) {
			if !chosen(p.Spec.NodeSelector, node) {
				continue
			}
			for i := range p.Spec.Match {
				m := &p.Spec.Match[i]
				c := v1alpha1.FindNodeCondition(node, m.Type)
				if m.Matches(c) && m.Ignores(c, now) {
					o.world.count("a condition is too old to start anything")
					continue
				}
				if m.Type == wornOut && now.Sub(o.turned[node.Name+"/"+wornOut]) <= quietFor {
					continue // the agent says only now that it is so for long
				}
				if m.Debounces() {
					continue // for linksNoticed
				}
				if m.Matches(c) && now.Sub(c.LastTransitionTime.Add(m.For.Duration)) > quietFor && !c.LastTransitionTime.IsZero() && !o.cared(node, p, c, nil) {
					o.world.broken("Every sick node has a remediation", "node %s: %s is %s since %s, policy %s, and there is none",
						node.Name, c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.TimeOnly), p.Name)
				}
			}
		}
	}
}

// cared reports whether there is a remediation for the condition: open, or of this incident. Of a condition
// with debounce, seen is since when a controller that has always watched has seen it.
func (o *oracles) cared(node *corev1.Node, p *v1alpha1.RemedyPolicy, c *corev1.NodeCondition, seen *metav1.Time) bool {
	trigger := v1alpha1.Trigger{Type: string(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime, SeenSince: seen}
	for _, r := range stored[*v1alpha1.Remediation](o) {
		if r.Spec.NodeUID == node.UID && r.Spec.Policy.UID == p.UID && (!r.Ended() || r.Covers(&trigger, v1alpha1.DebounceOf(p.Spec.Match, &trigger))) {
			return true
		}
	}
	return false
}
