package kubelet

import "time"

// restarts counts the automatic restarts of a unit within a window.
type restarts struct {
	window time.Duration
	// limit is the most that needs to be counted.
	limit int

	unit    string // that was seen last; empty: none yet
	counter uint32 // its NRestarts
	seen    time.Time
	times   []time.Time // of the newest restarts, oldest first, at most limit
}

// see takes note of a unit.
func (r *restarts) see(u unit, now time.Time) {
	if r.unit == u.name && now.Sub(r.seen) <= r.window {
		more := u.restarts // since somebody has started it, which resets the counter
		if u.restarts >= r.counter {
			more = u.restarts - r.counter
		}
		for range min(int64(more), int64(r.limit)) {
			r.times = append(r.times, now)
		}
	}
	if r.unit != u.name {
		r.times = nil
	}
	r.unit, r.counter, r.seen = u.name, u.restarts, now
	first := max(0, len(r.times)-r.limit)
	for first < len(r.times) && now.Sub(r.times[first]) > r.window {
		first++
	}
	r.times = append([]time.Time(nil), r.times[first:]...)
}

// count returns the restarts within the window before the unit was seen last.
func (r *restarts) count() int { return len(r.times) }
