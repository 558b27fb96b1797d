package gates

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestMaxReboots(t *testing.T) {
	limit := func(count int32, per time.Duration) v1alpha1.RemediationBudgetSpec {
		return v1alpha1.RemediationBudgetSpec{MaxReboots: rate(count, per)}
	}
	day := 24 * time.Hour
	h := func(hours int) func(*Input) {
		return past("w17-a", time.Minute, record(3, "Succeeded", time.Duration(hours)*time.Hour))
	}
	runGate(t, MaxReboots, []gateTest{
		{name: "no past", in: input(atStep(3), budgets(limit(1, day)))},
		{name: "one of two", messages: []string{"1 of 2 allowed reboots in the last 24h"}, in: input(atStep(3), budgets(limit(2, day)), h(1))},
		{name: "two of two", in: input(atStep(3), budgets(limit(2, day)), h(1), h(20)), reason: "MaxReboots", recheck: 4 * time.Hour,
			messages: []string{"2 of 2 allowed reboots of node w17 in the last 24h; the next may be at 2026-03-04T16:00:00Z;", "raise spec.maxReboots of budget a"}},
		{name: "the next step is no reboot", in: input(atStep(2), budgets(limit(1, day)), h(1))},
		{name: "of another policy", in: input(atStep(3), budgets(limit(1, day)), h(1), ofOtherPolicy), reason: "MaxReboots", recheck: 23 * time.Hour},
		{name: "of this remediation", in: input(atStep(3), budgets(limit(1, day)), func(in *Input) {
			in.Remediation.Status.History = []v1alpha1.ActionRecord{record(3, "TimedOut", time.Hour)}
		}), reason: "MaxReboots", recheck: 23 * time.Hour},
		{name: "two in one remediation", in: input(atStep(3), budgets(limit(2, day)),
			past("w17-a", 0, record(3, "Failed", time.Hour), record(3, "Failed", 2*time.Hour))), reason: "MaxReboots", recheck: 22 * time.Hour},
		{name: "one that may have been", in: input(atStep(3), budgets(limit(1, day)),
			past("w17-a", 0, record(3, "RebootNotObserved", time.Hour))), reason: "MaxReboots", recheck: 23 * time.Hour},
		{name: "one that was not executed", in: input(atStep(3), budgets(limit(1, day)), past("w17-a", 0, record(3, "Refused", time.Hour)))},
		{name: "other remedies", in: input(atStep(3), budgets(limit(1, day)), past("w17-a", 0, record(1, "Failed", time.Hour), record(2, "Failed", time.Hour)))},
		{name: "the record says the remedy", in: input(atStep(3), budgets(limit(1, day)), past("w17-a", 0, record(1, "Failed", time.Hour)),
			func(in *Input) { in.Past[0].Status.History[0].Remedy = "reboot" }), reason: "MaxReboots", recheck: 23 * time.Hour},
		{name: "a record of a step that is not there", in: input(atStep(3), budgets(limit(1, day)), past("w17-a", 0, record(4, "Failed", time.Hour), record(0, "Failed", time.Hour)))},
		{name: "the budget that holds for longest is shown", in: input(atStep(3), budgets(limit(1, 2*time.Hour), limit(1, 4*time.Hour), limit(1, 3*time.Hour)), h(1)),
			reason: "MaxReboots", recheck: 3 * time.Hour, messages: []string{"budget b"}},
		{name: "each budget counts for itself", in: input(atStep(3), budgets(limit(1, 2*time.Hour), limit(2, day)), h(5), h(1)),
			reason: "MaxReboots", recheck: 19 * time.Hour, messages: []string{"2 of 2 allowed", "budget b"}},
		{name: "a budget that allows none holds for ever", in: input(atStep(3), budgets(limit(1, day), limit(0, day)), h(1)), reason: "MaxReboots",
			messages: []string{"1 of 0 allowed", "none may be;", "budget b"}},
		{name: "another program may have rebooted it", in: input(atStep(3), budgets(limit(1, day)), past("w17-a", 0, handedOver(time.Hour))),
			reason: "MaxReboots", recheck: 23 * time.Hour},
		{name: "and may do so next", in: input(atStep(3), budgets(limit(1, day)), h(1), func(in *Input) {
			in.Remediation.Spec.Steps[2] = v1alpha1.Step{External: &v1alpha1.ExternalRemedy{}, Attempts: 1}
		}), reason: "MaxReboots", recheck: 23 * time.Hour, messages: []string{"1 of 1"}},
		{name: "it may have replaced the node", in: input(atStep(3), budgets(limit(1, day)), past("w17-a", 0, handedOver(time.Hour)), ofFormerNode),
			reason: "MaxReboots", recheck: 23 * time.Hour},
		{name: "of a former node of the name", in: input(atStep(3), budgets(limit(1, day)), h(1), ofFormerNode)},
		{name: "no limit", in: input(atStep(3), h(1), h(2))},
	})
}
