package sim

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// withinRates looks whether the policy may act on the node again so soon and so often. It
// counts what hosts have executed, for remediations that are still on record.
func (o *oracles) withinRates(e *execution) {
	w := o.world
	a := o.actions[e.order.UID]
	if a == nil || w.people.meddled.After(time.Now().Add(-2*time.Hour)) {
		return // others did away with the record
	}
	p := find[*v1alpha1.RemedyPolicy](o, a.Spec.Policy.Name)
	if p == nil || p.UID != a.Spec.Policy.UID || time.Since(o.edited[p.Name]) < quietFor {
		return
	}
	const slack = 3 * time.Second // of clocks that are corrected
	acted := 0
	for _, r := range o.onRecord() {
		last := o.lastExecution(e.node, r)
		if r.UID == a.Spec.RemediationUID || r.Spec.Policy.UID != p.UID || r.Spec.NodeUID != a.Spec.NodeUID || last.IsZero() {
			continue
		}
		if r.Ended() && p.Spec.Cooldown != nil && time.Since(r.Status.EndTime.Time) < p.Spec.Cooldown.Duration-slack {
			w.broken("A policy does not act on a node again before its cooldown is over", "%s on node %s, %s after %s has ended, cooldown %s",
				a.Name, e.node.name, time.Since(r.Status.EndTime.Time), r.Name, p.Spec.Cooldown.Duration)
		}
		if rate := p.Spec.MaxRemediations; rate != nil && time.Since(last) < rate.Per.Duration-slack {
			acted++
		}
	}
	if rate := p.Spec.MaxRemediations; rate != nil && acted >= int(rate.Count) {
		w.broken("A policy does not act on a node more often than maxRemediations allows", "%s on node %s, after %d others within %s, %d are allowed",
			a.Name, e.node.name, acted, rate.Per.Duration, rate.Count)
	}
}

// onRecord are the remediations that there are, and those that the controller has deleted of
// its own accord, by their names.
func (o *oracles) onRecord() []*v1alpha1.Remediation {
	all := slices.Clone(stored[*v1alpha1.Remediation](o))
	for uid, r := range o.remediations {
		if o.collected[uid] && find[*v1alpha1.Remediation](o, r.Name) == nil {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *v1alpha1.Remediation) int { return cmp.Compare(a.Name+string(a.UID), b.Name+string(b.UID)) })
	return all
}

// lastExecution is when the last execution for a remediation began; zero: there was none.
func (o *oracles) lastExecution(n *node, r *v1alpha1.Remediation) (last time.Time) {
	for _, e := range n.executions {
		if a := o.actions[e.order.UID]; a != nil && a.Spec.RemediationUID == r.UID && e.began.After(last) {
			last = e.began
		}
	}
	return last
}

// An incident starts one remediation, even if a person has deleted that.
func (o *oracles) startedOnce(created *v1alpha1.Remediation) {
	if created.Annotations[v1alpha1.TombstoneAnnotation] != "" || !o.quiet() || time.Since(o.world.people.unburied) < quietFor || time.Since(o.world.people.meddled) < quietFor {
		return
	}
	for _, r := range o.onRecord() {
		if r.UID == created.UID || r.Spec.NodeUID != created.Spec.NodeUID || r.Spec.Policy.UID != created.Spec.Policy.UID || created.Spec.Request != nil {
			continue // of a request oneForARequest tells
		}
		if r.Ended() && r.State() == v1alpha1.ReasonDuplicate {
			continue // that of which it was one tells
		}
		if sameIncident(&created.Spec.Trigger, &r.Spec.Trigger) || deletedWith(r, &created.Spec.Trigger) || givenBackWith(r, &created.Spec.Trigger) {
			o.world.broken("An incident starts one remediation", "%s, after %s (%s)", created.Name, r.Name, r.State())
		}
	}
}

