// Package ipmilan switches the power of a machine by its BMC, by IPMI 2.0 over LAN.
package ipmilan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/lan"
)

var _ power.Switch = (*Switch)(nil)

// DefaultPort is the UDP port of IPMI over LAN.
const DefaultPort = 623

// closeTime is how long a BMC is given to end a session.
const closeTime = 2 * time.Second

// Options say where the BMC is and how to log in.
type Options struct {
	// Host is a name or an address.
	Host string
	// Port is a UDP port; zero: DefaultPort.
	Port int
	// User has the privilege level operator; no more is needed.
	User string
	// Password of the user.
	Password power.Secret
	// Key of the BMC, K_g; without a file: none.
	Key power.Secret
	// CipherSuite by its ID, 3 or 17; zero: 3.
	CipherSuite int
}

// Switch is a BMC. It is safe for concurrent use.
type Switch struct{ options Options }

// New returns the switch. It asks the BMC nothing yet.
func New(o Options) *Switch {
	if o.Port == 0 {
		o.Port = DefaultPort
	}
	return &Switch{options: o}
}

// String returns "ipmi://" and the address.
func (s *Switch) String() string { return "ipmi://" + s.address() }

func (s *Switch) address() string {
	return net.JoinHostPort(s.options.Host, strconv.Itoa(s.options.Port))
}

// Read returns what the BMC says of its machine.
func (s *Switch) Read(ctx context.Context, machine power.UUID) (r power.Reading, err error) {
	err = s.session(ctx, func(b bmc) error {
		if r.GUID, err = b.guid(ctx); err != nil {
			return err
		}
		if r.Power, err = b.power(ctx); err != nil {
			return err
		}
		return power.Check(r.GUID, machine)
	})
	return r, err
}

// Off cuts the power if the BMC is that of the machine.
func (s *Switch) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	return s.control(ctx, machine, powerDown, still)
}

// On switches the power on if the BMC is that of the machine.
func (s *Switch) On(ctx context.Context, machine power.UUID, still power.Still) error {
	return s.control(ctx, machine, powerUp, still)
}

// Shutdown asks the operating system to shut down, by ACPI.
func (s *Switch) Shutdown(ctx context.Context, machine power.UUID, still power.Still) error {
	err := s.control(ctx, machine, softShutdown, still)
	if errors.Is(err, ipmi.InvalidCommand) || errors.Is(err, ipmi.InvalidField) {
		return fmt.Errorf("%w: a shutdown by ACPI: %w", power.ErrUnsupported, err)
	}
	return err
}

// control sends a Chassis Control, again for as long as lan does if no answer comes.
func (s *Switch) control(ctx context.Context, machine power.UUID, what byte, still power.Still) error {
	return s.session(ctx, func(b bmc) error {
		if err := b.is(ctx, machine); err != nil {
			return err
		}
		if err := still.Holds(ctx); err != nil {
			return err
		}
		_, err := b.Command(ctx, chassis, chassisControl, what)
		return err
	})
}

// longest is for how many seconds a BMC lets the light shine at most that can't do it for ever.
const longest = 255

// Identify switches the light on until it is switched off, or for four minutes where the BMC
// can't do that, or does not say that it does.
func (s *Switch) Identify(ctx context.Context, machine power.UUID, on bool) (lasts time.Duration, err error) {
	err = s.session(ctx, func(b bmc) error {
		if err := b.is(ctx, machine); err != nil {
			return err
		}
		lasts, err = b.identify(ctx, on)
		return err
	})
	return lasts, err
}

// session calls f in a session.
func (s *Switch) session(ctx context.Context, f func(b bmc) error) error {
	session, err := s.open(ctx)
	if err == nil {
		err = f(bmc{session})
		end(ctx, session, err)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ipmi.ErrNoAnswer):
		err = fmt.Errorf("%w: %w", power.ErrNoAnswer, err)
	case errors.Is(err, lan.ErrLogin), errors.Is(err, ipmi.InsufficientPrivilege):
		err = fmt.Errorf("%w: %w", power.ErrLogin, err)
	}
	return fmt.Errorf("%s: %w", s, err)
}

// end ends a session after an error, if any. A BMC has few of them, and takes a minute to
// forget one; so it is told also when there is no time left.
func end(ctx context.Context, session *lan.Session, err error) {
	if ctx.Err() != nil || errors.Is(err, ipmi.ErrNoAnswer) {
		session.Abandon()
		return
	}
	closing, cancel := context.WithTimeout(ctx, closeTime)
	defer cancel()
	_ = session.Close(closing) // all that was to be known is
}

func (s *Switch) open(ctx context.Context) (*lan.Session, error) {
	o := lan.Options{Address: s.address(), User: s.options.User, Suite: s.options.CipherSuite}
	var err error
	if o.Password, err = s.options.Password.Read(); err != nil {
		return nil, err
	}
	if s.options.Key.File != "" {
		if o.Key, err = s.options.Key.Read(); err != nil {
			return nil, err
		}
	}
	return lan.Open(ctx, o)
}
