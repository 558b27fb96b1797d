// Package counters remembers by how much counters of the hardware have grown, over restarts of
// the detector and reboots of the node.
package counters

import "time"

// parts is into how many parts a window is cut: what was counted within one of them is kept
// together.
const parts = 24

// Counter is what one counter has shown.
type Counter struct {
	// Last is what it showed last.
	Last uint64 `json:"last"`
	// Grown is by how much it has grown, and when, the oldest first.
	Grown []Growth `json:"grown,omitempty"`
}

// Growth is what was added to a counter from a time on.
type Growth struct {
	At time.Time `json:"at"`
	By uint64    `json:"by"`
}

// See takes what the counter shows now, and returns whether it is to be remembered anew. What
// has grown longer ago than the window is forgotten. A counter that shows less than before
// was set back by somebody: then nothing is known to have been added.
func (c *Counter) See(value uint64, now time.Time, window time.Duration) (changed bool) {
	for len(c.Grown) > 0 && now.Sub(c.Grown[0].At) > window {
		c.Grown, changed = c.Grown[1:], true
	}
	for i := range c.Grown {
		if c.Grown[i].At.After(now) { // the clock was wrong then, or is now
			c.Grown[i].At, changed = now, true
		}
	}
	if value > c.Last {
		c.add(value-c.Last, now, window)
	}
	changed = changed || value != c.Last
	c.Last = value
	return changed
}

func (c *Counter) add(n uint64, now time.Time, window time.Duration) {
	if last := len(c.Grown) - 1; last >= 0 && now.Sub(c.Grown[last].At) < window/parts {
		c.Grown[last].By += n
		return
	}
	c.Grown = append(c.Grown, Growth{At: now, By: n})
}

// Added is by how much it has grown within the window of the last See.
func (c *Counter) Added() (n uint64) {
	for _, g := range c.Grown {
		n += g.By
	}
	return n
}
