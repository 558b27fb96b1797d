package gates

import (
	"testing"
	"time"
)

func TestCooldown(t *testing.T) {
	cooled := func(changes ...func(*Input)) Input {
		return input(append(changes, func(in *Input) {
			if in.Policy != nil {
				in.Policy.Spec.Cooldown = duration(30 * time.Minute)
			}
		})...)
	}
	acted := record(1, "Failed", time.Hour)
	runGate(t, Cooldown, []gateTest{
		{name: "no past", in: cooled()},
		{name: "over", in: cooled(past("w17-a", 30*time.Minute, acted))},
		{name: "over in a second", in: cooled(past("w17-a", 30*time.Minute-time.Second, acted)), reason: "Cooldown", recheck: time.Second,
			messages: []string{"remediation w17-a of policy container-runtime acted on node w17 and ended at 2026-03-04T11:30:01Z",
				"the next may act at 2026-03-04T12:00:01Z, 30m later (spec.cooldown)"}},
		{name: "the latest counts", in: cooled(past("w17-a", 20*time.Minute, acted), past("w17-b", 10*time.Minute, acted), past("w17-c", 15*time.Minute, acted)),
			reason: "Cooldown", recheck: 20 * time.Minute, messages: []string{"w17-b"}},
		{name: "nothing was executed", in: cooled(past("w17-a", time.Minute, record(1, "Refused", 2*time.Minute)), past("w17-b", time.Minute))},
		{name: "something may have been executed", in: cooled(past("w17-a", time.Minute, record(1, "Interrupted", 2*time.Minute))),
			reason: "Cooldown", recheck: 29 * time.Minute},
		{name: "another policy", in: cooled(past("w17-a", time.Minute, acted), ofOtherPolicy)},
		{name: "not ended", in: cooled(past("w17-a", 0, acted))},
		{name: "ended in the future", in: cooled(past("w17-a", -0, acted), func(in *Input) {
			end := ago(-time.Minute)
			in.Past[0].Status.EndTime = &end
		}), reason: "Cooldown", recheck: 31 * time.Minute},
		{name: "no cooldown", in: input(past("w17-a", time.Second, acted))},
		{name: "of a former node of the name", in: cooled(past("w17-a", time.Minute, acted), ofFormerNode)},
		{name: "which another program may have replaced", in: cooled(past("w17-a", time.Minute, handedOver(2*time.Minute)), ofFormerNode), reason: "Cooldown", recheck: 29 * time.Minute},
		{name: "no policy", in: cooled(past("w17-a", time.Minute, acted), func(in *Input) { in.Policy = nil })},
	})
}
