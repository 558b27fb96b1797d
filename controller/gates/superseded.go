package gates

import (
	"fmt"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// Superseded holds an action whose policy was deleted, no longer selects the
// node, or no longer has the step that the remediation started with: the runner
// would refuse it.
func Superseded(in Input) Verdict {
	ref := in.Remediation.Spec.Policy
	if in.Policy == nil || in.Policy.UID != ref.UID {
		return Verdict{
			Reason:  v1alpha1.ReasonSuperseded,
			Message: fmt.Sprintf("policy %s of this remediation was deleted; it ends when node %s has recovered, or when you delete it", ref.Name, in.Node.Name),
		}
	}
	selected, err := fleet.Selects(in.Policy.Spec.NodeSelector, in.Node)
	if err != nil {
		return Verdict{
			Reason:  v1alpha1.ReasonSuperseded,
			Message: fmt.Sprintf("policy %s: cannot tell whether it is still meant for node %s: %v", ref.Name, in.Node.Name, err),
		}
	}
	if !selected {
		return Verdict{
			Reason:  v1alpha1.ReasonSuperseded,
			Message: fmt.Sprintf("policy %s no longer selects node %s", ref.Name, in.Node.Name),
		}
	}
	step := in.Remediation.Status.Step
	hash, err := in.Remediation.Spec.Steps[step-1].Hash()
	if err == nil && in.Policy.StepWithHash(hash) != nil {
		return Verdict{}
	}
	return Verdict{
		Reason: v1alpha1.ReasonSuperseded,
		Message: fmt.Sprintf("policy %s was changed and no longer has step %d of this remediation; put the step back, or delete the remediation",
			ref.Name, step),
	}
}
