package gauges

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// How far back gauges look: at what befalls one node again and again, and at what fails
// on many nodes.
const (
	repeatedWithin = 24 * time.Hour
	actedWithin    = 6 * time.Hour
)

func (c *Collector) collectRemediations(ctx context.Context, out chan<- prometheus.Metric) {
	var list v1alpha1.RemediationList
	var policies v1alpha1.RemedyPolicyList
	if c.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil || c.Reader.List(ctx, &policies, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	dryRun := map[types.UID]bool{}
	for i := range policies.Items {
		dryRun[policies.Items[i].UID] = policies.Items[i].Spec.Mode == v1alpha1.ModeDryRun
	}
	type key struct{ policy, reason string }
	now, open, blocked, blockedFor := c.Clock.Now(), map[key]int{}, map[key]int{}, map[key]float64{}
	for i := range list.Items {
		r := &list.Items[i]
		if r.Ended() {
			continue
		}
		open[key{r.Spec.Policy.Name, r.State()}]++
		if by := r.BlockedBy(); by != "" {
			k := key{r.Spec.Policy.Name, by}
			blocked[k]++
			if dryRun[r.Spec.Policy.UID] && r.Untouched() {
				continue // nobody waits for what would not be done anyway
			}
			blockedFor[k] = max(blockedFor[k], now.Sub(heldSince(r)).Seconds())
		}
	}
	for k, n := range open {
		tell(out, c.open, n, k.policy, k.reason)
	}
	for k, n := range blocked {
		tell(out, c.blocked, n, k.policy, k.reason)
	}
	for k, seconds := range blockedFor {
		tell(out, c.blockedFor, seconds, k.policy, k.reason)
	}
	for policy, n := range mostRemediations(list.Items, now) {
		tell(out, c.repeated, n, policy)
	}
	for k, n := range actedOn(list.Items, now) {
		tell(out, c.actedOn, n, k.policy, k.remedy, k.outcome)
	}
}

// heldSince returns since when a blocked remediation is held back. One whose action is
// tried again and again without being executed is so since the first try.
func heldSince(r *v1alpha1.Remediation) time.Time {
	var since time.Time
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RemediationBlocked); c != nil {
		since = c.LastTransitionTime.Time
	}
	for i := len(r.Status.History) - 1; i >= 0; i-- {
		record := &r.Status.History[i]
		if record.Executed || record.Former {
			break
		}
		if record.FinishedAt.Time.Before(since) {
			since = record.FinishedAt.Time
		}
	}
	return since
}

// mostRemediations returns, by policy, how many remediations acted lately on the node
// that has had the most. A policy that acted on none is not there.
func mostRemediations(remediations []v1alpha1.Remediation, now time.Time) map[string]int {
	type key struct {
		policy string
		node   types.UID
	}
	count, most := map[key]int{}, map[string]int{}
	for i := range remediations {
		r := &remediations[i]
		last := r.Status.LastActed()
		if last == nil || now.Sub(last.FinishedAt.Time) > repeatedWithin {
			continue
		}
		k := key{r.Spec.Policy.Name, r.Spec.NodeUID}
		count[k]++
		most[k.policy] = max(most[k.policy], count[k])
	}
	return most
}

// actedKind is what actions have in common that are counted together.
type actedKind struct{ policy, remedy, outcome string }

// actedOn counts nodes by what became of the last of their latest actions of each policy
// and remedy.
func actedOn(remediations []v1alpha1.Remediation, now time.Time) map[actedKind]int {
	type key struct {
		policy, remedy string
		node           types.UID
	}
	last := map[key]*v1alpha1.ActionRecord{}
	for i := range remediations {
		r := &remediations[i]
		for j := range r.Status.History {
			record := &r.Status.History[j]
			if now.Sub(record.FinishedAt.Time) > actedWithin {
				continue
			}
			k := key{r.Spec.Policy.Name, record.Remedy, r.Spec.NodeUID}
			if other := last[k]; other == nil || !record.FinishedAt.Before(&other.FinishedAt) {
				last[k] = record
			}
		}
	}
	count := map[actedKind]int{}
	for k, record := range last {
		count[actedKind{k.policy, k.remedy, record.Outcome}]++
	}
	return count
}
