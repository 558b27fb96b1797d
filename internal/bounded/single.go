package bounded

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Single makes one call at a time of what may hang in the kernel: where one has not returned,
// it waits for that instead of a new one. So no more than one goroutine is left behind. Its
// zero value has made no call. It is used by one goroutine at a time.
type Single[T any] struct {
	done  chan T // nil: no call is under way
	began time.Time
}

// Call returns what f returns, or what the call returns that is under way; or ErrLate, with
// the time since that call began, if that takes longer than the limit or ctx ends. f changes
// nothing that others use.
func (s *Single[T]) Call(ctx context.Context, clk clock.Clock, limit time.Duration, f func() T) (value T, waited time.Duration, err error) {
	if s.done == nil {
		done := make(chan T, 1)
		s.done, s.began = done, clk.Now()
		go func() { done <- f() }()
	}
	timer := clk.NewTimer(limit)
	defer timer.Stop()
	select {
	case value = <-s.done:
		s.done = nil
		return value, clk.Since(s.began), nil
	case <-timer.C():
	case <-ctx.Done():
	}
	return value, clk.Since(s.began), ErrLate
}
