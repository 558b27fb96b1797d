package gates

import (
	"fmt"

	"github.com/nodemend/nodemend/controller/fleet"
)

// ReasonNodeLeaving says that the node is being removed from the cluster.
const ReasonNodeLeaving = "NodeLeaving"

// NodeLeaving holds every new action on a node that is being deleted, or that an
// autoscaler has decided to remove: it will be gone before it is repaired.
func NodeLeaving(in Input) Verdict {
	if at := in.Node.DeletionTimestamp; at != nil {
		return Verdict{
			Reason:  ReasonNodeLeaving,
			Message: fmt.Sprintf("node %s is being deleted since %s", in.Node.Name, stamp(at.Time)),
		}
	}
	for i := range in.Node.Spec.Taints {
		if by := fleet.RemovedBy(&in.Node.Spec.Taints[i]); by != "" {
			return Verdict{
				Reason:  ReasonNodeLeaving,
				Message: fmt.Sprintf("%s is removing node %s: it has the taint %s", by, in.Node.Name, in.Node.Spec.Taints[i].Key),
			}
		}
	}
	return Verdict{}
}
