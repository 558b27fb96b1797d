package verdict

import (
	"cmp"
	"slices"
	"time"
)

// watchedFor is the longest time between two looks during which a server counts as watched:
// twice the longest interval of the check.
const watchedFor = 10 * time.Minute

// look is when, and in which boot, a server was looked at.
type look struct {
	At   time.Time `json:"at,omitzero"`
	Boot string    `json:"boot,omitempty"`
}

// setClock has only that time count during which the server was watched, by a clock that
// was not set meanwhile. What has to last for a while begins anew after a reboot, and after
// a time that nobody can vouch for.
func (j *judgement) setClock() {
	last := j.memory.Looked
	j.memory.Looked = look{j.in.Now, j.in.BootID}
	passed := j.in.Now.Sub(last.At)
	watched := cmp.Or(j.in.Watched, passed)
	isKnown := !last.At.IsZero() && last.Boot == j.in.BootID && watched >= 0 && watched <= watchedFor
	step := passed
	switch {
	case last.At.IsZero():
		step = 0
	case isKnown:
		step = (passed - watched).Round(time.Minute) // times are kept in seconds
	}

	// pending moves the begin of what has to last.
	pending := func(since *time.Time) {
		switch {
		case since.IsZero():
		case isKnown:
			*since = since.Add(step)
		default:
			*since = j.in.Now
		}
	}
	pending(&j.memory.Shrunk)
	for i := range j.memory.Parts {
		if c := &j.memory.Parts[i]; !c.Gone {
			pending(&c.Missing)
		}
	}
	for _, p := range j.points {
		if !p.Unread.IsZero() && last.At.Sub(p.Unread) >= unreadFor && !isKnown {
			p.Unread = p.Unread.Add(passed) // it has lasted long enough
		} else {
			pending(&p.Unread)
		}
		p.moveCounts(step, isKnown, j.in.Now)
	}
	if step.Abs() > newFor {
		j.moveBegin(step)
	}
}

// moveCounts moves the times of p that are by the clock of the node. Of a time that
// nobody can vouch for it is not known whether it has passed.
func (p *point) moveCounts(step time.Duration, isKnown bool, now time.Time) {
	if p.Reached != nil {
		moved := *p.Reached
		moved.LastSeen = earlier(moved.LastSeen.Add(step), now)
		p.Reached = &moved
	}
	for i := range p.Occurrences {
		if o := &p.Occurrences[i]; o.NoClock {
			if isKnown {
				o.At += int64(step / time.Second)
			}
			o.At = min(o.At, now.Unix())
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// moveBegin has the first look been that much later. If the clock of the node was behind
// then, what was logged just before looked as if it came from the future.
func (j *judgement) moveBegin(step time.Duration) {
	if j.memory.Began.IsZero() {
		return
	}
	then := j.memory.Began
	began := plain(then.Add(step))
	j.memory.Began = began
	for _, p := range j.points {
		at := p.Record.Time
		if !p.History || at.Sub(then) <= newFor || began.Sub(at).Abs() > newFor {
			continue
		}
		p.History, p.Forgotten, p.Reached = false, false, nil
		p.Occurrences = slices.DeleteFunc(p.Occurrences, func(o occurrence) bool {
			return began.Sub(time.Unix(o.At, 0)).Abs() > newFor
		})
	}
}
