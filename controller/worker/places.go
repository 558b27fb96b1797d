package worker

import (
	"slices"
	"sync"
	"time"
)

// PlaceRecheck is after how long an object that waits for a place is looked at again, should
// nobody wake it.
const PlaceRecheck = 2 * time.Second

// Places are those of what may take long in a loop, such as requests that hang behind a webhook
// which does not answer. With fewer of them than workers, other objects do not wait for that. The
// zero value is ready. It is safe for use by several goroutines.
type Places struct {
	mu    sync.Mutex
	taken int
	// waiting are objects that have found none, in their order.
	waiting []string
}

// Take takes one of so many places for an object; false: there is none, and it is woken when one
// is free.
func (p *Places) Take(most int, name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, name)
	if p.taken < most {
		p.taken++
		if i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
		return true
	}
	if i < 0 {
		p.waiting = append(p.waiting, name)
	}
	return false
}

// Leave gives one of so many places back, and rings for those who wait for it.
func (p *Places) Leave(most int, bell *Doorbell) {
	for _, name := range p.leave(most) {
		bell.Ring(name)
	}
}

func (p *Places) leave(most int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	next := slices.Clone(p.waiting[:min(len(p.waiting), most-p.taken)])
	p.waiting = slices.Delete(p.waiting, 0, len(next))
	return next
}
