package gates

import (
	"fmt"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// ReasonBusy says that another remediation acts on the node.
const ReasonBusy = "Busy"

// Acts reports whether others on its node may have to wait for the remediation: it has announced
// an action or a maintenance, or does not know whether an action is over.
func Acts(r *v1alpha1.Remediation) bool {
	return !r.Ended() && (r.Status.Action != "" || r.Status.Maintenance != "" || r.BlockedBy() == v1alpha1.ReasonStillRunning)
}

// Busy holds every new action while another remediation acts on the node. The permits do not tell:
// a node that was relabelled, or a budget whose selector was edited, has a budget that knows nothing
// of the other one. A maintenance is waited for only by who has none: two that have both taken the
// node out must not wait for each other.
func Busy(in Input) Verdict {
	for i := range in.Past {
		other := &in.Past[i]
		if !Acts(other) {
			continue
		}
		switch status := &other.Status; {
		case status.Action != "":
			return busy("remediation %s acts on node %s: %s", other.Name, in.Node.Name, status.Action)
		case other.BlockedBy() == v1alpha1.ReasonStillRunning:
			return busy("an action of remediation %s may still run on node %s", other.Name, in.Node.Name)
		case !in.takenOut():
			return busy("remediation %s takes node %s out of service: maintenance %s", other.Name, in.Node.Name, status.Maintenance)
		}
	}
	return Verdict{}
}

// busy holds until the other remediation is done, which wakes this one.
func busy(format string, args ...any) Verdict {
	return Verdict{Reason: ReasonBusy, Message: fmt.Sprintf(format, args...), Recheck: BudgetRecheck}
}
