package gates

import (
	"testing"
	"time"
)

func TestMaxRemediations(t *testing.T) {
	limited := func(count int32, changes ...func(*Input)) Input {
		return input(append(changes, func(in *Input) {
			if in.Policy != nil {
				in.Policy.Spec.MaxRemediations = rate(count, 24*time.Hour)
			}
		})...)
	}
	h := func(hours int) func(*Input) {
		return past("w17-a", time.Minute, record(1, "Succeeded", time.Duration(hours)*time.Hour))
	}
	runGate(t, MaxRemediations, []gateTest{
		{name: "no past", in: limited(3)},
		{name: "two of three", messages: []string{"2 of 3 allowed remediations in the last 24h"}, in: limited(3, h(1), h(2))},
		{name: "three of three", in: limited(3, h(2), h(20), h(1)), reason: "MaxRemediations", recheck: 4 * time.Hour,
			messages: []string{"3 of 3 allowed remediations of policy container-runtime acted on node w17 in the last 24h; the next may act at 2026-03-04T16:00:00Z;",
				"raise spec.maxRemediations"}},
		{name: "five of three, after a change", in: limited(3, h(1), h(2), h(3), h(4), h(5)), reason: "MaxRemediations", recheck: 21 * time.Hour,
			messages: []string{"5 of 3 allowed"}},
		{name: "of former nodes of the name", in: limited(1, h(1), ofFormerNode)},
		{name: "which another program may have replaced", in: limited(1, past("w17-a", time.Minute, handedOver(2*time.Hour)), ofFormerNode),
			reason: "MaxRemediations", recheck: 22 * time.Hour},
		{name: "one is exactly too old", in: limited(3, h(1), h(2), h(24))},
		{name: "each counts once, when it last acted", in: limited(2,
			past("w17-a", 0, record(1, "Failed", 30*time.Hour), record(1, "Failed", 25*time.Hour), record(1, "Failed", 23*time.Hour)), h(1)),
			reason: "MaxRemediations", recheck: time.Hour},
		{name: "several actions are one remediation", in: limited(2, past("w17-a", 0, record(1, "Failed", time.Hour), record(2, "Failed", time.Hour)))},
		{name: "nothing was executed", in: limited(1, past("w17-a", time.Minute, record(1, "Expired", time.Hour)))},
		{name: "something may have been executed", in: limited(1, past("w17-a", time.Minute, record(1, "Lost", time.Hour))),
			reason: "MaxRemediations", recheck: 23 * time.Hour},
		{name: "another policy", in: limited(1, h(1), ofOtherPolicy)},
		{name: "its own actions", in: limited(1, func(in *Input) {
			in.Remediation.Status.History = append(in.Remediation.Status.History, record(1, "Failed", time.Hour))
		})},
		{name: "none allowed", in: limited(0), reason: "MaxRemediations", messages: []string{"0 of 0 allowed", "none may act"}},
		{name: "no limit", in: input(h(1), h(2), h(3), h(4))},
		{name: "no policy", in: limited(0, func(in *Input) { in.Policy = nil })},
	})
}
