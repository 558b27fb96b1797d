// Package bounded calls what may hang in the kernel, such as a file system whose disk has died, on
// goroutines of their own. Whatever panics there is a panic of the caller, who may recover from it.
package bounded

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"
)

// ErrLate says that a call has not returned in time.
var ErrLate = errors.New("no answer in time")

// Call returns what f returns, as Within does; or the error of ctx, if that ends before.
func Call[T any](ctx context.Context, clk clock.Clock, limit time.Duration, f func() T) (T, error) {
	value, err := call(ctx.Done(), clk, limit, f)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return value, err
}

// Within returns what f returns, or ErrLate if f takes longer than the limit. Then nobody waits
// for f any more: its goroutine ends when the kernel answers, if ever. So f changes nothing that
// others use. A panic of f is one of the caller's.
func Within[T any](clk clock.Clock, limit time.Duration, f func() T) (T, error) {
	return call(nil, clk, limit, f)
}

func call[T any](end <-chan struct{}, clk clock.Clock, limit time.Duration, f func() T) (T, error) {
	started := Start(f)
	timer := clk.NewTimer(limit)
	defer timer.Stop()
	var none T
	select {
	case <-started.Done():
		return started.Value(), nil
	case <-timer.C():
		return none, ErrLate
	case <-end:
		return none, ErrLate
	}
}
