package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/lan"
)

// ErrOtherMachine is of a BMC that is another machine's, or does not tell.
var ErrOtherMachine = errors.New("it is not known to be the BMC of this machine")

var (
	_ device.Router = (*transport)(nil)
	_ device.Rester = (*transport)(nil)
)

// New returns a source. It asks the BMC nothing before it is read; the error is of files that
// can't be read or may not be used.
func New(o Options) (*device.Device, error) {
	if o.Host == "" {
		return nil, errNoHost
	}
	if o.Port == 0 {
		o.Port = DefaultPort
	}
	if o.Privilege == 0 {
		o.Privilege = lan.User
	}
	if _, err := o.login(); err != nil {
		return nil, err
	}
	return device.New("lan at "+o.address(), &transport{options: o}, clock.RealClock{}), nil
}

// transport has a session while there are commands.
type transport struct {
	options Options

	mu      sync.Mutex
	session *lan.Session // nil: none
	closed  bool
}

// SendRecv implements device.Transport.
func (t *transport) SendRecv(ctx context.Context, netfn, cmd uint8, data []byte) ([]byte, error) {
	return t.SendRecvTo(ctx, device.Target{Owner: ipmi.BMCAddress}, netfn, cmd, data)
}

// Reaches implements device.Router: the BMC bridges to every controller.
func (t *transport) Reaches(to device.Target) bool { return to.Owner != 0 && to.Owner&1 == 0 }

// SendRecvTo implements device.Router. What has failed without an answer of the BMC is tried
// in another session the next time.
func (t *transport) SendRecvTo(ctx context.Context, to device.Target, netfn, cmd uint8, data []byte) ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, os.ErrClosed
	}
	if err := t.open(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", t.options.address(), notOpened{err})
	}
	const success = 0
	answer, err := t.session.CommandTo(ctx, lan.Target(to), netfn, cmd, data...)
	code, refused := errors.AsType[ipmi.CompletionCode](err)
	switch {
	case err == nil:
		return append([]byte{success}, answer...), nil
	case refused:
		return []byte{byte(code)}, nil
	case to.Owner == ipmi.BMCAddress:
		t.abandon()
	}
	return nil, fmt.Errorf("%s: %w", t.options.address(), err)
}

// open opens a session if there is none.
func (t *transport) open(ctx context.Context) error {
	if t.session != nil {
		return nil
	}
	o, err := t.options.login()
	if err != nil {
		return err
	}
	session, err := lan.Open(ctx, o)
	if err != nil {
		return err
	}
	if err := t.options.verify(ctx, session); err != nil {
		session.Abandon()
		return err
	}
	t.session = session
	return nil
}

// notOpened is an error of a session. A completion code in it is none of the command that
// the session was for.
type notOpened struct{ error }

// Is implements what errors.Is asks for.
func (n notOpened) Is(target error) bool {
	_, code := errors.AsType[ipmi.CompletionCode](target)
	return !code && errors.Is(n.error, target)
}

// verify returns an error unless the BMC is that of the machine.
func (o Options) verify(ctx context.Context, session *lan.Session) error {
	if o.Machine == (power.UUID{}) {
		return nil
	}
	const app, getSystemGUID = 0x06, 0x37
	data, err := session.Command(ctx, app, getSystemGUID)
	code, refused := errors.AsType[ipmi.CompletionCode](err)
	switch {
	case refused && !code.Temporary():
		return fmt.Errorf("%w: its System GUID: %w; %s", ErrOtherMachine, code, trust)
	case err != nil:
		return err
	case len(data) != len(power.GUID{}):
		return fmt.Errorf("%w: its System GUID has %d bytes; %s", ErrOtherMachine, len(data), trust)
	}
	if guid := power.GUID(data); !matches(guid, o.Machine) {
		return fmt.Errorf("%w: its System GUID is %s, the UUID of this machine %s; %s", ErrOtherMachine, guid, o.Machine, trust)
	}
	return nil
}

func matches(guid power.GUID, machine power.UUID) bool {
	_, ok := guid.Matches(machine)
	return ok
}

const trust = "see to its address, or set trustAddress if you are sure of it"

// Rest implements device.Rester: it ends the session, and does not wait for that.
func (t *transport) Rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandon()
}

func (t *transport) abandon() {
	if t.session != nil {
		t.session.Abandon()
		t.session = nil
	}
}

// Close implements device.Transport.
func (t *transport) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandon()
	t.closed = true
	return nil
}
