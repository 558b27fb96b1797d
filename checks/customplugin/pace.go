package customplugin

import (
	"time"

	"github.com/nodemend/nodemend/checks"
)

// settling is how long after a condition has become False its rules still run
// at the problem interval.
const settling = 10 * time.Minute

// pace says when the next round of one group of rules is due.
type pace struct {
	interval        time.Duration
	problemInterval time.Duration // zero: never more often than interval

	troubled  bool      // the condition is not False
	calmSince time.Time // when it became False after that
}

// saw takes in what a round has found.
func (p *pace) saw(status checks.Status, now time.Time) {
	if status == checks.False && p.troubled {
		p.calmSince = now
	}
	p.troubled = status != checks.False
}

// next is the time between the starts of the last and the next round. random, in
// [0, 1), takes up to a tenth off, so that the nodes of a cluster drift apart.
func (p *pace) next(now time.Time, random float64) time.Duration {
	next := p.interval
	settled := p.calmSince.IsZero() || now.Sub(p.calmSince) >= settling
	if p.problemInterval > 0 && (p.troubled || !settled) {
		next = min(next, p.problemInterval)
	}
	return next - time.Duration(random*float64(next)/10)
}
