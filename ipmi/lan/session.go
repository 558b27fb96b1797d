package lan

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodemend/nodemend/ipmi"
)

const (
	// The longest that the protocol allows (IPMI 2.0, sections 13.20 and 13.31).
	maxUser = 16
	maxKey  = 20

	app = 0x06 // a NetFn

	// operator is the privilege level that may switch the power, and nothing of the BMC
	// itself.
	operator = 0x03
)

// Options say how a BMC is reached and logged in to.
type Options struct {
	// Address is a host with a UDP port, which is 623 for most BMCs.
	Address string
	// User has the privilege level operator or a higher one.
	User string
	// Password of the user.
	Password string
	// Key of the BMC, K_g, if it has one.
	Key string
	// Suite is the ID of the cipher suite, 3 or 17; zero: 3, which most BMCs know.
	Suite int
}

// Session is a session with a BMC, at the privilege level operator. Its methods are not safe
// for concurrent use. A session ends when the BMC has forgotten it, after a minute without
// a command or when it restarts: then nothing is answered any more.
type Session struct {
	transport *transport
	keys      keys
	ours      uint32 // the ID by which the BMC names the session
	theirs    uint32 // by which we do
	sent      uint32 // the number of the last packet
	received  uint32 // that of the last answer
	number    byte   // of the last request: six bits
}

// Open opens a session. The error wraps ErrLogin if the BMC does not let the user in, and
// ipmi.ErrNoAnswer if it does not answer. The caller must call Close.
func Open(ctx context.Context, o Options) (*Session, error) {
	if o.Suite == 0 {
		o.Suite = 3
	}
	s, err := suiteOf(o.Suite)
	switch {
	case err != nil:
		return nil, err
	case len(o.User) > maxUser:
		return nil, fmt.Errorf("the user is longer than IPMI allows, %d bytes", maxUser)
	case len(o.Password) > maxKey || len(o.Key) > maxKey:
		return nil, fmt.Errorf("the password or the key is longer than IPMI allows, %d bytes", maxKey)
	}
	t, err := dial(ctx, o.Address)
	if err != nil {
		return nil, err
	}
	session, err := newHandshake(t, s, o).run(ctx)
	if err != nil {
		_ = t.connection.Close()
		return nil, fmt.Errorf("opening a session: %w", err)
	}
	if err := session.raisePrivilege(ctx); err != nil {
		_ = session.Close(ctx) // the other error tells more
		return nil, err
	}
	return session, nil
}

// raisePrivilege makes the session, which begins as user, one of an operator.
func (s *Session) raisePrivilege(ctx context.Context) error {
	const setSessionPrivilegeLevel = 0x3b
	data, err := s.Command(ctx, app, setSessionPrivilegeLevel, operator)
	switch {
	case errors.As(err, new(ipmi.CompletionCode)):
		return fmt.Errorf("%w: the user may not have the privilege level operator: %w", ErrLogin, err)
	case err != nil:
		return err
	case len(data) != 1 || data[0]&0x0f != operator:
		return fmt.Errorf("%w: the user has the privilege level % x, not that of an operator, 3", ErrLogin, data)
	}
	return nil
}

// Command sends a request to LUN 0 of the BMC, again if no answer comes, and returns the
// data of the answer. The error wraps an ipmi.CompletionCode if the BMC refuses, and
// ipmi.ErrNoAnswer if it does not answer: then the command may have been executed or not.
func (s *Session) Command(ctx context.Context, netFn, cmd byte, data ...byte) ([]byte, error) {
	s.number = (s.number + 1) & 0x3f
	var got []byte
	err := s.transport.exchange(ctx, func() []byte {
		s.sent++
		return s.keys.seal(s.theirs, s.sent, message(netFn, s.number, cmd, data))
	}, func(p []byte) error {
		sequence, m, err := s.keys.open(s.ours, p)
		if err != nil || sequence <= s.received { // a repetition tells what was true before
			return errForeign
		}
		if got, err = answer(m, netFn, s.number, cmd); err == nil {
			s.received = sequence
		}
		return err
	})
	if err == nil && got[0] != 0 {
		err = ipmi.CompletionCode(got[0])
	}
	if err != nil {
		return nil, fmt.Errorf("command %#02x/%#02x: %w", netFn, cmd, err)
	}
	return got[1:], nil
}

const closeSession = 0x3c // of app

// Close ends the session, which the BMC may have forgotten already. The session can't be
// used any more, whatever the error.
func (s *Session) Close(ctx context.Context) error {
	defer s.hangUp()
	_, err := s.Command(ctx, app, closeSession, id(s.theirs)...)
	return err
}

// Abandon is Close without waiting for the BMC, for one that does not answer.
func (s *Session) Abandon() {
	defer s.hangUp()
	s.number, s.sent = (s.number+1)&0x3f, s.sent+1
	_, _ = s.transport.connection.Write(s.keys.seal(s.theirs, s.sent, message(app, s.number, closeSession, id(s.theirs))))
}

func (s *Session) hangUp() { _ = s.transport.connection.Close() } // of UDP; nothing is under way
