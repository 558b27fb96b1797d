package gates

import "fmt"

// ReasonCordoned says that somebody else has cordoned the node.
const ReasonCordoned = "Cordoned"

// Cordoned holds every new action on a node that somebody has cordoned: whoever
// did so is at work on it.
func Cordoned(in Input) Verdict {
	if !in.Node.Spec.Unschedulable {
		return Verdict{}
	}
	return Verdict{
		Reason: ReasonCordoned,
		Message: fmt.Sprintf("node %s is cordoned, and not by Nodemend; when nobody works on it any more: kubectl uncordon %s",
			in.Node.Name, in.Node.Name),
	}
}
