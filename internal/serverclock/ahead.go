package serverclock

import (
	"sync"
	"time"
)

// drift is by how much two clocks may get apart, as a part of the time that passes: the kernel
// corrects a clock by 0.05 % at most while it is not asked for more.
const drift = 1.0 / 1000

// Bounds are what is certain of a time that is not known exactly.
type Bounds struct{ Least, Most time.Duration }

// Within reports whether it is certain that neither clock is further ahead than this.
func (b Bounds) Within(most time.Duration) bool { return -most <= b.Least && b.Most <= most }

// Beyond reports whether it is certain that one clock is further ahead than this.
func (b Bounds) Beyond(most time.Duration) bool { return b.Least > most || b.Most < -most }

// Ahead returns how far the server's clock is ahead of the local one as that is now; false if
// that is not known yet. Neither slow answers nor steps of the local clock nor suspensions
// make it wrong.
func (c *Clock) Ahead() (Bounds, bool) {
	b, known := c.difference.at(c.sinceBoot())
	apart := c.sinceBoot() - time.Duration(c.local.Now().UnixNano())
	return Bounds{b.Least + apart, b.Most + apart}, known
}

// difference is how far the server's clock is ahead of the time since the boot.
type difference struct {
	lock   sync.Mutex
	known  bool
	moment time.Duration // since the boot, at which it was
	bounds Bounds
}

// at returns the bounds at a later moment.
func (d *difference) at(moment time.Duration) (b Bounds, known bool) {
	d.lock.Lock()
	defer d.lock.Unlock()
	return d.later(moment), d.known
}

func (d *difference) later(moment time.Duration) Bounds {
	wider := time.Duration(float64((moment - d.moment).Abs()) * drift)
	return Bounds{d.bounds.Least - wider, d.bounds.Most + wider}
}

// learn takes in that the server's clock has shown date, rounded down to a second, at some
// moment between asked and answered. The less precise an answer is, the less it changes.
func (d *difference) learn(date time.Time, asked, answered time.Duration) {
	d.lock.Lock()
	defer d.lock.Unlock()
	server := time.Duration(date.UnixNano())
	b := Bounds{server - answered, server + time.Second - asked}
	if old := d.later(answered); d.known && old.Least <= b.Most && b.Least <= old.Most {
		b = Bounds{max(b.Least, old.Least), min(b.Most, old.Most)}
	} // else one of the clocks was set, or it is another server
	d.known, d.moment, d.bounds = true, answered, b
}
