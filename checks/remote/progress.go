package remote

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// stuckAfter is for how long a look may take, beyond its interval and timeout.
const stuckAfter = 2 * time.Minute

// detector runs looks, and knows whether they make progress.
type detector struct {
	looks   []look
	nodes   *fleet
	metrics metrics
	clock   clock.Clock
	rand    func() float64
	// began is when each look has begun for the last time, by its name.
	began map[string]*moment
}

func newDetector(looks []look, m metrics, c clock.Clock, rand func() float64) *detector {
	d := &detector{looks: looks, metrics: m, clock: c, rand: rand, began: map[string]*moment{}}
	for _, l := range looks {
		d.began[l.String()] = &moment{}
	}
	return d
}

// moment is a time that several goroutines know.
type moment struct {
	mu sync.Mutex
	at time.Time
}

func (m *moment) set(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = at
}

func (m *moment) get() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

// healthy returns an error if this process leads and a look or an exporter makes no progress.
func (d *detector) healthy() error {
	var errs []error
	for _, l := range d.looks {
		began, run := d.began[l.String()].get(), l.settings()
		if age := d.clock.Since(began); !began.IsZero() && age > run.Interval.Duration+run.Timeout.Duration+stuckAfter {
			errs = append(errs, fmt.Errorf("%s has not begun to look for %s", l, age.Round(time.Second)))
		}
	}
	return errors.Join(append(errs, d.nodes.healthy())...)
}
