package gates

import (
	"fmt"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// ReasonInMaintenance says that somebody else has taken the node out of service.
const ReasonInMaintenance = "InMaintenance"

// InMaintenance holds every new action on a node that a person or another remediation
// has taken out of service.
func InMaintenance(in Input) Verdict {
	if len(in.Maintenances) == 0 {
		return Verdict{}
	}
	m := &in.Maintenances[0]
	return Verdict{
		Reason:  ReasonInMaintenance,
		Message: fmt.Sprintf("node %s is in maintenance %s (%s), %s", in.Node.Name, m.Name, m.Spec.Reason, by(m)),
	}
}

// by says who has taken the node out.
func by(m *v1alpha1.NodeMaintenance) string {
	switch {
	case m.Spec.Remediation != nil:
		return "of remediation " + m.Spec.Remediation.Name
	case m.Spec.RequestedBy != "":
		return "by " + m.Spec.RequestedBy
	default:
		return "by a person"
	}
}
