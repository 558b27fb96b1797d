package gates

import "testing"

func TestCordoned(t *testing.T) {
	runGate(t, Cordoned, []gateTest{
		{name: "schedulable", in: input()},
		{name: "cordoned", in: input(func(in *Input) { in.Node.Spec.Unschedulable = true }), reason: "Cordoned",
			messages: []string{"node w17 is cordoned, and not by Nodemend", "kubectl uncordon w17"}},
	})
}
