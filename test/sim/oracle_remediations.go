package sim

import (
	"github.com/nodemend/nodemend/config/v1alpha1"
)

// A remediation is not written over and over. Only two controllers with different views do
// that to each other, until one of them is told that it does not lead any more.
func (o *oracles) writtenInVain(r *v1alpha1.Remediation) {
	const most = 40
	o.wrote[r.Name]++
	if len(o.world.leaders()) > 1 {
		delete(o.wrote, r.Name)
	}
	if o.wrote[r.Name] > most {
		o.world.broken("Whoever can do nothing now waits", "%s was written %d times before time went on", r.Name, o.wrote[r.Name])
	}
}

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
