package remediation

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// How far back gauges look: at what befalls one node again and again, and at what fails
// on many nodes.
const (
	repeatedWithin = 24 * time.Hour
	actedWithin    = 6 * time.Hour
)

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
		last := lastActed(&r.Status)
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
