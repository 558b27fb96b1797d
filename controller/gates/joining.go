package gates

import (
	"fmt"

	"github.com/nodemend/nodemend/internal/cut"
)

// ReasonJoining says that the node has joined the cluster only just.
const ReasonJoining = "Joining"

// Joining holds an action on a node that is younger than the policy's
// delayAfterJoin: what is still starting is no fault.
func Joining(in Input) Verdict {
	if in.Policy == nil || in.Policy.Spec.DelayAfterJoin == nil {
		return Verdict{}
	}
	joined, delay := in.Node.CreationTimestamp, in.Policy.Spec.DelayAfterJoin.Duration
	until := joined.Add(delay)
	if !until.After(in.Now) {
		return Verdict{}
	}
	return Verdict{
		Reason: ReasonJoining,
		Message: fmt.Sprintf("node %s joined the cluster at %s; policy %s may act on it at %s, %s later (spec.delayAfterJoin)",
			in.Node.Name, stamp(joined.Time), in.Policy.Name, stamp(until), cut.Zeros(delay)),
		Recheck: until.Sub(in.Now),
	}
}
