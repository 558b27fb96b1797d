package gates

import (
	"fmt"
	"time"

	"github.com/nodemend/nodemend/internal/cut"
)

// ReasonMaxRemediations says that the policy has acted on the node too often.
const ReasonMaxRemediations = "MaxRemediations"

// MaxRemediations holds an action on a node on which as many remediations of the
// policy acted lately as its maxRemediations allows: people have to look.
func MaxRemediations(in Input) Verdict {
	if in.Policy == nil || in.Policy.Spec.MaxRemediations == nil {
		return Verdict{}
	}
	var acted []time.Time
	for _, r := range in.counted() {
		if last := r.Status.LastActed(); last != nil && r.Spec.Policy.UID == in.Policy.UID {
			acted = append(acted, last.FinishedAt.Time)
		}
	}
	rate := in.Policy.Spec.MaxRemediations
	count, next, held := exceeded(rate, acted, in.Now)
	if !held {
		return open("%d of %d allowed remediations in the last %s", count, rate.Count, cut.Zeros(rate.Per.Duration))
	}
	return Verdict{
		Reason: ReasonMaxRemediations,
		Message: fmt.Sprintf("%d of %d allowed remediations of policy %s acted on node %s in the last %s; %s; to let it act earlier, raise spec.maxRemediations of the policy",
			count, rate.Count, in.Policy.Name, in.Node.Name, cut.Zeros(rate.Per.Duration), nextMay("act", next)),
		Recheck: recheckAt(next, in.Now),
	}
}
