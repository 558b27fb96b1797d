package ipmitool

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
)

// New returns a source. It does not run ipmitool before it is read. The error is ErrNoProgram
// if that is not installed.
func New(o Options) (*device.Device, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	path, err := o.program()
	if err != nil {
		return nil, err
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return device.New(o.name(), &transport{options: o, path: path}, clock.RealClock{}), nil
}

var (
	_ device.Router = (*transport)(nil)
	_ device.Rester = (*transport)(nil)
)

// transport runs an ipmitool for each target.
type transport struct {
	options Options
	path    string

	mu       sync.Mutex
	programs map[device.Target]*program // nil: none
	// leaving are those that were told to end and may not have.
	leaving []*program
	closed  bool
}

// SendRecv implements device.Transport.
func (t *transport) SendRecv(ctx context.Context, netfn, cmd uint8, data []byte) ([]byte, error) {
	return t.SendRecvTo(ctx, device.Target{Owner: ipmi.BMCAddress}, netfn, cmd, data)
}

// Reaches implements device.Router: ipmitool bridges to every controller.
func (t *transport) Reaches(to device.Target) bool { return to.Owner != 0 && to.Owner&1 == 0 }

// SendRecvTo implements device.Router. What has failed without an answer of the BMC is tried
// by another ipmitool the next time.
func (t *transport) SendRecvTo(ctx context.Context, to device.Target, netfn, cmd uint8, data []byte) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(ctx, t.options.Timeout,
		fmt.Errorf("not done within %s: %w", t.options.Timeout, os.ErrDeadlineExceeded))
	defer cancel()
	answer, err := t.sendRecv(ctx, to, netfn, cmd, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.options.name(), err)
	}
	return answer, nil
}

func (t *transport) sendRecv(ctx context.Context, to device.Target, netfn, cmd uint8, data []byte) ([]byte, error) {
	p, err := t.program(ctx, to)
	if err != nil {
		return nil, err
	}
	answer, err := p.sendRecv(ctx, netfn, cmd, data)
	if err != nil {
		p.kill()
		delete(t.programs, to)
		t.leaving = append(t.leaving, p)
	}
	return answer, err
}

// program returns the ipmitool for a target. A new one waits until the driver, or the BMC, is
// rid of those before.
func (t *transport) program(ctx context.Context, to device.Target) (*program, error) {
	if t.closed {
		return nil, os.ErrClosed
	}
	if p := t.programs[to]; p != nil {
		return p, nil
	}
	for _, before := range t.leaving {
		select {
		case <-before.ended:
		case <-ctx.Done():
			return nil, fmt.Errorf("an earlier one has yet to end: %w", context.Cause(ctx))
		}
	}
	t.leaving = nil
	args, env, err := t.options.connection(to)
	if err != nil {
		return nil, err
	}
	p, err := start(ctx, t.path, args, env)
	if err != nil {
		return nil, err
	}
	if t.programs == nil {
		t.programs = map[device.Target]*program{}
	}
	t.programs[to] = p
	return p, nil
}

// Rest implements device.Rester: it lets ipmitool end its sessions.
func (t *transport) Rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.programs {
		p.leave()
		t.leaving = append(t.leaving, p)
	}
	t.programs = nil
	t.leaving = slices.DeleteFunc(t.leaving, (*program).hasEnded)
}

// Close implements device.Transport. It waits for all that was started.
func (t *transport) Close() error {
	t.Rest()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, p := range t.leaving {
		<-p.ended
		p.kill() // what is open of it
	}
	t.leaving = nil
	return nil
}
