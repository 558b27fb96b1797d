package checks

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// beat is after how long a pulse beats.
const beat = 100 * time.Millisecond

// pulse measures for how long this process was not run: by how much its own timers are late. On a
// node whose processors others keep, of a virtual machine that was stopped, or in a container at its
// limit, a time that is over says nothing about whoever was to answer in it.
type pulse struct {
	clock clock.Clock
	began time.Time

	mu   sync.Mutex
	next time.Time // when the next beat is due
	late time.Duration
}

// startPulse has a pulse beat until ctx ends.
func startPulse(ctx context.Context, c clock.Clock) *pulse {
	now := c.Now()
	p := &pulse{clock: c, began: now, next: now.Add(beat)}
	go func() {
		timer := c.NewTimer(beat)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C():
				p.beat()
				timer.Reset(beat)
			}
		}
	}()
	return p
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.late += max(0, now.Sub(p.next))
	p.next = now.Add(beat)
}

// starved reports whether the process was not run for three quarters of the time since the pulse began,
// and for how long it was not. Less is usual on a busy node, and an answer that is there is read between.
func (p *pulse) starved() (late time.Duration, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	late = p.late + max(0, now.Sub(p.next)) // the beat itself may be what is late
	return late, late > beat && 4*late >= 3*now.Sub(p.began)
}
