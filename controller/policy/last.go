package policy

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Tally is what there is of a policy's remediations.
type Tally struct {
	// Open is the number of those that have not ended.
	Open int32
	// Last is the one that started last; nil if there is none.
	Last *v1alpha1.LastRemediation
}

// Tallies returns those of all policies that have remediations, by the UID of the policy. A
// duplicate counts as little as a tombstone does before it has its memory: something else has
// counted for both.
func Tallies(remediations []v1alpha1.Remediation) map[types.UID]Tally {
	tallies := map[types.UID]Tally{}
	for i := range remediations {
		r := &remediations[i]
		_, tombstone := r.Annotations[v1alpha1.TombstoneAnnotation]
		if tombstone && !r.Ended() || r.State() == v1alpha1.ReasonDuplicate {
			continue
		}
		t := tallies[r.Spec.Policy.UID]
		if !r.Ended() {
			t.Open++
		}
		if t.Last == nil || later(r, t.Last) {
			t.Last = &v1alpha1.LastRemediation{Name: r.Name, NodeName: r.Spec.NodeName, StartedAt: r.StartedAt(), EndedAt: r.Status.EndTime.DeepCopy()}
			if r.Ended() {
				t.Last.Outcome = r.State()
			}
		}
		tallies[r.Spec.Policy.UID] = t
	}
	return tallies
}

// later orders by the start; the name decides in one second, and so between a remediation and
// its tombstone.
func later(r *v1alpha1.Remediation, than *v1alpha1.LastRemediation) bool {
	return cmp.Or(r.StartedAt().Compare(than.StartedAt.Time), strings.Compare(r.Name, than.Name)) > 0
}

// latest returns which is to be told, of what was told before and what is known now. What has
// ended may be gone.
func latest(told, known *v1alpha1.LastRemediation) *v1alpha1.LastRemediation {
	if told != nil && told.EndedAt != nil && (known == nil || told.StartedAt.After(known.StartedAt.Time)) {
		return told
	}
	return known
}
