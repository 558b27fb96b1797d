package gates

import (
	"fmt"
	"strconv"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// ReasonApprovalRequired says that a person has to approve the step.
const ReasonApprovalRequired = "ApprovalRequired"

// Approval holds a step that requires a person's approval until it has it.
func Approval(in Input) Verdict {
	step := in.Step()
	if !step.RequireApproval {
		return Verdict{}
	}
	number := in.Remediation.Status.Step
	if in.Remediation.Approved(number) {
		return Verdict{}
	}
	held := "waits for approval"
	value, said := in.Remediation.Annotations[v1alpha1.ApprovedStepAnnotation]
	approved, err := strconv.ParseUint(value, 10, 31)
	switch {
	case said && err != nil:
		held = fmt.Sprintf("waits for approval: the annotation is %.40q, accepted is the number of a step", value)
	case said:
		held = fmt.Sprintf("waits for approval, which was given up to step %d", approved)
	}
	return Verdict{
		Reason: ReasonApprovalRequired,
		Message: fmt.Sprintf("step %d (%s) %s; to approve: kubectl nodemend approve %s",
			number, step.Remedy(), held, in.Remediation.Name),
	}
}
