// Package redfish switches the power of a machine by a Redfish service (DMTF DSP0266), which
// most BMCs have, and which may have many machines. It picks the machine by its UUID. That is the node's own
// word, so of many it has to be the one that Options name, too.
package redfish

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/nodemend/nodemend/internal/power"
)

var _ power.Switch = (*Switch)(nil)

// Options say where the service is and how to log in.
type Options struct {
	// URL of the service, without a path: https://HOST or https://HOST:PORT.
	URL string
	// User may read the system and reset it (role Operator).
	User string
	// Password of the user.
	Password power.Secret
	// TLS says how the service is known to be the one.
	TLS TLS
	// System is the Id of the system in the service; "": that of its only one.
	System string
	// Patience is how long a request may take; zero: 15 seconds.
	Patience time.Duration
}

// Switch is a machine of a service. It is safe for concurrent use.
type Switch struct{ options Options }

// New returns the switch. It asks the service nothing yet.
func New(o Options) (*Switch, error) {
	o, err := o.Validated()
	if err != nil {
		return nil, err
	}
	return &Switch{options: o}, nil
}

// Validated returns the options with the URL as it is used, or what is wrong with them. No file
// is read.
func (o Options) Validated() (Options, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return o, errors.New("the URL of a Redfish service is https://HOST or https://HOST:PORT, without a path or a user")
	}
	o.URL = "https://" + u.Host
	return o, o.TLS.validate()
}

// String returns the URL.
func (s *Switch) String() string { return s.options.URL }

// Read returns what the service says of the machine.
func (s *Switch) Read(ctx context.Context, machine power.UUID) (r power.Reading, err error) {
	err = s.session(ctx, machine, func(system *schemas.ComputerSystem) error {
		if r.GUID, err = power.ParseGUID(system.UUID); err != nil {
			return err
		}
		r.Power, err = stateOf(system)
		return err
	})
	return r, err
}

// Off cuts the power of the machine.
func (s *Switch) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	return s.reset(ctx, machine, still, schemas.OffPowerState, schemas.ForceOffResetType)
}

// On switches the machine on.
func (s *Switch) On(ctx context.Context, machine power.UUID, still power.Still) error {
	return s.reset(ctx, machine, still, schemas.OnPowerState, schemas.OnResetType, schemas.ForceOnResetType)
}

// Shutdown asks the operating system to shut down. A button that is pushed would switch on what is
// off, so that is not used.
func (s *Switch) Shutdown(ctx context.Context, machine power.UUID, still power.Still) error {
	return s.reset(ctx, machine, still, schemas.OffPowerState, schemas.GracefulShutdownResetType)
}

// reset asks for the first kind of reset that the service offers. A service may refuse what
// is so already.
func (s *Switch) reset(ctx context.Context, machine power.UUID, still power.Still, already schemas.PowerState, kinds ...schemas.ResetType) error {
	return s.session(ctx, machine, func(system *schemas.ComputerSystem) error {
		offered, err := system.GetSupportedResetTypes()
		if err != nil {
			return err
		}
		kind := kinds[0]
		if len(offered) > 0 {
			i := slices.IndexFunc(kinds, func(k schemas.ResetType) bool { return slices.Contains(offered, k) })
			if i < 0 {
				return fmt.Errorf("%w: a reset of type %s; the service offers %v", power.ErrUnsupported, kinds[0], offered)
			}
			kind = kinds[i]
		}
		if err := still.Holds(ctx); err != nil {
			return err
		}
		_, err = system.Reset(kind)
		var refused *schemas.Error
		if errors.As(err, &refused) && isLogin(refused) == nil && system.PowerState == already {
			return nil
		}
		return err
	})
}

// session calls f with the machine's system, in a session.
func (s *Switch) session(ctx context.Context, machine power.UUID, f func(*schemas.ComputerSystem) error) error {
	session, err := Open(ctx, s.options)
	if err != nil {
		return err
	}
	defer session.Close()
	system, err := session.pick(session.client, machine)
	if err == nil {
		err = s.isMeant(session, system)
	}
	if err == nil {
		err = f(system)
	}
	return session.explain(ctx, err)
}

