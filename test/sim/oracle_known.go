package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// caughtUp notes that the view of every controller is up to date, if it is.
func (o *oracles) caughtUp() {
	for _, p := range o.world.leaders() {
		if !p.view.Current() {
			return
		}
	}
	if len(o.world.leaders()) > 0 {
		o.current = append(o.current, time.Now())
	}
}

// knownSince is when every controller first knew what happened at a time; false: not yet.
func (o *oracles) knownSince(at time.Time) (since time.Time, known bool) {
	i, _ := slices.BinarySearchFunc(o.current, at, time.Time.Compare)
	if i == len(o.current) {
		return time.Time{}, false
	}
	return o.current[i], true
}

// everybodyKnows reports whether what happened at a time was seen by every controller, so
// long ago that nothing is on its way that was decided before.
func (o *oracles) everybodyKnows(at time.Time) bool {
	since, known := o.knownSince(at)
	return known && time.Since(since) > o.onItsWay()
}

// onItsWay is how long it may take from what a controller has read until the last write
// that comes of it.
func (o *oracles) onItsWay() time.Duration {
	if o.world.profile.steady {
		return 10 * time.Second
	}
	const look = lookTime + 5*time.Second
	if time.Since(o.world.delayed) > look {
		return look
	}
	return quietFor
}

// felt remembers since when a node is out of service, by the reason: each comes by an event
// of its own.
func (o *oracles) felt(name string) {
	node := find[*corev1.Node](o, name)
	if node == nil {
		delete(o.unwell, name)
		return
	}
	if o.unwell[name] == nil {
		o.unwell[name] = map[string]time.Time{}
	}
	o.since(name, "not Ready", notReady(node))
	o.since(name, "cordoned", node.Spec.Unschedulable)
	o.since(name, "deleted", node.DeletionTimestamp != nil)
	o.since(name, "leaving", leaving(node))
	o.since(name, "out of service", v1alpha1.IsOutOfService(node))
}

func (o *oracles) since(node, reason string, holds bool) {
	if _, known := o.unwell[node][reason]; !holds {
		delete(o.unwell[node], reason)
	} else if !known {
		o.unwell[node][reason] = time.Now()
	}
}

// knownUnwell reports whether everybody knows that a node is not healthy: not available, or
// with an open remediation.
func (o *oracles) knownUnwell(node *corev1.Node) bool {
	for _, since := range o.unwell[node.Name] {
		if o.everybodyKnows(since) {
			return true
		}
	}
	return slices.ContainsFunc(stored[*v1alpha1.Remediation](o), func(r *v1alpha1.Remediation) bool {
		return r.Spec.NodeUID == node.UID && !r.Ended() && o.everybodyKnows(r.CreationTimestamp.Add(time.Second)) && o.knownEnforced(r)
	})
}

// knownEnforced reports whether everybody knows that the policy of a remediation is not on trial.
func (o *oracles) knownEnforced(r *v1alpha1.Remediation) bool {
	return !o.onTrial(r) && o.everybodyKnows(o.edited[r.Spec.Policy.Name])
}

// onTrial reports whether the policy of a remediation only shows what it would do.
func (o *oracles) onTrial(r *v1alpha1.Remediation) bool {
	p := find[*v1alpha1.RemedyPolicy](o, r.Spec.Policy.Name)
	return p != nil && p.UID == r.Spec.Policy.UID && p.Spec.Mode == v1alpha1.ModeDryRun
}

// leaving reports whether an autoscaler is about to remove a node.
func leaving(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == leavingTaint })
}

// available reports whether a node is Ready, neither cordoned, out of service nor being deleted, and stays.
func available(n *corev1.Node) bool {
	ready := v1alpha1.FindNodeCondition(n, string(corev1.NodeReady))
	return ready != nil && ready.Status == corev1.ConditionTrue && !n.Spec.Unschedulable && n.DeletionTimestamp == nil && !leaving(n) && !v1alpha1.IsOutOfService(n)
}

// acted remembers since when the action of a remediation is under way, or may be.
func (o *oracles) acted(r *v1alpha1.Remediation) {
	if r.Status.Action == "" && r.BlockedBy() != v1alpha1.ReasonStillRunning || r.Ended() {
		delete(o.acting, r.Name)
	} else if _, known := o.acting[r.Name]; !known {
		o.acting[r.Name] = time.Now()
	}
}
