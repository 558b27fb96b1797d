package gates

import (
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestCordoned(t *testing.T) {
	cordoned := func(in *Input) { in.Node.Spec.Unschedulable = true }
	marked := func(in *Input) { in.Node.Annotations = map[string]string{v1alpha1.CordonedAnnotation: "other"} }
	takenOut := func(in *Input) { in.Remediation.Status.Maintenance = "own" }
	runGate(t, Cordoned, []gateTest{
		{name: "schedulable", in: input()},
		{name: "cordoned", in: input(cordoned), reason: "Cordoned",
			messages: []string{"node w17 is cordoned, and not by Nodemend", "kubectl uncordon w17"}},
		{name: "cordoned for the remediation itself", in: input(cordoned, marked, takenOut)},
		{name: "cordoned by a person, then taken out", in: input(cordoned, takenOut)},
		{name: "cordoned for what has ended", in: input(cordoned, marked), reason: "Cordoned", messages: []string{"node w17 is being given back"}},
	})
}
