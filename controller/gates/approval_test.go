package gates

import (
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestApproval(t *testing.T) {
	approved := func(value string) Input {
		return input(atStep(3), func(in *Input) {
			in.Remediation.Spec.Steps[2].RequireApproval = true
			if value != "" {
				in.Remediation.Annotations = map[string]string{v1alpha1.ApprovedStepAnnotation: value}
			}
		})
	}
	const required, accepted = "ApprovalRequired", "accepted is the number of a step"
	runGate(t, Approval, []gateTest{
		{name: "not required", in: input(atStep(3))},
		{name: "not given", in: approved(""), reason: required,
			messages: []string{"step 3 (reboot) waits for approval; to approve: kubectl nodemend approve w17-0123"}},
		{name: "given", in: approved("3")},
		{name: "given further on", in: approved("12")},
		{name: "given up to the step before", in: approved("2"), reason: required, messages: []string{"which was given up to step 2;"}},
		{name: "given for none", in: approved("0"), reason: required},
		{name: "a word", in: approved("yes"), reason: required, messages: []string{`the annotation is "yes"`, accepted}},
		{name: "a fraction", in: approved("3.0"), reason: required, messages: []string{accepted}},
		{name: "negative", in: approved("-3"), reason: required, messages: []string{accepted}},
		{name: "huge", in: approved("99999999999999999999"), reason: required, messages: []string{accepted}},
		{name: "with a blank", in: approved(" 3"), reason: required, messages: []string{accepted}},
	})
}
