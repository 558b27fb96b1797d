package systemlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// lookEvery is how often a delivery looks at the time.
const lookEvery = time.Second

var (
	errStreamEnded = errors.New("the stream of entries has ended")
	errStalled     = errors.New("journalctl does not deliver the newest entry of the journal: following it hangs")
)

// delivery hands over the entries that one who follows the journal delivers, and
// proves once per interval, and when it is asked to, that all have come.
type delivery struct {
	from     time.Time // older entries are not handed over at first
	interval time.Duration
	newest   func(context.Context) (*journalEntry, error)
	clock    clock.Clock
	out      chan<- entry
}

type answer struct {
	newest *journalEntry
	err    error
}

// run returns when ctx ends, when ended is closed, or when the proof fails.
func (d delivery) run(ctx context.Context, entries <-chan *journalEntry, ended, asked <-chan struct{}) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, 1)
	wanted := &since{from: d.from, opened: d.clock.Now()}
	var p proof
	prove := func() {
		p.begin(d.clock.Now())
		asking.Go(func() {
			newest, err := d.newest(ctx)
			answers <- answer{newest, err}
		})
	}
	timer := d.clock.NewTimer(lookEvery)
	defer timer.Stop()
	prove()
	for again := false; ; {
		select {
		case e := <-entries:
			if err := d.hand(ctx, wanted, e); err != nil {
				return err
			}
			p.came(e, d.clock.Now())
		case a := <-answers:
			if a.err != nil {
				return a.err
			}
			p.answered(a.newest, d.clock.Now())
		case <-asked:
			again = true
		case <-timer.C():
			timer.Reset(lookEvery)
		case <-ended:
			for len(entries) > 0 {
				if err := d.hand(ctx, wanted, <-entries); err != nil {
					return err
				}
			}
			return errStreamEnded
		case <-ctx.Done():
			return ctx.Err()
		}
		now := d.clock.Now()
		switch {
		case p.complete(wanted.stamp()):
			wanted.caughtUp = true
			if err := put(ctx, d.out, entry{readUpTo: p.began}); err != nil {
				return err
			}
			p.state = idle
		case p.stalled(now) && len(entries) == 0:
			return errStalled
		}
		if p.state == idle && (again || now.Sub(p.began) >= d.interval) {
			prove()
			again = false
		}
	}
}

func (d delivery) hand(ctx context.Context, wanted *since, e *journalEntry) error {
	if e.Message == "" || !wanted.wants(e.Timestamp) {
		return ctx.Err()
	}
	return put(ctx, d.out, entry{log: &e.logLine})
}
