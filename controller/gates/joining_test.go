package gates

import (
	"testing"
	"time"
)

func TestJoining(t *testing.T) {
	joined := func(before time.Duration, changes ...func(*Input)) Input {
		return input(append(changes, func(in *Input) {
			in.Node.CreationTimestamp = ago(before)
			if in.Policy != nil {
				in.Policy.Spec.DelayAfterJoin = duration(10 * time.Minute)
			}
		})...)
	}
	runGate(t, Joining, []gateTest{
		{name: "old", in: joined(time.Hour)},
		{name: "just old enough", in: joined(10 * time.Minute)},
		{name: "too young by a second", in: joined(10*time.Minute - time.Second), reason: "Joining", recheck: time.Second,
			messages: []string{"node w17 joined the cluster at 2026-03-04T11:50:01Z",
				"policy container-runtime may act on it at 2026-03-04T12:00:01Z, 10m later (spec.delayAfterJoin)"}},
		{name: "joined in the future", in: joined(-time.Minute), reason: "Joining", recheck: 11 * time.Minute},
		{name: "no delay", in: input(func(in *Input) { in.Node.CreationTimestamp = ago(0) })},
		{name: "no policy", in: joined(0, func(in *Input) { in.Policy = nil })},
	})
}
