package gates

import (
	"fmt"
	"strings"

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
			in.Policy.Spec.Mode, describe(in.Step()), status.Step, status.Attempt, in.Policy.Name, v1alpha1.ModeEnforce),
	}
}

// describe says what a step does, after "would".
func describe(step *v1alpha1.Step) string {
	switch {
	case step.Command != nil && step.Command.Script != "":
		return "run its script"
	case step.Command != nil:
		return "run " + clip(strings.Join(step.Command.Argv, " "))
	case step.RestartUnit != nil:
		return "restart " + step.RestartUnit.Name
	case step.Reboot != nil:
		return fmt.Sprintf("reboot the node (%s)", step.Reboot.Method)
	default:
		return "act"
	}
}

// clip bounds what a policy puts into a message.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
