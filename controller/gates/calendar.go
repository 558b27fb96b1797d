package gates

import "time"

// daysAhead is how far calendars are looked ahead: weeks repeat, but a change to
// summer time may leave no room for a window once.
const daysAhead = 14

// calendar is open while one of its openings is.
type calendar []opening

// opening is a time of the day on some days of the week.
type opening struct {
	// start and end are minutes of the day; an end that is not after the start is
	// on the next day.
	start, end int
	// days on which it starts, by time.Weekday.
	days     [7]bool
	location *time.Location
}

// next returns t if the calendar is open then, or else when it opens next; false
// if it does not within daysAhead.
func (c calendar) next(t time.Time) (time.Time, bool) {
	var first time.Time
	for _, o := range c {
		if opens, found := o.next(t); found && (first.IsZero() || opens.Before(first)) {
			first = opens
		}
	}
	return first, !first.IsZero()
}

func (o opening) next(t time.Time) (time.Time, bool) {
	year, month, day := t.In(o.location).Date()
	for ahead := -1; ahead <= daysAhead; ahead++ {
		// Days are counted in UTC, where each has 24 hours.
		midnight := time.Date(year, month, day+ahead, 0, 0, 0, 0, time.UTC)
		if !o.days[midnight.Weekday()] {
			continue
		}
		end := o.end
		if end <= o.start {
			end += 24 * 60
		}
		opens, closes := o.instant(midnight, o.start), o.instant(midnight, end)
		if !closes.After(t) || !closes.After(opens) {
			continue
		}
		if opens.Before(t) {
			opens = t
		}
		return opens, true
	}
	return time.Time{}, false
}

// instant returns when the clocks of the location first show a minute of a day,
// given as its midnight in UTC. A time that a change of the clocks leaves out is
// the moment of that change; of a time that occurs twice it is the first.
func (o opening) instant(midnight time.Time, minute int) time.Time {
	wall := midnight.Add(time.Duration(minute) * time.Minute)
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, o.location)
	since, until := t.ZoneBounds()
	_, offset := t.Zone()
	switch shown := t.Add(time.Duration(offset) * time.Second); {
	case shown.After(wall):
		return since
	case shown.Before(wall):
		return until
	}
	_, offset = since.Add(-time.Second).Zone() // before the last change of the clocks
	if earlier := wall.Add(-time.Duration(offset) * time.Second); earlier.Before(since) {
		return earlier.In(o.location)
	}
	return t
}
