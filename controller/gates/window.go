package gates

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// ReasonOutsideWindow says that a disruptive step may not start at this time.
const ReasonOutsideWindow = "OutsideWindow"

// windowsRecheck is for budgets whose windows have no time in common.
const windowsRecheck = 24 * time.Hour

// Window holds a disruptive step outside the windows of the budgets that select
// the node: each that has any must allow it. One that has taken the node out already
// goes on.
func Window(in Input) Verdict {
	if !in.Step().Disruptive() || in.takenOut() {
		return Verdict{}
	}
	var budgets []string
	var calendars []calendar
	for i := range in.Budgets {
		b := &in.Budgets[i]
		if len(b.Spec.AllowedWindows) == 0 {
			continue
		}
		c, err := readCalendar(b.Spec.AllowedWindows)
		if err != nil {
			return Verdict{Reason: ReasonBudgetInvalid, Message: fmt.Sprintf("budget %s: %v", b.Name, err)}
		}
		budgets, calendars = append(budgets, budgetWindows(b)), append(calendars, c)
	}
	next, found := nextCommon(calendars, in.Now)
	if found && !next.After(in.Now) {
		return Verdict{}
	}
	v := Verdict{Reason: ReasonOutsideWindow, Recheck: windowsRecheck}
	when := "they have no time in common"
	if found {
		when, v.Recheck = "next at "+stamp(next), next.Sub(in.Now)
	}
	v.Message = fmt.Sprintf("step %d (%s) is disruptive and may start only within the windows of %s; %s",
		in.Remediation.Status.Step, in.Step().Remedy(), strings.Join(budgets, " and of "), when)
	return v
}

// budgetWindows names a budget and its windows, the first ones if there are many.
func budgetWindows(b *v1alpha1.RemediationBudget) string {
	const most = 3
	var texts []string
	for i, w := range b.Spec.AllowedWindows {
		if i == most {
			texts = append(texts, fmt.Sprintf("%d more", len(b.Spec.AllowedWindows)-most))
			break
		}
		text := w.Start + "-" + w.End
		if len(w.Days) > 0 {
			text = strings.Join(w.Days, ",") + " " + text
		}
		if w.TimeZone != "" {
			text += " " + w.TimeZone
		}
		texts = append(texts, text)
	}
	return fmt.Sprintf("budget %s (%s)", b.Name, strings.Join(texts, "; "))
}

// nextCommon returns the first time from t on at which every calendar is open; t
// itself if there are none. It looks ahead two weeks, after which all repeats.
func nextCommon(calendars []calendar, t time.Time) (time.Time, bool) {
	for limit := t.AddDate(0, 0, daysAhead); t.Before(limit); {
		next := t
		for _, c := range calendars {
			open, found := c.next(t)
			if !found {
				return time.Time{}, false
			}
			if open.After(next) {
				next = open
			}
		}
		if !next.After(t) {
			return t, true
		}
		t = next
	}
	return time.Time{}, false
}

// readCalendar reads the windows of a budget.
func readCalendar(windows []v1alpha1.Window) (calendar, error) {
	var c calendar
	for i := range windows {
		w := &windows[i]
		field := fmt.Sprintf("spec.allowedWindows[%d]", i)
		location, err := w.Location()
		if err != nil {
			return nil, fmt.Errorf("%s.timeZone: %w", field, err)
		}
		start, err := minuteOfDay(w.Start)
		if err != nil {
			return nil, fmt.Errorf("%s.start: %w", field, err)
		}
		end, err := minuteOfDay(w.End)
		if err != nil {
			return nil, fmt.Errorf("%s.end: %w", field, err)
		}
		o := opening{start: start, end: end, location: location}
		for day := time.Sunday; day <= time.Saturday; day++ {
			o.days[day] = len(w.Days) == 0 || slices.Contains(w.Days, day.String()[:3])
		}
		c = append(c, o)
	}
	return c, nil
}

// minuteOfDay reads hours and minutes such as "22:00".
func minuteOfDay(text string) (int, error) {
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%q is no time of the day: accepted are hours and minutes, such as 22:00", text)
	}
	return t.Hour()*60 + t.Minute(), nil
}
