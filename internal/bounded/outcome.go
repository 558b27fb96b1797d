package bounded

import (
	"fmt"
	"runtime/debug"
)

// Panic is what a caller panics with since its call has.
type Panic struct {
	Value any
	// Stack is that of the call.
	Stack []byte
}

// Error is what a program ends with whose panic nobody recovers from.
func (p Panic) Error() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// outcome is how a call ended.
type outcome[T any] struct {
	value T
	// panicked is nil if it returned.
	panicked *Panic
}

// run calls f on a goroutine of its own.
func run[T any](f func() T) <-chan outcome[T] {
	done := make(chan outcome[T], 1)
	go func() {
		var o outcome[T]
		defer func() {
			if cause := recover(); cause != nil {
				o.panicked = &Panic{cause, debug.Stack()}
			}
			done <- o
		}()
		o.value = f()
	}()
	return done
}

// take returns the value, or panics since f has: a caller can recover from that, and nobody from
// a panic of another goroutine.
func (o outcome[T]) take() T {
	if o.panicked != nil {
		panic(*o.panicked) //nolint:forbidigo // it is the call's
	}
	return o.value
}
