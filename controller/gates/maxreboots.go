package gates

import (
	"fmt"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
)

// ReasonMaxReboots says that the node was rebooted too often.
const ReasonMaxReboots = "MaxReboots"

// MaxReboots holds a reboot of a node that was rebooted lately, by whatever
// policy, as often as the maxReboots of one of its budgets allows. Of several the
// one is shown that holds for longest.
func MaxReboots(in Input) Verdict {
	if !in.Step().Kind().CountsAsReboot {
		return Verdict{}
	}
	times := reboots(in.Remediation)
	for _, r := range in.counted() {
		times = append(times, reboots(r)...)
	}
	longest := open("%s on record, no budget limits them", plural(len(times), "reboot", "reboots"))
	for i := range in.Budgets {
		rate := in.Budgets[i].Spec.MaxReboots
		if rate == nil {
			continue
		}
		count, next, held := exceeded(rate, times, in.Now)
		if !held {
			if !longest.Held() {
				longest = open("%d of %d allowed reboots in the last %s", count, rate.Count, cut.Zeros(rate.Per.Duration))
			}
			continue
		}
		v := Verdict{
			Reason: ReasonMaxReboots,
			Message: fmt.Sprintf("%d of %d allowed reboots of node %s in the last %s; %s; to let it reboot earlier, raise spec.maxReboots of budget %s",
				count, rate.Count, in.Node.Name, cut.Zeros(rate.Per.Duration), nextMay("be", next), in.Budgets[i].Name),
			Recheck: recheckAt(next, in.Now),
		}
		if v.Recheck == 0 {
			return v
		}
		if v.Recheck > longest.Recheck {
			longest = v
		}
	}
	return longest
}

// reboots returns when the remediation rebooted the node, or may have. Another program may, too.
func reboots(r *v1alpha1.Remediation) []time.Time {
	var times []time.Time
	for i := range r.Status.History {
		record := &r.Status.History[i]
		if remedyOf(r, record).CountsAsReboot && record.Acted() {
			times = append(times, record.FinishedAt.Time)
		}
	}
	return times
}
