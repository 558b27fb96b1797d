package gates

import (
	"fmt"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// ReasonExcluded says that the node carries the exclude label.
const ReasonExcluded = "Excluded"

// Excluded holds every new action on a node that a person has excluded.
func Excluded(in Input) Verdict {
	if !v1alpha1.Excluded(in.Node) {
		return Verdict{}
	}
	var why string
	if reason := in.Node.Annotations[v1alpha1.ExcludeReasonAnnotation]; reason != "" {
		why = fmt.Sprintf(" (%.200q)", reason)
	}
	return Verdict{
		Reason:  ReasonExcluded,
		Message: fmt.Sprintf("node %s is labelled %s=true%s; to undo: kubectl nodemend include %[1]s", in.Node.Name, v1alpha1.ExcludeLabel, why),
	}
}
