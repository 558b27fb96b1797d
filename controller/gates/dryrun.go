package gates

import (
	"fmt"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// ReasonDryRun says that the policy only shows what it would do.
const ReasonDryRun = "DryRun"

// DryRun holds, as the last gate, what a policy that does not act would do now.
func DryRun(in Input) Verdict {
	if in.Policy == nil || in.Policy.Spec.Mode == v1alpha1.ModeEnforce || in.Policy.Spec.Mode == "" {
		return Verdict{}
	}
	status := &in.Remediation.Status
	return Verdict{
		Reason: ReasonDryRun,
		Message: fmt.Sprintf("%s: would %s now (step %d, attempt %d); to let it, set spec.mode of policy %s to %s",
			in.Policy.Spec.Mode, in.Step().Describe(), status.Step, status.Attempt, in.Policy.Name, v1alpha1.ModeEnforce),
	}
}
