package systemlog

import "time"

// position is how far a log has been read, by the time stamps of its lines. It
// tells the lines that are new from those that are read again when the log has to
// be opened again.
type position struct {
	// start is the stamp from which on lines are wanted at all.
	start time.Time
	// latest is the latest stamp seen, and count is how many lines carried it.
	latest time.Time
	count  int

	// Until a log that was opened again has been read up to where it was left:
	rereading bool
	left      time.Time
	known     int // lines stamped left that are still to come again
}

// open returns the stamp from which on the log is to be read.
func (p *position) open(now time.Time) time.Time {
	if p.latest.After(now) { // the clock was set back: new lines must not pass for old ones
		p.latest, p.count = now, 0
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
