package gates

import (
	"testing"
	"time"
)

func TestControlPlaneQuorum(t *testing.T) {
	state := func(nodes, readyOthers int, actingOn string) func(*Input) {
		return func(in *Input) { in.ControlPlane = &ControlPlane{nodes, readyOthers, actingOn} }
	}
	const at = "ControlPlane"
	runGate(t, ControlPlaneQuorum, []gateTest{
		{name: "a worker", in: input(atStep(3))},
		{name: "one of three", in: input(state(3, 2, ""), atStep(3))},
		{name: "one of three, one is out", in: input(state(3, 1, ""), atStep(3)), reason: at, recheck: time.Minute,
			messages: []string{"without node w17 1 of 3 control-plane nodes are available, and a majority of 2 has to stay"}},
		{name: "one of three, one is out, gentle", in: input(state(3, 1, ""))},
		{name: "one of four", in: input(state(4, 3, ""), atStep(3))},
		{name: "one of four, one is out", in: input(state(4, 2, ""), atStep(3)), reason: at, recheck: time.Minute},
		{name: "one of five, one is out", in: input(state(5, 3, ""), atStep(3))},
		{name: "one of five, two are out", in: input(state(5, 2, ""), atStep(3)), reason: at, recheck: time.Minute},
		{name: "one of two", in: input(state(2, 1, ""), atStep(3)), reason: at, recheck: time.Minute,
			messages: []string{"node w17 is one of 2 control-plane nodes: without it there is no control plane, so a person has to do this step"}},
		{name: "the only one", in: input(state(1, 0, ""), atStep(3)), reason: at, recheck: time.Minute, messages: []string{"one of 1 control-plane node:"}},
		{name: "the only one, gentle", in: input(state(1, 0, ""))},
		{name: "two at once, gentle", in: input(state(5, 4, "cp2")), reason: at, recheck: time.Minute,
			messages: []string{"control-plane node cp2 is being acted on, and only one at a time is"}},
	})
}
