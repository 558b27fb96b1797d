package bounded

import (
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
