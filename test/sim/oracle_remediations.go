package sim

import (
	"github.com/nodemend/nodemend/config/v1alpha1"
)

// counted counts what remediations come to.
func (o *oracles) counted(old, updated *v1alpha1.Remediation) {
	if by := updated.BlockedBy(); by != "" && (old == nil || old.BlockedBy() != by) {
		o.world.count("blocked by " + by)
	}
	if old != nil && !old.Ended() && updated.Ended() {
		o.world.count("outcome " + updated.State())
	}
	if old != nil && len(updated.Status.History) > len(old.Status.History) {
		o.world.count("action " + updated.Status.History[len(updated.Status.History)-1].Outcome)
	}
}
