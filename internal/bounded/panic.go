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

// guard calls f, and returns how it has panicked; nil if it has not. The stack of a panic that
// f had from a call of its own is that of the call.
func guard(f func()) (panicked *Panic) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case Panic:
			panicked = &cause
		default:
			panicked = &Panic{cause, debug.Stack()}
		}
	}()
	f()
	return nil
}
