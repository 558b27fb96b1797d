package bmc

import (
	"context"
	"os"
	"sync"
)

// Transport reaches a BMC as the kernel's driver does: one command at a time, without
// a way to cancel it.
type Transport struct {
	bmc    *BMC
	closed chan struct{}
	close  sync.Once

	mu   sync.Mutex
	hang chan struct{} // nil unless it hangs
}

// Transport returns a new transport to the BMC.
func (b *BMC) Transport() *Transport {
	return &Transport{bmc: b, closed: make(chan struct{})}
}

// Hang lets all further commands hang until release is called, or the transport is
// closed. The BMC gets them after that.
func (t *Transport) Hang() (release func()) {
	hang := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hang = hang
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.hang = nil
		close(hang)
	}
}

// SendRecv has the BMC execute a command.
func (t *Transport) SendRecv(_ context.Context, netfn, cmd uint8, data []byte) ([]byte, error) {
	t.mu.Lock()
	hang := t.hang
	t.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-t.closed:
		}
	}
	select {
	case <-t.closed:
		return nil, os.ErrClosed
	default:
		return t.bmc.Handle(netfn, 0, cmd, data), nil
	}
}

// Close ends a command that hangs.
func (t *Transport) Close() error {
	t.close.Do(func() { close(t.closed) })
	return nil
}
