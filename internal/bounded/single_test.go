package bounded_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/bounded"
)

func TestACallThatHangsIsWaitedForAndNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s bounded.Single[int]
		calls := 0
		kernel := make(chan int)
		call := func(wantValue int, wantWaited time.Duration, wantErr error) {
			t.Helper()
			value, waited, err := s.Call(t.Context(), clock.RealClock{}, time.Second, func() int {
				calls++
				return <-kernel
			})
			if value != wantValue || waited != wantWaited || !errors.Is(err, wantErr) {
				t.Errorf("got %d after %s, %v; want %d after %s, %v", value, waited, err, wantValue, wantWaited, wantErr)
			}
		}
		call(0, time.Second, bounded.ErrLate)
		time.Sleep(time.Minute)
		call(0, time.Minute+2*time.Second, bounded.ErrLate)
		go func() { kernel <- 1 }()
		call(1, time.Minute+2*time.Second, nil)
		go func() { kernel <- 2 }()
		call(2, 0, nil)
		if calls != 2 {
			t.Errorf("%d calls, want 2", calls)
		}
	})
}
