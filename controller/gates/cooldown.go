package gates

import (
	"fmt"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
)

// ReasonCooldown says that the policy's last remediation of the node ended only
// just.
const ReasonCooldown = "Cooldown"

// Cooldown holds an action until the policy's cooldown is over: it begins at the
// end of a remediation of the policy that acted on the node.
func Cooldown(in Input) Verdict {
	if in.Policy == nil || in.Policy.Spec.Cooldown == nil {
		return Verdict{}
	}
	var last *v1alpha1.Remediation
	for _, r := range in.counted() {
		if r.Spec.Policy.UID == in.Policy.UID && r.Ended() && r.Status.LastActed() != nil &&
			(last == nil || r.Status.EndTime.After(last.Status.EndTime.Time)) {
			last = r
		}
	}
	if last == nil {
		return Verdict{}
	}
	cooldown := in.Policy.Spec.Cooldown.Duration
	until := last.Status.EndTime.Add(cooldown)
	if !until.After(in.Now) {
		return open("over since %s (spec.cooldown %s)", stamp(until), cut.Zeros(cooldown))
	}
	return Verdict{
		Reason: ReasonCooldown,
		Message: fmt.Sprintf("remediation %s of policy %s acted on node %s and ended at %s; the next may act at %s, %s later (spec.cooldown)",
			last.Name, in.Policy.Name, in.Node.Name, stamp(last.Status.EndTime.Time), stamp(until), cut.Zeros(cooldown)),
		Recheck: until.Sub(in.Now),
	}
}
