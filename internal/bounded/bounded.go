// Package bounded calls what may hang in the kernel, such as a file system whose disk has died.
package bounded

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
)

// ErrLate says that a call has not returned in time.
var ErrLate = errors.New("no answer in time")

// Call returns what f returns. If f takes longer than the limit it returns ErrLate, and if ctx
// ends before, that error. Then nobody waits for f any more: its goroutine ends when the kernel
// answers, if ever. So f changes nothing that others use.
func Call[T any](ctx context.Context, clk clock.Clock, limit time.Duration, f func() T) (T, error) {
	done := make(chan T, 1)
	timer := clk.NewTimer(limit)
	defer timer.Stop()
	go func() { done <- f() }()
	var none T
	select {
	case value := <-done:
		return value, nil
	case <-timer.C():
		return none, ErrLate
	case <-ctx.Done():
		return none, ctx.Err()
	}
}
