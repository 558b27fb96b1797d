package remediation

import (
	"sync"
	"time"
)

// sightings remember since when this controller has seen nodes clear whose conditions say a time that
// is still to come. A kubelet's clock is its node's, and may be hours ahead until somebody sets it;
// what it has said by then stays. So they are counted from here: another controller counts anew.
type sightings struct {
	mu     sync.Mutex
	byName map[string]sighting // of their remediations
}

// sighting is that a node was seen at a time, clear since another one by what its conditions say.
type sighting struct{ at, since time.Time }

// of returns what is remembered.
func (s *sightings) of(name string) sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// note remembers what a decision went by; zero: nothing.
func (s *sightings) note(name string, seen sighting) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seen == (sighting{}) {
		delete(s.byName, name)
		return
	}
	if s.byName == nil {
		s.byName = map[string]sighting{}
	}
	s.byName[name] = seen
}
