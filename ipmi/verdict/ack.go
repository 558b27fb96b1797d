package verdict

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

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

// id returns what tells this from all else that is or will be wrong with a server: a state that
// ends and comes again, or another record of it, has another one.
func id(of string, k key, since time.Time, records ...record) string {
	text := fmt.Sprintf("%s|%+v|%d", of, k, since.Unix())
	for _, r := range records {
		text += fmt.Sprintf("|%d.%d", r.ID, r.Timestamp)
	}
	sum := sha256.Sum256([]byte(text))
	const length = 4 // bytes
	return hex.EncodeToString(sum[:length])
}

func (p point) id() string {
	var last record
	if p.Reached != nil {
		last = p.Reached.Record
	}
	return id("state", p.key, p.Since, p.Record, last)
}

func (c part) id() string { return id("absence", c.state(0), c.Missing) }

// Known returns what can be acknowledged, as was known at the last look: failures and warnings that
// nobody has acknowledged, and components that have lost their reading. A part is named as by a
// look at these modules, see Input.
func (s State) Known(rules Rules, modules []ipmi.Module) []Failure {
	last := s.memory.Looked
	j := newJudgement(rules, s, Input{Now: last.At, BootID: last.Boot, Modules: modules})
	all := append(mostExtreme(j.failures()), j.absences()...)
	for _, c := range j.memory.Parts {
		missing := c.subject()
		if rule, ok := j.rules.find(missing); ok && rule.Severity == SeverityFailure && !c.Missing.IsZero() && !c.Gone {
			all = append(all, found{Failure: Failure{
				ID: c.id(), Component: component(missing), Kind: kindOf(missing), What: "no reading any more", Since: c.Missing, Acknowledged: c.Ack,
			}})
		}
	}
	return slices.DeleteFunc(ordered(all), func(f Failure) bool { return f.Acknowledged != nil })
}

// Acknowledge returns the state in which failures do not count any more, and stay
// listed as acknowledged until they are over. With until, the ID of a record in
// the SEL, these are the failures whose last record is that one or came before it; with All
// these are all that are known, absent components and what only a sensor shows
// included. What comes later counts: another record, or a state that has
// gone and returns.
func (s State) Acknowledge(until uint16, reason, by string, at time.Time) State {
	return s.acknowledge(func(string) bool { return true }, until, reason, by, at)
}

// AcknowledgeOnly is Acknowledge of the failures of these IDs.
func (s State) AcknowledgeOnly(ids []string, until uint16, reason, by string, at time.Time) State {
	return s.acknowledge(func(id string) bool { return slices.Contains(ids, id) }, until, reason, by, at)
}

func (s State) acknowledge(isMeant func(id string) bool, until uint16, reason, by string, at time.Time) State {
	given := Acknowledgement{By: clip(clean(by), maxName), Reason: clip(clean(reason), maxReason), At: plain(at)}
	covers := s.memory.upTo(until)
	var meant []key
	for _, p := range s.memory.Points {
		if isMeant(p.id()) {
			meant = append(meant, p.key)
		}
	}
	m := s.memory
	m.Points = make([]point, 0, len(s.memory.Points))
	for _, p := range s.memory.Points {
		if slices.ContainsFunc(meant, p.isWithin) {
			p = p.acknowledge(given, covers)
		}
		m.Points = append(m.Points, p)
	}
	m.Parts = make([]part, 0, len(s.memory.Parts))
	for _, c := range s.memory.Parts {
		if until == All && !c.Missing.IsZero() && c.Ack == nil && isMeant(c.id()) {
			c.Ack = &given
		}
		m.Parts = append(m.Parts, c)
	}
	return State{m}
}

// upTo returns whether a record is that one or came before it.
func (m *memory) upTo(until uint16) func(record) bool {
	// IDs rise and start over: the longer ago, the farther from the newest.
	newest := m.Cursor.ID
	if m.Reread != nil {
		newest = m.Reread.Before.ID
	}
	return func(r record) bool { return until == All || r.ID != 0 && newest-r.ID >= newest-until }
}

// isWithin reports whether p is that state, or a limit that is passed on the way to that one,
// which is shown for both.
func (p point) isWithin(k key) bool {
	const upper = 3 // the first of the upper limits
	if p.EventType.Discrete() || p.Chassis != "" {
		return p.key == k
	}
	sameSide := p.sensor() == k.sensor() && p.Chassis == k.Chassis && (p.State >= upper) == (k.State >= upper)
	return sameSide && p.State <= k.State
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

// WithAcknowledgements returns s with what people have acknowledged in stored since that was known:
// states before s of the same server. What has come since then is not acknowledged.
func (s State) WithAcknowledgements(stored, known State) State {
	m := s.memory
	covers := m.upTo(stored.memory.Cursor.ID)
	m.Points = slices.Clone(m.Points)
	for i := range m.Points {
		p := &m.Points[i]
		given, before := pointOf(stored, p.key), pointOf(known, p.key)
		if given == nil || given.Ack == nil || !given.Since.Equal(p.Since) || before != nil && before.Ack != nil && *before.Ack == *given.Ack {
			continue
		}
		p.Ack = given.Ack
		p.Occurrences = slices.DeleteFunc(slices.Clone(p.Occurrences), func(o occurrence) bool {
			return m.Cursor.Erased == stored.memory.Cursor.Erased && covers(record{ID: o.ID}) && !slices.Contains(given.Occurrences, o)
		})
	}
	m.Parts = slices.Clone(m.Parts)
	for i := range m.Parts {
		c := &m.Parts[i]
		at := slices.IndexFunc(stored.memory.Parts, func(other part) bool { return other.id() == c.id() && other.Ack != nil })
		if at >= 0 && !c.Missing.IsZero() && c.Ack == nil {
			c.Ack = stored.memory.Parts[at].Ack
		}
	}
	return State{m}
}

// pointOf returns what a state knows of k; nil: nothing.
func pointOf(s State, k key) *point {
	i := slices.IndexFunc(s.memory.Points, func(p point) bool { return p.key == k })
	if i < 0 {
		return nil
	}
	return &s.memory.Points[i]
}
