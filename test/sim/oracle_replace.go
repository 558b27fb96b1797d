package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// replaces looks at a machine that has just been deleted, or marked to be, for an action: that is an
// execution like any other (I1, I2, I5, I6). The request may have been on its way for long.
func (o *oracles) replaces(m *machine, action string, sent time.Time) *execution {
	w := o.world
	w.count("executed: " + v1alpha1.RemedyReplace)
	a := find[*v1alpha1.NodeAction](o, action)
	if a == nil {
		return nil // deleted by force, or while the request was on its way
	}
	if c := a.Status.Claim; c == nil || a.Status.Replace == nil || a.Status.Replace.Machine != m.object() {
		w.broken("I2: what is deleted stands in the claim", "%s for %s", m.uid(), action)
	}
	if o.takenBack(a, sent) {
		w.broken("No machine is deleted once its action may have ended", "%s for %s", m.uid(), action)
	}
	order := remedy.Order{Action: action, UID: a.UID}
	if p := find[*v1alpha1.RemedyPolicy](o, a.Spec.Policy.Name); p != nil {
		if step := p.StepWithHash(a.Spec.StepHash); step != nil {
			order.Step = *step
		}
	}
	e := &execution{node: m.node, order: order, remedy: v1alpha1.RemedyReplace, boot: m.node.boot, began: time.Now(), outside: true, over: make(chan struct{})}
	m.node.executions = append(m.node.executions, e)
	if time.Since(sent) < time.Second && order.Step.Replace != nil {
		o.executed(e)
	}
	return e
}

// replacing looks at a machine for as long as it is being replaced: under the permits of the node's
// budgets (I1). That it was is said only of one that is gone.
func (o *oracles) replacing(m *machine) {
	for _, a := range stored[*v1alpha1.NodeAction](o) {
		if a.Spec.NodeName != m.node.name || a.Status.Replace == nil {
			continue
		}
		there := a.Status.Replace.Machine.UID == m.uid() && m.gone.IsZero()
		its := m.acts != nil && m.acts.order.UID == a.UID
		switch f := a.Finished(); {
		case f == nil && there && its && !m.deleted.IsZero():
			o.handedUnderPermit(a, m.node.name)
		case f != nil && there && (f.Reason == v1alpha1.ReasonReplaced || f.Reason == v1alpha1.ReasonNotReplaced):
			o.world.broken("A machine was replaced only when it is gone", "%s ended as %s", a.Name, f.Reason)
		case f != nil && there && its:
			if n := find[*corev1.Node](o, m.node.name); n != nil && n.UID == a.Spec.NodeUID && !o.world.people.blinded[a.Name] {
				o.world.broken("I1: an action lasts until the machine is gone that it has deleted", "%s ended as %s", a.Name, f.Reason)
			}
		}
	}
}
