package power

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors of a Switch, or of the search for one, wrap one of these if they are of its kind. None of them has
// credentials in it.
var (
	// ErrNoAnswer is of a switch that does not answer in time, or not at all.
	ErrNoAnswer = errors.New("no answer")
	// ErrLogin is of a switch that does not accept user and password, or does not let them
	// do this.
	ErrLogin = errors.New("login refused")
	// ErrNoIdentity is of a switch that does not say which machine it switches.
	ErrNoIdentity = errors.New("it does not say which machine it switches")
	// ErrOtherMachine is of a switch of another machine than the one named. Nothing was
	// switched.
	ErrOtherMachine = errors.New("it switches another machine")
	// ErrNoSwitch is of a node of which nobody has said what switches it.
	ErrNoSwitch = errors.New("no entry names it")
	// ErrNotSent is of an order that was not sent, since what it goes by does not hold any more.
	ErrNotSent = errors.New("nothing was sent")
	// ErrUnsupported is of what a switch can't do.
	ErrUnsupported = errors.New("not supported")
)

// State is whether the power is on.
type State string

// States of the power. Only Off says that nothing runs.
const (
	On  State = "On"
	Off State = "Off"
	// Changing is between the two, and all else that is neither, such as paused.
	Changing State = "Changing"
)

// Reading is what a switch has said of its machine, in one session.
type Reading struct {
	// GUID is what the switch calls its machine.
	GUID GUID
	// Power is that of this machine.
	Power State
	// Reported says that it is what another program has read last, and nobody knows when. Two such
	// readings have to be further apart, and nothing is freed by them. That program switches, too,
	// when it can: an off stands until an on takes it back. It is said with an error, too.
	Reported bool
}

// Still says why an order is not to be sent any more; nil: it is. A login can take long, so a Switch asks it
// when nothing is left to do but to send the order. A nil Still lets it be sent.
type Still func(ctx context.Context) error

// Holds returns an ErrNotSent if the order is not to be sent any more.
func (s Still) Holds(ctx context.Context) error {
	if s == nil {
		return nil
	}
	if err := s(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return nil
}

// Switch reads and switches the power of one machine. Each call has a session of its own,
// which ends with the call, and reads the credentials anew, since people exchange them. A
// call ends with its context.
//
// Of off and on, each may be repeated: off is no fault of a machine that is off, nor on of
// one that is on. There is neither cycle nor reset: nobody can see that they have happened,
// and they switch on what was off.
type Switch interface {
	// Read returns what the switch calls the machine, and whether it is on. The error is
	// ErrOtherMachine or ErrNoIdentity if it is not known to be this one. A Reading without
	// error is to be checked all the same by who proves something by it.
	Read(ctx context.Context, machine UUID) (Reading, error)
	// Off cuts the power of the machine at once; without error, that was acknowledged. It
	// may take effect later. The error is ErrOtherMachine or ErrNoIdentity if nothing was
	// switched since the machine is not known to be this one, and ErrNotSent if still has
	// said so; after any other, it may have been switched.
	Off(ctx context.Context, machine UUID, still Still) error
	// On is Off, for on.
	On(ctx context.Context, machine UUID, still Still) error
	// Shutdown asks the operating system of the machine to shut down, as its power button does. Without
	// error, that was acknowledged; whether it does is for its operating system. It is no fault of a
	// machine that is off. The error is ErrUnsupported if the switch can't, and ErrNotSent as for Off.
	Shutdown(ctx context.Context, machine UUID, still Still) error
	// Identify switches the light on or off by which people find the machine, and returns for how
	// long it shines at least; zero: until it is switched off. The error is ErrUnsupported if it has
	// none.
	Identify(ctx context.Context, machine UUID, on bool) (time.Duration, error)
	// String names the switch, with its address and without credentials.
	String() string
}

// Check returns ErrOtherMachine unless the GUID is that of the machine, and ErrNoIdentity if
// it is of none.
func Check(guid GUID, machine UUID) error {
	switch _, matches := guid.Matches(machine); {
	case matches:
		return nil
	case guid.placeholder():
		return fmt.Errorf("%w: its GUID is %s, which is of no machine in particular", ErrNoIdentity, guid)
	default:
		return fmt.Errorf("%w: its GUID is %s, and the node's systemUUID is %s", ErrOtherMachine, guid, machine)
	}
}
