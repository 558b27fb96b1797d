package systemlog

import "time"

// position is how far a log has been read, by the time stamps of its lines. It
// tells the lines that are new from those that are read again when the log has to
// be opened again.
type position struct {
	// start is the stamp from which on lines are wanted at all. It was so long before the time
	// at which the monitor began; less than zero: no lines are wanted before that time has come.
	start time.Time
	back  time.Duration
	// latest is the latest stamp seen, and count is how many lines carried it.
	latest time.Time
	count  int

	// Until a log that was opened again has been read up to where it was left:
	rereading bool
	left      time.Time
	known     int // lines stamped left that are still to come again
}

// begin says from when on lines are wanted, at the time at which the monitor begins.
func (p *position) begin(start, now time.Time) { p.start, p.back = start, now.Sub(start) }

// open returns the stamp from which on the log is to be read.
func (p *position) open(now time.Time) time.Time {
	// If the clock was set back new lines must not pass for old ones.
	if p.latest.After(now) {
		p.latest, p.count = now, 0
	}
	if p.start.After(now) && p.back >= 0 {
		p.start = now.Add(-p.back)
	}
	p.rereading, p.left, p.known = true, p.latest, p.count
	if p.latest.After(p.start) {
		return p.latest
	}
	return p.start
}

// caughtUp says that what the log held when it was opened has been read.
func (p *position) caughtUp() { p.rereading = false }

// isNew takes in the stamp of the next line and reports whether the line was not
// seen before.
func (p *position) isNew(stamp time.Time) bool {
	if p.rereading {
		switch {
		case stamp.Before(p.left):
			return false
		case stamp.Equal(p.left) && p.known > 0:
			p.known--
			return false
		case stamp.After(p.left):
			p.rereading = false
		}
	}
	switch {
	case stamp.After(p.latest):
		p.latest, p.count = stamp, 1
	case stamp.Equal(p.latest):
		p.count++
	}
	return true
}

// since tells which lines of a log are wanted by their stamps. What comes once all has been
// read that the log held when it was opened is new, whatever its stamp: the clock may have been
// set back. Unless lines are not wanted before a time that was still to come.
type since struct {
	from, opened time.Time
	// caughtUp is whether all has been read that the log held.
	caughtUp bool
}

// wants reports whether a line with this stamp is wanted.
func (s *since) wants(stamp time.Time) bool { return !stamp.Before(s.stamp()) }

// stamp is the one from which on lines are wanted now; zero: all are.
func (s *since) stamp() time.Time {
	if s.caughtUp && !s.from.After(s.opened) {
		return time.Time{}
	}
	return s.from
}
