package maintenance

import (
	"slices"
	"sync"
	"time"
)

// drains is how many nodes are drained at the same time.
const drains = 16

// placeRecheck is after how long a node that waits for a place is looked at again, should nobody
// wake it.
const placeRecheck = 2 * time.Second

// places are those of the nodes that are drained. There are fewer than workers: an eviction may
// hang behind a webhook that does not answer, and no node waits for that which is to be cordoned
// or given back. The zero value is ready. It is safe for use by several goroutines.
type places struct {
	mu    sync.Mutex
	taken int
	// waiting are nodes that have found none, in their order.
	waiting []string
}

// take takes a place for the node; false: there is none, and it is told of the next one.
func (p *places) take(node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.waiting, node)
	if p.taken < drains {
		p.taken++
		if i >= 0 {
			p.waiting = slices.Delete(p.waiting, i, i+1)
		}
		return true
	}
	if i < 0 {
		p.waiting = append(p.waiting, node)
	}
	return false
}

// leave gives a place back. It returns the nodes that are to try again.
func (p *places) leave() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	next := slices.Clone(p.waiting[:min(len(p.waiting), drains-p.taken)])
	p.waiting = slices.Delete(p.waiting, 0, len(next))
	return next
}
