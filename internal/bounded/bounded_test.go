package bounded

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

func TestACallIsAwaitedUntilItsLimit(t *testing.T) {
	hangs := make(chan struct{})
	defer close(hangs)
	never := func() int { <-hangs; return 1 }

	if got, err := Call(t.Context(), clock.RealClock{}, time.Hour, func() int { return 7 }); got != 7 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}

	// A limit that is over already, so that no clock has to go on meanwhile.
	if _, err := Call(t.Context(), clock.RealClock{}, 0, never); !errors.Is(err, ErrLate) {
		t.Errorf("after its limit: got %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Call(ended, clock.RealClock{}, time.Hour, never); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end: got %v", err)
	}
}

func TestAPanicOfACallIsOneOfItsCaller(t *testing.T) {
	var single Single[int]
	for name, call := range map[string]func(f func() int){
		"Within": func(f func() int) { _, _ = Within(clock.RealClock{}, time.Hour, f) },
		"Single": func(f func() int) { _, _, _ = single.Call(t.Context(), clock.RealClock{}, time.Hour, f) },
		"Start":  func(f func() int) { Start(f).Value() },
		"Group": func(f func() int) {
			var group Group
			group.Go(func() {})
			group.Go(func() { f() })
			group.Wait()
		},
		"a call in a Group": func(f func() int) {
			var group Group
			group.Go(func() { _, _ = Within(clock.RealClock{}, time.Hour, f) })
			group.Wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				p, is := recover().(Panic)
				if !is || p.Value != "no such mode" || !bytes.Contains(p.Stack, []byte("TestAPanicOfACall")) {
					t.Errorf("recovered from %v", p)
				}
			}()
			call(func() int { panic("no such mode") }) //nolint:forbidigo // as a library does
		})
	}
}
