package sim

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// latest is more than a request is ever on its way, with what happens before it is sent.
const latest = quietFor

// An action is taken as deleted only if it was: that a cache does not have it yet says
// nothing.
func (o *oracles) lostOnlyIfGone(old, updated *v1alpha1.Remediation) {
	history := updated.Status.History
	if len(history) == 0 || len(history) == len(old.Status.History) || updated.Annotations[v1alpha1.TombstoneAnnotation] != "" {
		return
	}
	last := history[len(history)-1]
	if last.Outcome == v1alpha1.ReasonLost && o.deleted[last.Action].IsZero() && find[*v1alpha1.NodeAction](o, last.Action) != nil {
		o.world.broken("An action is recorded as lost only if somebody has deleted it", "%s of %s", last.Action, updated.Name)
	}
}

// A remediation ends for the sake of its node only if that is gone: that a cache has the one
// before it says nothing.
func (o *oracles) endedOnlyIfGone(old, updated *v1alpha1.Remediation) {
	if old.Ended() || !updated.Ended() || updated.State() != v1alpha1.ReasonNodeGone {
		return
	}
	if node := find[*corev1.Node](o, updated.Spec.NodeName); node != nil && node.UID == updated.Spec.NodeUID {
		o.world.broken("A remediation ends as NodeGone only if its node is gone", "%s: node %s is there", updated.Name, node.Name)
	}
}

// A remediation ends as given back by a person only if a person has deleted its maintenance:
// that it has deleted an earlier one of the name itself says nothing.
func (o *oracles) releasedOnlyByPeople(old, updated *v1alpha1.Remediation) {
	if old.Ended() || !updated.Ended() || updated.State() != v1alpha1.ReasonReleased || o.released[old.Status.Maintenance] {
		return
	}
	if request := updated.Spec.Request; request != nil && !o.requests.over[request.UID].IsZero() {
		return // or by its driver
	}
	o.world.broken("A remediation ends as given back by a person only if a person has done so", "%s: nobody has deleted maintenance %q", updated.Name, old.Status.Maintenance)
}

// An action that nobody has claimed is given up for that only once it has expired.
func (o *oracles) expiredOnlyWhenDue(old, updated *v1alpha1.NodeAction) {
	finished := updated.Finished()
	if old == nil || old.Finished() != nil || finished == nil || finished.Reason != v1alpha1.ReasonExpired {
		return
	}
	const slack = 3 * time.Second // of clocks that are corrected
	if left := time.Until(updated.Spec.ExpiresAt.Time); left > slack {
		o.world.broken("An action is given up as expired only when it has expired", "%s, %s before expiresAt", updated.Name, left)
	}
}

// A runner that has its ledger reports how its remedy has ended, whatever befell it meanwhile.
func (o *oracles) reportedAsEnded(old, updated *v1alpha1.NodeAction) {
	finished, n := updated.Finished(), o.world.node(updated.Spec.NodeName)
	if old == nil || old.Finished() != nil || finished == nil {
		return
	}
	e := n.executionOf(updated.Name)
	if e == nil || e.order.UID != updated.UID || e.remedy == v1alpha1.RemedyReboot || !e.done || e.boot != n.boot || !n.ledgerLost.Before(e.began) {
		return
	}
	if e.remedy == v1alpha1.RemedyRestartUnit && !n.older.Before(e.began) {
		return // a runner took it over that does not know how to follow it
	}
	if finished.Reason != e.outcome {
		o.world.broken("A runner reports how its remedy has ended", "%s has ended as %s, and is reported as %s", updated.Name, e.outcome, finished.Reason)
	}
}

// What was executed is not reported as not executed: it would be repeated.
func (o *oracles) executedAsReported(old, updated *v1alpha1.NodeAction) {
	finished := updated.Finished()
	if old == nil || old.Finished() != nil || finished == nil || v1alpha1.MayHaveExecuted(finished.Reason) {
		return
	}
	if e := o.world.node(updated.Spec.NodeName).executionOf(updated.Name); e != nil && e.order.UID == updated.UID {
		o.world.broken("I2: what was executed is not reported as not executed", "%s is reported as %s", updated.Name, finished.Reason)
	}
}

// Nothing begins of an action that has finished.
func (o *oracles) notFinishedBefore(e *execution) {
	if a := o.actions[e.order.UID]; a != nil && a.Finished() != nil && o.deleted[a.Name].IsZero() {
		o.world.broken("I2: nothing is executed of an action that has finished", "%s, which is finished as %s", a.Name, a.Finished().Reason)
	}
}

// An action that its remediation has given up is not created any more, but by a request
// that was on its way.
func (o *oracles) createdAsAnnounced(a *v1alpha1.NodeAction) {
	at, told := o.forgotten[a.Name]
	if told && time.Since(at) > latest && a.Spec.ExpiresAt.After(time.Now()) {
		o.world.broken("No action is created that its remediation has given up", "%s, given up %s ago", a.Name, time.Since(at))
	}
}

// A remediation that is deleted stays until nothing of it can run.
func (o *oracles) goneWhenOver(old *v1alpha1.Remediation) {
	for _, e := range o.world.node(old.Spec.NodeName).executions {
		if e.runs() && strings.HasPrefix(e.order.Action, old.Name+"-") && o.deleted[e.order.Action].IsZero() {
			o.world.broken("A remediation that is deleted stays until nothing of it can run", "%s is gone while %s runs", old.Name, e.order.Action)
		}
	}
	for _, a := range stored[*v1alpha1.NodeAction](o) {
		claimable := a.Finished() == nil && a.Status.Claim == nil && a.Spec.ExpiresAt.After(time.Now())
		if a.Spec.RemediationUID == old.UID && claimable && time.Since(a.CreationTimestamp.Time) > time.Second {
			o.world.broken("A remediation that is deleted stays until nothing of it can run", "%s is gone while %s can be claimed", old.Name, a.Name)
		}
	}
}
