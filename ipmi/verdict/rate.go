package verdict

import (
	"math"
	"slices"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// occurrence is one event that a rate counts.
type occurrence struct {
	ID uint16 `json:"id"`
	At int64  `json:"at"` // in Unix seconds
	// NoClock is whether the SEL had no clock. Then At is when the event was first
	// seen, and Uptime counts seconds from a start of the BMC.
	NoClock bool   `json:"noClock,omitempty"`
	Uptime  uint32 `json:"uptime,omitempty"`
}

func occurrenceOf(e ipmi.Event, now time.Time) occurrence {
	if at := plain(e.Time); !at.IsZero() {
		return occurrence{ID: e.ID, At: at.Unix()}
	}
	return occurrence{ID: e.ID, At: now.Unix(), NoClock: true, Uptime: e.Timestamp}
}

// reached is that a rate was.
type reached struct {
	Rate Rate `json:"rate"`
	// Record is the one with which it was first reached after it had been
	// acknowledged last; LastSeen is when it was seen to be reached for the last time.
	Record   record    `json:"record,omitzero"`
	Since    time.Time `json:"since"`
	LastSeen time.Time `json:"lastSeen"`
}

// sameTime reports whether two events came in the same second of one clock: firmware logs
// one error in several records.
func (o occurrence) sameTime(other occurrence) bool {
	hasTime := !o.NoClock || o.Uptime != 0 && o.Uptime != math.MaxUint32
	return hasTime && o.At == other.At && o.NoClock == other.NoClock && o.Uptime == other.Uptime
}

// occur counts one more event, that of p.Record. One that is counted already is not
// counted again, nor are several of the same second.
func (p *point) occur(o occurrence, rate Rate, now time.Time) {
	p.Occurrences = slices.DeleteFunc(p.Occurrences, func(have occurrence) bool { return have.ID == o.ID || have.sameTime(o) })
	p.Occurrences = append(p.Occurrences, o)
	p.settle(rate, now)
	if p.Reached != nil && rate.reachedBy(p.Occurrences) {
		again := *p.Reached
		again.LastSeen = now
		p.Reached = &again
	}
}

// settle brings what is remembered of occurrences in line with the rate, which may
// have changed.
func (p *point) settle(rate Rate, now time.Time) {
	if excess := len(p.Occurrences) - min(max(rate.Count, 1), maxRateCount); excess > 0 {
		p.Occurrences = slices.Delete(p.Occurrences, 0, excess)
	}
	if p.Reached != nil && p.Reached.Rate != rate {
		p.Reached = nil
	}
	if !rate.reachedBy(p.Occurrences) {
		return
	}
	if p.Reached == nil || p.Ack != nil && p.Ack.Reached == p.Reached.Record {
		last := p.Occurrences[len(p.Occurrences)-1]
		p.Reached = &reached{Rate: rate, Record: p.Record, Since: plain(time.Unix(last.At, 0)), LastSeen: now}
	}
}

// expire drops occurrences that are too old for another one to make up a rate with them: by
// the clock of the SEL, up to the cursor, and by that of the node, either of which may be wrong.
func (p *point) expire(per time.Duration, newest ipmi.Cursor, now time.Time) {
	if newest.Timestamp == math.MaxUint32 {
		return
	}
	oldest := min(int64(newest.Timestamp), now.Unix()) - int64(per/time.Second)
	p.Occurrences = slices.DeleteFunc(p.Occurrences, func(o occurrence) bool { return !o.NoClock && o.At < oldest })
}

// reachedBy reports whether there are enough occurrences, and close enough to each
// other. Their order does not matter, as clocks jump.
func (r Rate) reachedBy(occurrences []occurrence) bool {
	if len(occurrences) < r.Count || len(occurrences) == 0 {
		return false
	}
	var at, uptime span
	for _, o := range occurrences {
		at.add(o.At)
		if o.NoClock {
			uptime.add(int64(o.Uptime))
		}
	}
	per := int64(r.Per / time.Second)
	return at.width() <= per && uptime.width() <= per
}

// span is the least interval that holds all numbers added.
type span struct {
	least, most int64
	some        bool
}

func (s *span) add(n int64) {
	if !s.some {
		s.least, s.most, s.some = n, n, true
	}
	s.least, s.most = min(s.least, n), max(s.most, n)
}

func (s *span) width() int64 { return s.most - s.least }
