package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// debounceSlack is how far what an agent reports and what a controller sees of it may be from
// each other, for what is about as long as debounce.
const debounceSlack = 5 * time.Second

// linkEntry returns the entry of a match for links, nil if there is none.
func linkEntry(match []v1alpha1.ConditionMatch) *v1alpha1.ConditionMatch {
	for i := range match {
		if match[i].Type == linkLost {
			return &match[i]
		}
	}
	return nil
}

// lostFor looks for how long a link was lost when somebody acts on that, and reports whether it
// was shorter than the entry's for. Nobody has to know of the contrary piece before it yet. A
// process measures such times by a clock that never jumps, and the one here does.
func (o *oracles) lostFor(l *link, m *v1alpha1.ConditionMatch) (since time.Time, short bool) {
	since, before, is := l.held(corev1.ConditionTrue, linkDebounce+debounceSlack)
	if !is || !before.IsZero() && !o.everybodyKnows(before) || !o.world.skewed.Before(since) {
		return since, false
	}
	return since, time.Since(since) < m.For.Duration-clockSlack
}

// Debounce never hastens: a remediation starts only after the status was not another one for
// debounce in one piece, for as long as the entry says; and not for what was there already when
// another one ended.
func (o *oracles) startedByDebounce(created *v1alpha1.Remediation) {
	l, m := o.links[created.Spec.NodeUID], linkEntry(created.Spec.Match)
	if l == nil || m == nil || created.Spec.Trigger.Type != linkLost || created.Annotations[v1alpha1.TombstoneAnnotation] != "" {
		return
	}
	since, short := o.lostFor(l, m)
	if short {
		o.world.broken("A remediation starts only after its condition has held for its time, but for pieces shorter than debounce", "%s: %s since %s",
			created.Name, linkLost, since.UTC().Format(time.TimeOnly))
	}
	if created.Spec.Trigger.SeenSince != nil {
		o.world.count("a remediation starts for a condition with debounce")
	}
	if !o.quiet() || time.Since(o.world.people.unburied) < quietFor || time.Since(o.world.people.meddled) < quietFor || time.Since(o.edited[created.Spec.Policy.Name]) < quietFor {
		return
	}
	since, before, is := l.held(corev1.ConditionTrue, linkDebounce-debounceSlack)
	if !is || !before.IsZero() && !o.everybodyKnows(before) {
		return
	}
	for _, r := range o.onRecord() {
		if r.UID == created.UID || r.Spec.NodeUID != created.Spec.NodeUID || r.Spec.Policy.UID != created.Spec.Policy.UID || !r.Ended() || !o.ofLink(r) {
			continue
		}
		if since.Before(r.Status.EndTime.Time) { // without an end
			o.world.broken("An incident of a condition with debounce starts one remediation", "%s, after %s (%s): %s since %s",
				created.Name, r.Name, r.State(), linkLost, since.UTC().Format(time.TimeOnly))
		}
	}
}

// ofLink reports whether the incident of an ended remediation is a lost link.
func (o *oracles) ofLink(r *v1alpha1.Remediation) bool {
	m := linkEntry(r.Spec.Match)
	return m != nil && m.Debounces() && (r.Spec.Trigger.Type == linkLost || r.State() == v1alpha1.ReasonDeleted)
}

// stepsByDebounce: a link that was seen healthy during the remediation is lost for its time again
// before the next step, if nothing else is the reason.
func (o *oracles) stepsByDebounce(r *v1alpha1.Remediation, node *corev1.Node) {
	l, m := o.links[node.UID], linkEntry(r.Spec.Match)
	if l == nil || m == nil || notReady(node) {
		return
	}
	for i := range r.Spec.Match {
		other := &r.Spec.Match[i]
		if other.Type != linkLost && (other.Matches(v1alpha1.FindNodeCondition(node, other.Type)) || !o.everybodyKnows(o.turned[node.Name+"/"+other.Type])) {
			return
		}
	}
	if since, short := o.lostFor(l, m); short && since.After(r.CreationTimestamp.Add(time.Second)) {
		o.world.broken("No surprise: a condition with debounce that has come back holds for its time before the next step", "%s: %s since %s",
			r.Name, linkLost, since.UTC().Format(time.TimeOnly))
	}
}

// A node has recovered only when a condition with debounce was healthy for that, and healthyFor,
// in one piece. Only what is shorter than the time between two reports may be missed, and that
// only where watches are interrupted. A clock that has jumped excuses, as for what was lost.
func (o *oracles) recoveredByDebounce(old, updated *v1alpha1.Remediation) {
	l, m := o.links[updated.Spec.NodeUID], linkEntry(updated.Spec.Match)
	if !justRecovered(old, updated) || l == nil || m == nil || !m.Debounces() {
		return
	}
	shorter := linkDebounce
	if o.world.profile.steady {
		shorter = 0
	}
	since, before, is := l.held(corev1.ConditionFalse, shorter)
	least := max(m.Debounce.Duration, updated.Spec.Recovery.HealthyFor.Duration) - clockSlack
	if !before.IsZero() && o.everybodyKnows(before) && (!is || o.world.skewed.Before(since) && time.Since(since) < least) {
		o.world.broken("A node has recovered only when a condition with debounce was healthy in one piece", "%s: %s since %s",
			updated.Name, linkLost, since.UTC().Format(time.TimeOnly))
	}
	o.world.count("a condition with debounce has recovered")
}

// Repair comes, however often a reason alternates or a fault is taken back for moments; and what
// a person has given back is another incident once it was seen healthy.
func (o *oracles) linksNoticed() {
	now := time.Now()
	if !o.quiet() || now.Sub(o.world.people.edited) <= quietFor || now.Sub(o.world.delayed) <= quietFor {
		return
	}
	for _, node := range stored[*corev1.Node](o) {
		l := o.links[node.UID]
		if l == nil || now.Sub(l.wrote) > linkPeriod+time.Second {
			continue
		}
		known := later(later(l.gap, o.world.troubled), node.CreationTimestamp.Time)
		since, _, is := l.held(corev1.ConditionTrue, linkDebounce-debounceSlack)
		c := v1alpha1.FindNodeCondition(node, linkLost)
		for _, p := range stored[*v1alpha1.RemedyPolicy](o) {
			m := linkEntry(p.Spec.Match)
			if is && m != nil && m.Matches(c) && chosen(p.Spec.NodeSelector, node) && now.Sub(later(since, known).Add(m.For.Duration)) > quietFor && !o.cared(node, p, c, &metav1.Time{Time: since}) {
				o.world.broken("Every sick node has a remediation, although its condition flickers", "node %s: %s since %s, policy %s, and there is none",
					node.Name, linkLost, since.UTC().Format(time.TimeOnly), p.Name)
			}
		}
		o.healthyWrittenDown(node, l, known)
	}
}

func (o *oracles) healthyWrittenDown(node *corev1.Node, l *link, known time.Time) {
	since, _, is := l.held(corev1.ConditionFalse, 0)
	for _, r := range stored[*v1alpha1.Remediation](o) {
		if r.Spec.NodeUID != node.UID || !r.Ended() || r.DeletionTimestamp != nil || len(r.AwaitedHealthy()) == 0 {
			continue
		}
		if is && time.Since(later(later(since, known), r.Status.EndTime.Time)) > linkDebounce+quietFor {
			o.world.broken("That a condition was seen healthy since a person has ended its remediation is written down", "%s: %s is healthy since %s",
				r.Name, linkLost, since.UTC().Format(time.TimeOnly))
		}
	}
}
