package gates

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestACalendarOpensWhenTheClocksOnTheWallShowIt(t *testing.T) {
	const berlin = "Europe/Berlin"
	mon, sat := []string{"Mon"}, []string{"Sat"}
	sun := []string{"Sun"}
	// In Berlin in 2026 the clocks go from 2:00 to 3:00 on Sunday, 29 March, and from
	// 3:00 to 2:00 on Sunday, 25 October.
	tests := []struct {
		name   string
		window v1alpha1.Window
		// at and next are times in UTC; next "" is the same time: it is open.
		at, next string
	}{
		{"before", window(nil, "10:00", "12:00", ""), "2026-03-04T09:59:59Z", "2026-03-04T10:00:00Z"},
		{"the start belongs to it", window(nil, "10:00", "12:00", ""), "2026-03-04T10:00:00Z", ""},
		{"its last second", window(nil, "10:00", "12:00", ""), "2026-03-04T11:59:59Z", ""},
		{"the end does not belong to it", window(nil, "10:00", "12:00", ""), "2026-03-04T12:00:00Z", "2026-03-05T10:00:00Z"},

		{"over midnight, before it", window(mon, "22:00", "05:00", ""), "2026-03-02T23:59:00Z", ""},
		{"over midnight, after it", window(mon, "22:00", "05:00", ""), "2026-03-03T04:59:00Z", ""},
		{"over midnight, of the day before that it does not start on", window(mon, "22:00", "05:00", ""), "2026-03-02T04:59:00Z", "2026-03-02T22:00:00Z"},
		{"over midnight, ended", window(mon, "22:00", "05:00", ""), "2026-03-03T05:00:00Z", "2026-03-09T22:00:00Z"},
		{"over the end of the week", window(sat, "22:00", "05:00", ""), "2026-03-08T04:00:00Z", ""},
		{"from midnight", window(mon, "00:00", "05:00", ""), "2026-03-01T23:00:00Z", "2026-03-02T00:00:00Z"},
		{"until midnight", window(mon, "20:00", "00:00", ""), "2026-03-02T23:59:59Z", ""},
		{"a whole day", window(mon, "00:00", "00:00", ""), "2026-03-02T23:59:59Z", ""},
		{"a whole day and no more", window(mon, "00:00", "00:00", ""), "2026-03-03T00:00:00Z", "2026-03-09T00:00:00Z"},
		{"24 hours from noon", window(mon, "12:00", "12:00", ""), "2026-03-03T11:59:00Z", ""},

		{"in winter", window(nil, "22:00", "05:00", berlin), "2026-01-15T12:00:00Z", "2026-01-15T21:00:00Z"},
		{"in summer", window(nil, "22:00", "05:00", berlin), "2026-07-15T12:00:00Z", "2026-07-15T20:00:00Z"},
		{"the day is that of the time zone", window(mon, "00:30", "01:00", berlin), "2026-03-01T23:45:00Z", ""},
		{"a day ahead of UTC", window(mon, "01:00", "02:00", "Pacific/Kiritimati"), "2026-03-01T11:30:00Z", ""},
		{"a day behind UTC", window(mon, "20:00", "21:00", "Pacific/Pago_Pago"), "2026-03-03T07:30:00Z", ""},
		{"a day behind UTC, over midnight", window(mon, "20:00", "15:00", "Pacific/Pago_Pago"), "2026-03-04T01:00:00Z", ""},
		{"with half an hour", window(nil, "10:00", "11:00", "Asia/Kolkata"), "2026-03-04T00:00:00Z", "2026-03-04T04:30:00Z"},

		{"over the change to summer time", window(sat, "22:00", "05:00", berlin), "2026-03-29T02:59:00Z", ""},
		{"over the change to summer time, ended", window(sat, "22:00", "05:00", berlin), "2026-03-29T03:00:00Z", "2026-04-04T20:00:00Z"},
		{"a start that is left out is the change", window(nil, "02:30", "04:00", berlin), "2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z"},
		{"an end that is left out is the change", window(nil, "01:00", "02:30", berlin), "2026-03-29T01:00:00Z", "2026-03-29T23:00:00Z"},
		{"an end that is left out, right before", window(nil, "01:00", "02:30", berlin), "2026-03-29T00:59:59Z", ""},
		{"one that is left out altogether", window(sun, "02:10", "02:50", berlin), "2026-03-28T12:00:00Z", "2026-04-05T00:10:00Z"},
		{"the day after the change", window(nil, "02:10", "02:50", berlin), "2026-03-29T12:00:00Z", "2026-03-30T00:10:00Z"},

		{"over the change from summer time", window(sat, "22:00", "05:00", berlin), "2026-10-25T03:59:00Z", ""},
		{"over the change from summer time, ended", window(sat, "22:00", "05:00", berlin), "2026-10-25T04:00:00Z", "2026-10-31T21:00:00Z"},
		{"a start that occurs twice is the first", window(nil, "02:30", "04:00", berlin), "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"and goes on through the second", window(nil, "02:30", "04:00", berlin), "2026-10-25T01:10:00Z", ""},
		{"an end that occurs twice is the first", window(nil, "01:00", "02:30", berlin), "2026-10-25T00:29:59Z", ""},
		{"and it does not open again", window(sun, "01:00", "02:30", berlin), "2026-10-25T01:00:00Z", "2026-11-01T00:00:00Z"},
		{"one that occurs twice is open once", window(sun, "02:10", "02:50", berlin), "2026-10-25T00:50:00Z", "2026-11-01T01:10:00Z"},
		{"west of Greenwich, where the clocks go back at 2:00", window(sun, "01:30", "03:00", "America/New_York"), "2026-10-31T12:00:00Z", "2026-11-01T05:30:00Z"},
		{"west of Greenwich, a start that is left out", window(sun, "02:30", "04:00", "America/New_York"), "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"},
		{"half an hour back", window(sun, "01:45", "02:30", "Australia/Lord_Howe"), "2026-04-04T00:00:00Z", "2026-04-04T14:45:00Z"},
		{"a midnight that is left out", window(nil, "00:00", "02:00", "Africa/Cairo"), "2026-04-23T21:00:00Z", "2026-04-23T22:00:00Z"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := readCalendar([]v1alpha1.Window{tt.window})
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tt.at)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.next
			if want == "" {
				want = tt.at
			}
			if next, found := c.next(at); !found || stamp(next) != want {
				t.Errorf("%s-%s %s, at %s: opens at %s (%v), want %s", tt.window.Start, tt.window.End, tt.window.TimeZone, tt.at, stamp(next), found, want)
			}
		})
	}
}

