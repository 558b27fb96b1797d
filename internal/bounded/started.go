package bounded

// Started is a call on a goroutine of its own, which nobody has to wait for.
type Started[T any] struct {
	done     chan struct{}
	value    T
	panicked *Panic
}

// Start starts a call of f. If that hangs, its goroutine stays.
func Start[T any](f func() T) *Started[T] {
	s := &Started[T]{done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.panicked = guard(func() { s.value = f() })
	}()
	return s
}

// Done is closed when the call is over.
func (s *Started[T]) Done() <-chan struct{} { return s.done }

// Returned is whether the call is over.
func (s *Started[T]) Returned() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Value waits for the call, and returns what it has returned. If the call has panicked, so does
// Value: a caller can recover from that, and nobody from a panic of another goroutine.
func (s *Started[T]) Value() T {
	<-s.done
	if s.panicked != nil {
		panic(*s.panicked) //nolint:forbidigo // it is the call's
	}
	return s.value
}
