package systemlog

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

func TestLinesThatAreReadAgainAreNotNew(t *testing.T) {
	second := func(s int) time.Time { return time.Unix(int64(s), 0) }
	p := position{start: second(5)}
	if from := p.open(second(10)); !from.Equal(second(5)) {
		t.Errorf("first read from %v, want the start", from)
	}
	expect := func(want bool, stamps ...int) {
		t.Helper()
		for _, s := range stamps {
			if p.isNew(second(s)) != want {
				t.Errorf("line stamped %d: got new %t", s, !want)
			}
		}
	}
	expect(true, 6, 8, 7, 9, 9)

	if from := p.open(second(12)); !from.Equal(second(9)) {
		t.Errorf("read again from %v, want the latest line", from)
	}
	expect(false, 6, 8, 7, 9, 9)
	expect(true, 9, 11, 10)

	p.open(second(13))
	expect(false, 10, 11)
	p.caughtUp()
	expect(true, 4, 11) // out of order, but after the news that all was read

	p.open(second(3)) // the clock was set back
	expect(true, 3, 4)
}

func TestLinesAreWantedAgainOnceTheClockWasSetBack(t *testing.T) {
	second := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for name, tt := range map[string]struct {
		start, began, opened, from int
	}{
		"right from the first":           {95, 100, 110, 95},
		"it was set back":                {95, 100, 50, 45},
		"lines after a delay are wanted": {130, 100, 110, 130},
		"the same, and it was set back":  {130, 100, 50, 130},
	} {
		var p position
		p.begin(second(tt.start), second(tt.began))
		if from := p.open(second(tt.opened)); !from.Equal(second(tt.from)) {
			t.Errorf("%s: read from %v, want %v", name, from, second(tt.from))
		}
	}
}

// ahead is a clock that is ahead for some time.
type ahead struct {
	clock.RealClock
	by *atomic.Int64
}

func (a ahead) Now() time.Time { return a.RealClock.Now().Add(time.Duration(a.by.Load())) }

func TestWhatAFileGetsAfterTheClockWasSetBackIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		appendTo(t, path, stamped("old"))
		c := ahead{by: &atomic.Int64{}}
		c.by.Store(int64(8 * time.Hour))
		r := follow(t, file{path: path, translator: newTranslator(isoConfig, c), clock: c}, c.Now().Add(-5*time.Minute))
		r.expect()
		c.by.Store(0)
		appendTo(t, path, stamped("task blocked for more than 120 seconds"))
		r.expect("task blocked for more than 120 seconds")
	})
}

func TestWhatAJournalGetsAfterTheClockWasSetBackIsHandedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ahead{by: &atomic.Int64{}}
		c.by.Store(int64(8 * time.Hour))
		entries, out, asked := make(chan *journalEntry, 1), make(chan entry), make(chan struct{})
		var last atomic.Pointer[journalEntry]
		d := delivery{from: c.Now().Add(-5 * time.Minute), interval: time.Hour, clock: c, out: out,
			newest: func(context.Context) (*journalEntry, error) { return last.Load(), nil }}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = d.run(ctx, entries, nil, asked) }()
		if e := <-out; e.readUpTo.IsZero() {
			t.Errorf("got %+v, want that an empty journal was read", e)
		}
		c.by.Store(0)
		e := written("a", c.Now())
		last.Store(e)
		entries <- e
		if got := <-out; got.log == nil {
			t.Errorf("got %+v, want the entry", got)
		}
		last.Store(written("b", c.Now())) // which is still to come
		asked <- struct{}{}
		select {
		case got := <-out:
			t.Errorf("got %+v, want nothing before the newest entry has come", got)
		case <-c.After(time.Second):
		}
		cancel()
	})
}
