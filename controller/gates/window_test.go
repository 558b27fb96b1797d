package gates

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func window(days []string, start, end, zone string) v1alpha1.Window {
	return v1alpha1.Window{Days: days, Start: start, End: end, TimeZone: zone}
}

func allowed(windows ...v1alpha1.Window) v1alpha1.RemediationBudgetSpec {
	return v1alpha1.RemediationBudgetSpec{AllowedWindows: windows}
}

func TestWindow(t *testing.T) {
	const outside = "OutsideWindow"
	night := allowed(window([]string{"Mon", "Tue", "Wed", "Thu"}, "22:00", "05:00", "Europe/Berlin"))
	evening := allowed(window(nil, "18:00", "23:30", "UTC"))
	morning := allowed(window(nil, "06:00", "08:00", ""))
	always := allowed(window(nil, "00:00", "00:00", ""))
	runGate(t, Window, []gateTest{
		{name: "no windows", in: input(atStep(3))},
		{name: "a gentle step", in: input(atStep(1), budgets(night))},
		{name: "outside", in: input(atStep(3), budgets(night)), reason: outside, recheck: 9 * time.Hour,
			messages: []string{"step 3 (reboot) is disruptive and may start only within the windows of budget a (Mon,Tue,Wed,Thu 22:00-05:00 Europe/Berlin); next at 2026-03-04T21:00:00Z"}},
		{name: "outside, with the node out already", in: input(atStep(3), budgets(night), func(in *Input) { in.Remediation.Status.Maintenance = "own" })},
		{name: "within", in: input(atStep(3), budgets(always))},
		{name: "one of two windows", in: input(atStep(3), budgets(allowed(morning.AllowedWindows[0], always.AllowedWindows[0])))},
		{name: "one of two budgets", in: input(atStep(3), budgets(always, morning)), reason: outside, recheck: 18 * time.Hour,
			messages: []string{"budget a (00:00-00:00) and of budget b (06:00-08:00); next at 2026-03-05T06:00:00Z"}},
		{name: "a budget without windows allows", in: input(atStep(3), budgets(allowed(), always))},
		{name: "the next time is one that all budgets allow", in: input(atStep(3), budgets(evening, night)), reason: outside, recheck: 9 * time.Hour},
		{name: "whatever their order", in: input(atStep(3), budgets(night, evening)), reason: outside, recheck: 9 * time.Hour},
		{name: "no time in common", in: input(atStep(3), budgets(morning, evening)), reason: outside, recheck: 24 * time.Hour,
			messages: []string{"they have no time in common"}},
		{name: "many windows", in: input(atStep(3), budgets(allowed(window(nil, "01:00", "02:00", ""), window(nil, "02:00", "03:00", ""),
			window(nil, "03:00", "04:00", ""), window(nil, "04:00", "05:00", ""), window(nil, "05:00", "06:00", "")))), reason: outside, recheck: 13 * time.Hour,
			messages: []string{"(01:00-02:00; 02:00-03:00; 03:00-04:00; 2 more)"}},
		{name: "a time zone that is not known", in: input(atStep(3), budgets(allowed(always.AllowedWindows[0], window(nil, "22:00", "05:00", "Mars/Phobos")))),
			reason: "BudgetInvalid", messages: []string{"budget a: spec.allowedWindows[1].timeZone: unknown time zone Mars/Phobos: accepted is a name"}},
		{name: "the time zone of the controller", in: input(atStep(3), budgets(allowed(window(nil, "22:00", "05:00", "Local")))),
			reason: "BudgetInvalid", messages: []string{"unknown time zone Local"}},
		{name: "a start that is no time", in: input(atStep(3), budgets(allowed(window(nil, "24:00", "05:00", "")))),
			reason: "BudgetInvalid", messages: []string{`spec.allowedWindows[0].start: "24:00" is no time of the day`}},
		{name: "an end that is no time", in: input(atStep(3), budgets(allowed(window(nil, "22:00", "", "")))),
			reason: "BudgetInvalid", messages: []string{"spec.allowedWindows[0].end"}},
	})
}