// isMeant returns an error unless the system is the one of the options. Whoever has root on a node can write its
// systemUUID, and could so have another machine of the service switched.
func (s *Switch) isMeant(session *Session, system *schemas.ComputerSystem) error {
	switch name := s.options.System; {
	case name == "" && session.systems > 1:
		return fmt.Errorf("%w: it has %d systems, and the node's systemUUID alone, which root on the node can write, does not say which is the node's: name it by system or systems, such as %.80q",
			power.ErrNoIdentity, session.systems, system.ID)
	case name != "" && name != system.ID:
		return fmt.Errorf("%w: the system with the node's systemUUID has the Id %.80q, and that of the node is %.80q", power.ErrOtherMachine, system.ID, name)
	default:
		return nil
	}
}

func stateOf(system *schemas.ComputerSystem) (power.State, error) {
	switch system.PowerState {
	case schemas.OnPowerState:
		return power.On, nil
	case schemas.OffPowerState:
		return power.Off, nil
	case schemas.PoweringOnPowerState, schemas.PoweringOffPowerState, schemas.PausedPowerState:
		return power.Changing, nil
	default:
		return "", fmt.Errorf("the system has no PowerState that is known, but %.20q", system.PowerState)
	}
}

// explain returns what the error is, without what the service has written, which may repeat
// what it was sent.
func explain(ctx context.Context, err error) error {
	var refused *schemas.Error
	var collection *schemas.CollectionError
	var netErr net.Error
	var certificate *tls.CertificateVerificationError
	var asked *url.Error
	switch {
	case errors.Is(err, power.ErrNotSent): // nothing that the service has said
	case errors.As(err, &collection):
		for _, err := range collection.Failures {
			return explain(ctx, err)
		}
	case errors.As(err, &refused):
		if login := isLogin(refused); login != nil {
			return login
		}
		return fmt.Errorf("%w%s", Status(refused.HTTPReturnedStatusCode), messageID(refused))
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", power.ErrNoAnswer, context.Cause(ctx))
	case errors.As(err, &certificate): // which net/http takes for an error of the network
		return fmt.Errorf("%w: %w", errCertificate, invalid(certificate.Err))
	case errors.Is(err, errCertificate) && errors.As(err, &asked):
		return asked.Err
	case errors.As(err, &netErr):
		return fmt.Errorf("%w: %w", power.ErrNoAnswer, err)
	}
	return err
}

func isLogin(refused *schemas.Error) error {
	const unauthorized, forbidden = 401, 403
	switch refused.HTTPReturnedStatusCode {
	case unauthorized:
		return status{fmt.Errorf("%w: the service does not accept user and password (HTTP 401%s)", power.ErrLogin, messageID(refused)), unauthorized}
	case forbidden:
		return status{fmt.Errorf("%w: the user may not do this (HTTP 403%s)", power.ErrLogin, messageID(refused)), forbidden}
	}
	return nil
}

// Status is the HTTP status of a service that has refused a request. Errors wrap it.
type Status int

// Error says which it is.
func (s Status) Error() string { return fmt.Sprintf("the service answers HTTP %d", int(s)) }

// status is an error that wraps a Status as well, and does not repeat it.
type status struct {
	error
	code Status
}

// Unwrap returns both.
func (s status) Unwrap() []error { return []error{s.error, s.code} }

// messageID returns which message of a registry the service has answered.
func messageID(refused *schemas.Error) string {
	for _, info := range refused.ExtendedInfos {
		if isMessageID(info.MessageID) {
			return ", " + info.MessageID
		}
	}
	if isMessageID(refused.Code) {
		return ", " + refused.Code
	}
	return ""
}

// isMessageID reports whether a text is one such as Base.1.8.ActionNotSupported.
func isMessageID(text string) bool {
	return strings.Count(text, ".") > 1 && len(text) < 100 && !strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune("._-", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}
