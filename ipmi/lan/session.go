package lan

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodemend/nodemend/ipmi"
)

// The longest that the protocol allows (IPMI 2.0, sections 13.20 and 13.31), in bytes. That of
// a key is that of a password.
const (
	MaxUser     = 16
	MaxPassword = 20
)

const app = 0x06 // a NetFn

// Privilege is a privilege level (IPMI 2.0, section 6.8). Each may do what a lower one may.
type Privilege byte

// Privilege levels.
const (
	// User may read sensors, the SEL and the state of the chassis.
	User Privilege = 2
	// Operator may switch the power, and change nothing of the BMC itself.
	Operator Privilege = 3
	// Administrator may do everything.
	Administrator Privilege = 4
)

// Privileges returns all levels.
func Privileges() []Privilege { return []Privilege{User, Operator, Administrator} }

// String returns the name of the level.
func (p Privilege) String() string {
	switch p {
	case User:
		return "user"
	case Operator:
		return "operator"
	case Administrator:
		return "administrator"
	default:
		return fmt.Sprintf("%#x", byte(p))
	}
}

// Options say how a BMC is reached and logged in to.
type Options struct {
	// Address is a host with a UDP port, which is 623 for most BMCs.
	Address string
	User    string
	// Password of the user.
	Password string
	// Key of the BMC, K_g, if it has one.
	Key string
	// Suite is the ID of the cipher suite, 3 or 17; zero: 3, which most BMCs know.
	Suite int
	// Privilege is the level of the session, which the user has to have; zero: Operator.
	Privilege Privilege
}

// Session is a session with a BMC. Its methods are not safe for concurrent use. A session ends when the BMC has forgotten it, after a minute without
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
	if o.Privilege == 0 {
		o.Privilege = Operator
	}
	s, err := suiteOf(o.Suite)
	switch {
	case err != nil:
		return nil, err
	case len(o.User) > MaxUser:
		return nil, fmt.Errorf("the user is longer than IPMI allows, %d bytes", MaxUser)
	case len(o.Password) > MaxPassword || len(o.Key) > MaxPassword:
		return nil, fmt.Errorf("the password or the key is longer than IPMI allows, %d bytes", MaxPassword)
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
	if err := session.raisePrivilege(ctx, o.Privilege); err != nil {
		_ = session.Close(ctx) // the other error tells more
		return nil, err
	}
	return session, nil
}

// raisePrivilege makes the session, which begins as user, one of that level.
func (s *Session) raisePrivilege(ctx context.Context, level Privilege) error {
	const setSessionPrivilegeLevel = 0x3b
	data, err := s.Command(ctx, app, setSessionPrivilegeLevel, byte(level))
	switch {
	case errors.As(err, new(ipmi.CompletionCode)):
		return fmt.Errorf("%w: the user may not have the privilege level %s: %w", ErrLogin, level, err)
	case err != nil:
		return err
	case len(data) != 1 || data[0]&0x0f != byte(level):
		return fmt.Errorf("%w: the user has the privilege level % x, not %d, that of %s", ErrLogin, data, byte(level), level)
	}
	return nil
}

// Command sends a request to LUN 0 of the BMC, again if no answer comes, and returns the
// data of the answer. The error wraps an ipmi.CompletionCode if the BMC refuses, and
// ipmi.ErrNoAnswer if it does not answer: then the command may have been executed or not.
func (s *Session) Command(ctx context.Context, netFn, cmd byte, data ...byte) ([]byte, error) {
	return s.CommandTo(ctx, Target{Owner: bmcAddress}, netFn, cmd, data...)
}

// CommandTo is Command for a target. One that is not the BMC has it bridge the command; the
// completion code is the BMC's if it can't.
func (s *Session) CommandTo(ctx context.Context, to Target, netFn, cmd byte, data ...byte) ([]byte, error) {
	s.number = (s.number + 1) & 0x3f
	var got []byte
	err := s.transport.exchange(ctx, func() []byte {
		s.sent++
		return s.keys.seal(s.theirs, s.sent, to.request(netFn, s.number, cmd, data))
	}, func(p []byte) error {
		sequence, m, err := s.keys.open(s.ours, p)
		if err != nil || sequence <= s.received { // a repetition tells what was true before
			return errForeign
		}
		if got, err = to.answer(m, netFn, s.number, cmd); err == nil {
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
	_, _ = s.transport.connection.Write(s.keys.seal(s.theirs, s.sent, Target{Owner: bmcAddress}.request(app, s.number, closeSession, id(s.theirs))))
}

func (s *Session) hangUp() { _ = s.transport.connection.Close() } // of UDP; nothing is under way
