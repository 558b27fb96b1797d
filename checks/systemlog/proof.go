package systemlog

import "time"

// maxStall is how long the journal's newest entry may be on its way while no
// other one comes, either.
const maxStall = 5 * time.Second

type proofState int

const (
	idle     proofState = iota
	asking              // which entry of the journal is the newest
	awaiting            // that it has come
)

// proof is that all entries of a journal have come that were written before it
// has begun: the newest that the journal had since then is among them.
type proof struct {
	state    proofState
	began    time.Time
	newest   *journalEntry // nil: the journal has none
	latest   *journalEntry // the one that has come last; nil: none
	moved    bool          // latest has come since the proof began
	progress time.Time     // when the proof last got on
}

func (p *proof) begin(now time.Time) {
	p.state, p.began, p.newest, p.moved, p.progress = asking, now, nil, false, now
}

func (p *proof) answered(newest *journalEntry, now time.Time) {
	p.state, p.newest, p.progress = awaiting, newest, now
}

func (p *proof) came(e *journalEntry, now time.Time) {
	p.latest, p.moved, p.progress = e, true, now
}

// complete reports whether nothing is missing of what is stamped from on.
func (p *proof) complete(from time.Time) bool {
	switch {
	case p.state != awaiting:
		return false
	case p.newest == nil || p.newest.Timestamp.Before(from):
		return true
	case p.latest == nil:
		return false
	case p.latest.cursor != "" && p.latest.cursor == p.newest.cursor:
		return true
	default: // one that is newer still
		return p.moved && p.latest.Timestamp.After(p.newest.Timestamp)
	}
}

func (p *proof) stalled(now time.Time) bool {
	return p.state == awaiting && now.Sub(p.progress) >= maxStall
}
