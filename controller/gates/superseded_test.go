package gates

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestSuperseded(t *testing.T) {
	selecting := func(selector metav1.LabelSelector) Input {
		return input(func(in *Input) { in.Policy.Spec.NodeSelector = &selector })
	}
	withSteps := func(change func(steps []v1alpha1.Step) []v1alpha1.Step) Input {
		return input(func(in *Input) { in.Policy.Spec.Steps = change(append([]v1alpha1.Step(nil), in.Policy.Spec.Steps...)) })
	}
	runGate(t, Superseded, []gateTest{
		{name: "the same", in: input()},
		{name: "deleted", in: input(func(in *Input) { in.Policy = nil }), reason: "Superseded",
			messages: []string{"policy container-runtime of this remediation was deleted; it ends when node w17 has recovered"}},
		{name: "created again", in: input(func(in *Input) { in.Policy.UID = "other-uid" }), reason: "Superseded"},
		{name: "no longer selects the node", in: selecting(metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}),
			reason: "Superseded", messages: []string{"no longer selects node w17"}},
		{name: "a selector that cannot be read", in: selecting(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Near"}}}),
			reason: "Superseded", messages: []string{"cannot tell whether it is still meant for node w17"}},
		{name: "the step was changed", in: withSteps(func(steps []v1alpha1.Step) []v1alpha1.Step { steps[0].Attempts = 3; return steps }),
			reason: "Superseded", messages: []string{"no longer has step 1", "put the step back, or delete the remediation"}},
		{name: "another step was changed", in: withSteps(func(steps []v1alpha1.Step) []v1alpha1.Step { return steps[:1] })},
		{name: "the step moved", in: withSteps(func(steps []v1alpha1.Step) []v1alpha1.Step { steps[0], steps[1] = steps[1], steps[0]; return steps })},
	})
}
