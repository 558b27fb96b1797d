package verdict

import "time"

// All stands for everything in State.Acknowledge. No record has this ID (IPMI 2.0,
// section 31.5).
const All uint16 = 0xffff

// Acknowledgement tells who has decided that a failure does not count, and why.
type Acknowledgement struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// ack is the acknowledgement of a point as it was then. A later record needs
// another one.
type ack struct {
	Acknowledgement
	Record  record `json:"record,omitzero"`
	Reached record `json:"reached,omitzero"`
}

// withoutRecord returns what is left of the acknowledgement of a record once that
// record is forgotten; nil if it was about an earlier one.
func (a *ack) withoutRecord(r record) *ack {
	if a == nil || a.Record != r {
		return nil
	}
	return &ack{Acknowledgement: a.Acknowledgement}
}

// acknowledged returns who has acknowledged p under the rule; nil if nobody has.
func (p *point) acknowledged(rule compiledRule) *Acknowledgement {
	switch {
	case p.Ack == nil,
		!p.byCount(rule) && p.Ack.Record != p.Record,
		p.byCount(rule) && (p.Reached == nil || p.Ack.Reached != p.Reached.Record):
		return nil
	default:
		given := p.Ack.Acknowledgement
		return &given
	}
}

// Acknowledge returns the state in which failures do not count any more, and stay
// listed as acknowledged until they are over. With until, the ID of a record in
// the SEL, these are the failures whose last record is that one or came before it; with All
// these are all that are known, absent components and what only a sensor shows
// included. What comes later counts: another record, or a state that has
// gone and returns.
func (s State) Acknowledge(until uint16, reason, by string, at time.Time) State {
	given := Acknowledgement{By: clip(clean(by), maxName), Reason: clip(clean(reason), maxReason), At: plain(at)}
	// IDs rise and start over: the longer ago, the farther from the newest.
	newest := s.memory.Cursor.ID
	if again := s.memory.Reread; again != nil {
		newest = again.Before.ID
	}
	covers := func(r record) bool { return until == All || r.ID != 0 && newest-r.ID >= newest-until }

	m := s.memory
	m.Points = make([]point, 0, len(s.memory.Points))
	for _, p := range s.memory.Points {
		m.Points = append(m.Points, p.acknowledge(given, covers))
	}
	m.Parts = make([]part, 0, len(s.memory.Parts))
	for _, c := range s.memory.Parts {
		if until == All && !c.Missing.IsZero() && c.Ack == nil {
			c.Ack = &given
		}
		m.Parts = append(m.Parts, c)
	}
	return State{m}
}

// acknowledge returns p with what covers says acknowledged.
func (p point) acknowledge(given Acknowledgement, covers func(record) bool) point {
	a := ack{Acknowledgement: given}
	reached := p.Reached != nil && covers(p.Reached.Record)
	if reached {
		a.Reached = p.Reached.Record
	}
	last := covers(p.Record)
	if last {
		a.Record = p.Record
	}
	same := p.Ack != nil && p.Ack.Record == a.Record && p.Ack.Reached == a.Reached
	if (reached || last) && !same {
		p.Ack = &a
	}
	var rest []occurrence
	for _, o := range p.Occurrences {
		if !covers(record{ID: o.ID}) {
			rest = append(rest, o)
		}
	}
	p.Occurrences = rest
	return p
}