// A remediation starts for a policy as it is, not for one that is gone or was edited.
func (o *oracles) startedUnderPolicy(created *v1alpha1.Remediation) {
	ref := created.Spec.Policy
	if created.Annotations[v1alpha1.TombstoneAnnotation] != "" || time.Since(o.edited[ref.Name]) <= o.onItsWay() {
		return
	}
	if p := find[*v1alpha1.RemedyPolicy](o, ref.Name); p == nil || p.UID != ref.UID || !equality.Semantic.DeepEqual(p.Spec.Steps, created.Spec.Steps) {
		o.world.broken("A remediation starts for a policy as it is", "%s: policy %s was changed at %s", created.Name, ref.Name, o.edited[ref.Name].UTC().Format(time.TimeOnly))
	}
}

func sameIncident(a, b *v1alpha1.Trigger) bool {
	return a.Type == b.Type && a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// deletedWith reports whether a person has deleted a remediation when a condition that it
// was for as well was there already.
func deletedWith(r *v1alpha1.Remediation, t *v1alpha1.Trigger) bool {
	return r.Ended() && r.State() == v1alpha1.ReasonDeleted && !t.LastTransitionTime.After(r.Status.EndTime.Time) &&
		slices.ContainsFunc(r.Spec.Match, func(m v1alpha1.ConditionMatch) bool { return m.Type == t.Type && m.Status == t.Status })
}

// givenBackWith reports whether a person has given the node of a remediation back when what had
// started it was there, though it may have been gone in between.
func givenBackWith(r *v1alpha1.Remediation, t *v1alpha1.Trigger) bool {
	return r.Ended() && r.State() == v1alpha1.ReasonReleased && !t.LastTransitionTime.After(r.Status.EndTime.Time) &&
		t.Type == r.Spec.Trigger.Type && t.Status == r.Spec.Trigger.Status
}

// A remediation starts only after its condition has held for its time.
func (o *oracles) heldForLong(created *v1alpha1.Remediation) {
	t := &created.Spec.Trigger
	if created.Annotations[v1alpha1.TombstoneAnnotation] != "" || created.Spec.Request != nil {
		return
	}
	held := time.Since(t.LastTransitionTime.Time) + clockSlack
	for _, m := range created.Spec.Match {
		if m.Type == t.Type && m.Status == t.Status && (m.Debounces() || held >= m.For.Duration) {
			return
		}
	}
	o.world.broken("A remediation starts only after its condition has held for its time", "%s: %s is %s since %s",
		created.Name, t.Type, t.Status, t.LastTransitionTime.UTC().Format(time.TimeOnly))
}

// A deleted remediation leaves a tombstone as long as its incident lasts.
func (o *oracles) buried(gone *v1alpha1.Remediation) {
	if gone.State() != v1alpha1.ReasonDeleted || gone.Annotations[v1alpha1.TombstoneAnnotation] != "" {
		return
	}
	if w := o.world; time.Since(w.people.meddled) < quietFor || time.Since(w.people.unburied) < quietFor {
		return
	}
	if !hasTombstone(o.onRecord(), gone.Name) {
		o.world.broken("A deleted remediation leaves a tombstone", "%s", gone.Name)
	}
}

// A tombstone says when its remediation started.
func (o *oracles) startedAsBuried(created *v1alpha1.Remediation) {
	of := o.remediations[types.UID(created.Annotations[v1alpha1.TombstoneUIDAnnotation])]
	if of != nil && !created.StartedAt().Time.Equal(of.CreationTimestamp.Time) {
		o.world.broken("A tombstone says when its remediation started", "%s at %s, %s at %s", created.Name,
			created.StartedAt().UTC().Format(time.TimeOnly), of.Name, of.CreationTimestamp.UTC().Format(time.TimeOnly))
	}
}

// hasTombstone reports whether one of these is the tombstone of a remediation.
func hasTombstone(all []*v1alpha1.Remediation, name string) bool {
	return slices.ContainsFunc(all, func(r *v1alpha1.Remediation) bool { return r.Annotations[v1alpha1.TombstoneAnnotation] == name })
}
