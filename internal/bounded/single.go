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
	started *Started[T] // nil: no call is under way
	began   time.Time
}

// Call returns what f returns, or what the call returns that is under way; or ErrLate, with
// the time since that call began, if that takes longer than the limit or ctx ends. f changes
// nothing that others use. A panic of f is one of the caller's.
func (s *Single[T]) Call(ctx context.Context, clk clock.Clock, limit time.Duration, f func() T) (value T, waited time.Duration, err error) {
	if s.started == nil {
		s.started, s.began = Start(f), clk.Now()
	}
	timer := clk.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.started.Done():
		over := s.started
		s.started = nil
		return over.Value(), clk.Since(s.began), nil
	case <-timer.C():
	case <-ctx.Done():
	}
	return value, clk.Since(s.began), ErrLate
}
