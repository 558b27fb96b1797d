package systemlog

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// written is an entry of the journal.
func written(cursor string, stamp time.Time) *journalEntry {
	return &journalEntry{logLine: logLine{Timestamp: stamp, Message: cursor}, cursor: cursor}
}

func TestAProofNeedsTheNewestEntryOrLaterOnes(t *testing.T) {
	now := time.Now()
	a, b, c := written("a", now), written("b", now.Add(time.Second)), written("c", now.Add(2*time.Second))
	for name, tc := range map[string]struct {
		before []*journalEntry // those that have come before the proof
		newest *journalEntry
		during []*journalEntry
		from   time.Time
		want   bool
	}{
		"the newest came before":                      {[]*journalEntry{a, b}, b, nil, now, true},
		"the newest comes":                            {[]*journalEntry{a}, b, []*journalEntry{b}, now, true},
		"newer ones came meanwhile":                   {[]*journalEntry{a}, b, []*journalEntry{b, c}, now, true},
		"nothing has come":                            {nil, b, nil, now, false},
		"the newest has not come":                     {[]*journalEntry{a}, b, nil, now, false},
		"only an older one comes":                     {nil, c, []*journalEntry{a, b}, now, false},
		"the newest was written after the clock went": {[]*journalEntry{c}, a, nil, now, false},
		"only one of the same time comes":             {nil, b, []*journalEntry{written("other", b.Timestamp)}, now, false},
		"there is none":                               {nil, nil, nil, now, true},
		"it is of no interest":                        {nil, a, nil, now.Add(time.Second), true},
		"entries have no cursors":                     {[]*journalEntry{written("", now)}, written("", now), nil, now, false},
	} {
		t.Run(name, func(t *testing.T) {
			var p proof
			for _, e := range tc.before {
				p.came(e, now)
			}
			p.begin(now)
			if p.complete(tc.from) {
				t.Error("complete before it is known which entry is the newest")
			}
			p.answered(tc.newest, now)
			for _, e := range tc.during {
				p.came(e, now)
			}
			if got := p.complete(tc.from); got != tc.want {
				t.Errorf("complete: %t, want %t", got, tc.want)
			}
			if p.stalled(now.Add(maxStall-1)) || !p.stalled(now.Add(maxStall)) {
				t.Errorf("it is not waited for %s", maxStall)
			}
		})
	}
}

func TestTheNewestEntryIsAskedForOncePerIntervalAndOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		entries, asked, out := make(chan *journalEntry, 1), make(chan struct{}), make(chan entry)
		d := delivery{from: began, interval: 30 * time.Second, clock: clock.RealClock{}, out: out,
			newest: func(context.Context) (*journalEntry, error) {
				at = append(at, time.Since(began))
				<-time.After(100 * time.Millisecond)
				return written("a", began), nil
			}}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.run(ctx, entries, nil, asked) }()
		entries <- written("a", began)
		if e := <-out; e.log == nil {
			t.Errorf("got %+v, want the entry", e)
		}
		expect := func(want time.Duration) {
			t.Helper()
			if e := <-out; e.log != nil || e.readUpTo.Sub(began) != want {
				t.Errorf("got %+v, want that all was read up to %s", e, want)
			}
		}
		expect(0)
		expect(30 * time.Second)
		asked <- struct{}{}
		expect(30*time.Second + 100*time.Millisecond)
		go func() {
			<-time.After(30*time.Second + 850*time.Millisecond)
			asked <- struct{}{} // during a proof: it began too early
		}()
		expect(61 * time.Second)
		expect(61*time.Second + 100*time.Millisecond)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if len(at) != 5 {
			t.Errorf("asked at %v", at)
		}
	})
}

func TestADeliveryWaitsForTheNewestEntryWhileOthersCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		entries, out := make(chan *journalEntry), make(chan entry)
		d := delivery{from: began, interval: 30 * time.Second, clock: clock.RealClock{}, out: out,
			newest: func(context.Context) (*journalEntry, error) { return written("last", began.Add(time.Hour)), nil }}
		ended := make(chan error, 1)
		go func() {
			defer close(out)
			ended <- d.run(t.Context(), entries, nil, nil)
		}()
		go func() {
			for range 20 {
				<-time.After(4 * time.Second)
				entries <- written("one of many", began)
			}
		}()
		for e := range out {
			if e.log == nil {
				t.Error("vouched for without the newest entry")
			}
		}
		if err := <-ended; !errors.Is(err, errStalled) {
			t.Errorf("ended with %v", err)
		}
		if took := time.Since(began); took != 80*time.Second+maxStall {
			t.Errorf("given up after %s, want %s after the last entry", took, maxStall)
		}
	})
}

func TestWhatHasComeIsHandedOverBeforeADeliveryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		entries, ended, out := make(chan *journalEntry, 10), make(chan struct{}), make(chan entry)
		d := delivery{from: now, interval: time.Hour, clock: clock.RealClock{}, out: out,
			newest: func(ctx context.Context) (*journalEntry, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}}
		for _, e := range []*journalEntry{written("too old", now.Add(-1)), written("", now), written("a", now), written("b", now)} {
			entries <- e
		}
		close(ended)
		result := make(chan error, 1)
		go func() {
			defer close(out)
			result <- d.run(t.Context(), entries, ended, nil)
		}()
		var got []string
		for e := range out {
			got = append(got, e.log.Message)
		}
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("got %q", got)
		}
		if err := <-result; !errors.Is(err, errStreamEnded) {
			t.Errorf("ended with %v", err)
		}
	})
}