// What is found by leaps is what is found by looking at every minute.
func TestACalendarAgreesWithTheClockMinuteByMinute(t *testing.T) {
	w := []v1alpha1.Window{
		window([]string{"Sat", "Sun"}, "22:15", "03:45", "Europe/Berlin"),
		window([]string{"Mon"}, "13:00", "14:00", "America/New_York"),
	}
	c, err := readCalendar(w)
	if err != nil {
		t.Fatal(err)
	}
	open := func(at time.Time) bool {
		for i, o := range c {
			local := at.In(o.location)
			minute := local.Hour()*60 + local.Minute()
			yesterday := local.AddDate(0, 0, -1).Weekday()
			if i == 0 && (minute >= o.start && o.days[local.Weekday()] || minute < o.end && o.days[yesterday]) ||
				i == 1 && minute >= o.start && minute < o.end && o.days[local.Weekday()] {
				return true
			}
		}
		return false
	}
	var next time.Time
	from := time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)
	for at := from.AddDate(0, 0, 7); !at.Before(from); at = at.Add(-time.Minute) {
		if open(at) {
			next = at
		}
		if next.IsZero() {
			continue
		}
		if got, found := c.next(at); !found || !got.Equal(next) {
			t.Fatalf("at %s: opens at %s, want %s", stamp(at), stamp(got), stamp(next))
		}
	}
}

func TestACalendarThatNeverOpensIsGivenUp(t *testing.T) {
	c, err := readCalendar([]v1alpha1.Window{window([]string{"Someday"}, "10:00", "11:00", "")})
	if err != nil {
		t.Fatal(err)
	}
	if next, found := c.next(now); found {
		t.Errorf("opens at %s", next)
	}
}

func BenchmarkWindowsWithoutACommonTime(b *testing.B) {
	var first, second []v1alpha1.Window
	for i := range 16 {
		start := now.Add(time.Duration(i) * time.Hour)
		first = append(first, window(nil, start.Format("15:04"), start.Add(20*time.Minute).Format("15:04"), "Europe/Berlin"))
		second = append(second, window(nil, start.Add(30*time.Minute).Format("15:04"), start.Add(40*time.Minute).Format("15:04"), "Europe/Berlin"))
	}
	in := input(atStep(3), budgets(allowed(first...), allowed(second...)))
	for b.Loop() {
		if v := Window(in); v.Reason != ReasonOutsideWindow {
			b.Fatal(v)
		}
	}
}

func BenchmarkWindow(b *testing.B) {
	in := input(atStep(3), budgets(allowed(window([]string{"Mon", "Tue"}, "22:00", "05:00", "Europe/Berlin"))))
	for b.Loop() {
		if v := Window(in); v.Reason != ReasonOutsideWindow {
			b.Fatal(v)
		}
	}
}
