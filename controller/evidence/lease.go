package evidence

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
)

// Renewed returns when a Lease was last written, by the clock of the API server, which notes it
// with the manager of the fields. The renewTime is of its holder's own clock: it is taken only
// where nothing else is known. It is the zero time if there is none either.
func Renewed(lease *coordinationv1.Lease) time.Time {
	var last time.Time
	for i := range lease.ManagedFields {
		if at := lease.ManagedFields[i].Time; at != nil && at.After(last) {
			last = at.Time
		}
	}
	if last.IsZero() && lease.Spec.RenewTime != nil {
		return lease.Spec.RenewTime.Time
	}
	return last
}
