package proof

import (
	"time"

	"github.com/nodemend/nodemend/internal/power"
)

// Stays proves that a machine is off which is to stay so: nobody knows whether its switch has
// acknowledged an off, and answered ever since, so its readings are Plan.Settled apart. The zero value
// has seen nothing.
type Stays struct{ first, last *reading }

// Read takes a reading, and returns the proof once there is one. What is not off, or no reading, or what
// another program has read, begins anew; so does a machine that nobody has read for Plan.Repeat: its switch may have
// restarted, and say off until it has found its machine.
func (s *Stays) Read(plan Plan, asked, answered time.Time, r power.Reading, err error) (Proof, bool) {
	now := reading{asked: asked, answered: answered, Reading: r, err: err}
	unwatched := s.last == nil || asked.Sub(s.last.answered) > plan.Repeat
	s.last = &now
	switch {
	case !now.isOff(plan.Machine) || r.Reported:
		s.first = nil
		return Proof{}, false
	case s.first == nil || unwatched:
		s.first = &now
		return Proof{}, false
	}
	p, err := prove(plan, plan.Settled, *s.first, now)
	return p, err == nil
}
