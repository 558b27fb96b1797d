package gates

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestAttempt(t *testing.T) {
	after := func(history ...v1alpha1.ActionRecord) Input {
		return input(func(in *Input) {
			for i := range history {
				history[i].Message = "because"
			}
			in.Remediation.Status.History = history
		})
	}
	refused := func(ago time.Duration) v1alpha1.ActionRecord { return record(1, "Refused", ago) }
	tests := []gateTest{
		{name: "the first", in: after()},
		{name: "the one before was executed", in: after(record(1, "Failed", 0))},
		{name: "another step was not executed", in: after(record(2, "Refused", 0))},
		{name: "another attempt was not executed", in: after(func() v1alpha1.ActionRecord { r := refused(0); r.Attempt = 2; return r }())},
		{name: "started over since", in: after(func() v1alpha1.ActionRecord { r := record(1, "Lost", 0); r.Former = true; return r }())},
		{name: "repeated after 30s", in: after(refused(30 * time.Second))},
		{name: "not before that", in: after(refused(29 * time.Second)), reason: "Refused", recheck: time.Second,
			messages: []string{"action action was not executed: because; next try at 2026-03-04T12:00:01Z"}},
		{name: "the second time after 1m", in: after(refused(time.Hour), refused(0)), reason: "Refused", recheck: time.Minute},
		{name: "never less often than every 30m", in: after(refused(0), refused(0), refused(0), refused(0), refused(0), refused(0), refused(0), refused(0), refused(0)),
			reason: "Refused", recheck: 30 * time.Minute},
		{name: "no runner claimed it", in: after(record(1, "Expired", 0)), reason: "RunnerAway", recheck: 30 * time.Second},
	}
	// What a person has looked at was long ago when a BMC is plugged in again.
	power := func(approval bool, tries int, former bool) Input {
		in := after()
		step := &in.Remediation.Spec.Steps[0]
		*step = v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}, RequireApproval: approval, Attempts: step.Attempts, Timeout: step.Timeout}
		for range tries {
			r := record(1, "StartFailed", 24*time.Hour)
			r.Message, r.Former = "no answer", former
			in.Remediation.Status.History = append(in.Remediation.Status.History, r)
		}
		return in
	}
	tests = append(tests,
		gateTest{name: "power that was approved is tried again", in: power(true, 4, false)},
		gateTest{name: "and then needs a person", in: power(true, 5, false), reason: "StartFailed",
			messages: []string{"after 5 tries nothing was switched, so the approval counts no more (action: no answer); look at node w17 again", "kubectl nodemend retry w17-0123"}},
		gateTest{name: "who has looked again", in: power(true, 5, true)},
		gateTest{name: "power that needs no approval is tried for ever", in: power(false, 9, false)},
	)
	for _, outcome := range []string{"Interrupted", "RebootNotObserved", "Lost"} {
		tests = append(tests, gateTest{name: outcome, in: after(record(1, outcome, 24*time.Hour)), reason: outcome,
			messages: []string{"may or may not have been executed (because); look at node w17",
				"kubectl nodemend retry w17-0123"}})
	}
	runGate(t, Attempt, tests)
}
