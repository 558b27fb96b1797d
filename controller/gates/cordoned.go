package gates

import (
	"fmt"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// ReasonCordoned says that somebody else has cordoned the node.
const ReasonCordoned = "Cordoned"

// Cordoned holds every new action on a node that somebody has cordoned, unless it is
// out for the remediation itself: whoever did so is at work on it.
func Cordoned(in Input) Verdict {
	if !in.Node.Spec.Unschedulable || in.takenOut() {
		return Verdict{}
	}
	if _, ours := in.Node.Annotations[v1alpha1.CordonedAnnotation]; ours {
		return Verdict{Reason: ReasonCordoned, Message: fmt.Sprintf("node %s is being given back", in.Node.Name)}
	}
	return Verdict{
		Reason: ReasonCordoned,
		Message: fmt.Sprintf("node %s is cordoned, and not by Nodemend; when nobody works on it any more: kubectl uncordon %s",
			in.Node.Name, in.Node.Name),
	}
}
