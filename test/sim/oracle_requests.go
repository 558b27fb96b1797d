package sim

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// requests is what is known of NodemendRemediations.
type requests struct {
	// over is since when one is deleted, or its driver has told to stop, by its UID.
	over map[types.UID]time.Time
	// made has the remediations of each by their UIDs.
	made map[types.UID]map[types.UID]bool
}

// requestChanged looks at a request: what it tells its driver is never taken back, and true.
func (o *oracles) requestChanged(old, updated *v1alpha1.NodemendRemediation) {
	_, stop := updated.Annotations[timedOut]
	if _, known := o.requests.over[updated.UID]; !known && (stop || updated.DeletionTimestamp != nil) {
		o.requests.over[updated.UID] = time.Now()
	}
	status := func(r *v1alpha1.NodemendRemediation, kind string) metav1.ConditionStatus {
		if c := meta.FindStatusCondition(r.Status.Conditions, kind); c != nil {
			return c.Status
		}
		return ""
	}
	const contract = "What a driver is told is never taken back"
	processing, succeeded := status(updated, v1alpha1.RequestProcessing), status(updated, v1alpha1.RequestSucceeded)
	for kind, now := range map[string]metav1.ConditionStatus{v1alpha1.RequestProcessing: processing, v1alpha1.RequestSucceeded: succeeded} {
		if old != nil && status(old, kind) == metav1.ConditionFalse && now != metav1.ConditionFalse {
			o.world.broken(contract, "%s of %s is %s", kind, updated.Name, now)
		}
	}
	switch {
	case processing == metav1.ConditionTrue && succeeded != metav1.ConditionUnknown, processing == "" && succeeded != "":
		o.world.broken("Conditions of a request never contradict each other", "%s: Processing %s, Succeeded %s", updated.Name, processing, succeeded)
	case succeeded == metav1.ConditionTrue && updated.DeletionTimestamp == nil:
		o.world.broken("A request that stands has not succeeded", "%s", updated.Name)
	}
	if processing == metav1.ConditionFalse && (old == nil || status(old, v1alpha1.RequestProcessing) != metav1.ConditionFalse) {
		o.world.count("a request ended as " + meta.FindStatusCondition(updated.Status.Conditions, v1alpha1.RequestProcessing).Reason)
		o.nothingRuns(updated, "Nothing runs for a request that is not processed any more")
	}
}

// nothingRuns looks for what runs for a request.
func (o *oracles) nothingRuns(asked *v1alpha1.NodemendRemediation, rule string) {
	for _, n := range o.world.nodes {
		for _, e := range n.executions {
			a := o.actions[e.order.UID]
			if a == nil || !e.runs() || o.world.people.blinded[a.Name] {
				continue
			}
			if o.world.people.forced[a.Spec.RemediationUID] { // nobody waits for what it has begun
				continue
			}
			if r := o.remediations[a.Spec.RemediationUID]; r != nil && r.Spec.Request != nil && r.Spec.Request.UID == asked.UID && o.deleted[a.Name].IsZero() {
				o.world.broken(rule, "%s: %s runs on node %s", asked.Name, a.Name, n.name)
			}
		}
	}
}

// requestGone looks at a request that is gone: it was held until its remediation had ended and its node
// was back in service.
func (o *oracles) requestGone(old *v1alpha1.NodemendRemediation) {
	const held = "A request stays until its remediation has ended, and its node is back in service"
	r := find[*v1alpha1.Remediation](o, old.Status.Remediation)
	if r == nil || r.Spec.Request == nil || r.Spec.Request.UID != old.UID {
		return
	}
	if !r.Ended() && time.Since(r.CreationTimestamp.Time) > time.Second {
		o.world.broken(held, "%s: %s is %s", old.Name, r.Name, r.State())
	}
	if m := find[*v1alpha1.NodeMaintenance](o, o.outFor(r)); m != nil && r.Status.Maintenance == "" {
		o.world.broken(held, "%s: node %s is out for maintenance %s", old.Name, r.Spec.NodeName, m.Name)
	}
}

// outFor is the maintenance for which the node of a remediation is out.
func (o *oracles) outFor(r *v1alpha1.Remediation) string {
	for _, m := range stored[*v1alpha1.NodeMaintenance](o) {
		if m.Spec.Remediation != nil && m.Spec.Remediation.UID == r.UID && m.CreationTimestamp.Before(r.Status.EndTime) {
			return m.Name
		}
	}
	return ""
}

// oneForARequest looks at a remediation that was made for a request. What a controller has asked for that waits no more
// may come when a person has deleted the first one: nobody can take it back.
func (o *oracles) oneForARequest(created *v1alpha1.Remediation) {
	request := created.Spec.Request
	if request == nil || created.Annotations[v1alpha1.TombstoneAnnotation] != "" {
		return
	}
	made := o.requests.made[request.UID]
	if made == nil {
		made = map[types.UID]bool{}
		o.requests.made[request.UID] = made
	}
	made[created.UID] = true
	if w := o.world; w.serving != nil && w.serving.abandoned {
		return
	}
	if len(made) > 1 && time.Since(o.world.people.unburied) > quietFor && time.Since(o.world.people.meddled) > quietFor && o.everybodyKnows(o.world.people.meddled) {
		o.world.broken("One remediation is made for a request", "%s for %s", created.Name, request)
	}
}

// requestStands looks at what is begun for a request: it stood when it was last asked for.
func (o *oracles) requestStands(r *v1alpha1.Remediation, what string) {
	if at, over := o.requests.over[r.Spec.Request.UID]; over && time.Since(at) > o.onItsWay() {
		o.world.broken("Nothing is begun for a request that is withdrawn, or whose driver has told to stop", "%s of %s, %s after that", what, r.Name, time.Since(at))
	}
}
