package proof

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/power"
)

// plain is a switch that does what it is told.
type plain struct{ on bool }

func (p *plain) Read(context.Context, power.UUID) (power.Reading, error) {
	state := power.Off
	if p.on {
		state = power.On
	}
	return power.Reading{GUID: power.GUID(machine), Power: state}, nil
}

func (p *plain) Off(context.Context, power.UUID) error {
	p.on = false
	return nil
}

func (p *plain) On(context.Context, power.UUID) error {
	p.on = true
	return nil
}

func (*plain) Shutdown(context.Context, power.UUID) error { return power.ErrUnsupported }

func (*plain) Identify(context.Context, power.UUID, bool) (time.Duration, error) {
	return 0, power.ErrUnsupported
}
func (*plain) String() string { return "a BMC" }

func TestWhatWasCutIsSwitchedOnAlthoughNothingIsKnownOfItsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bmc := &plain{on: true}
		cut := false
		runner := Runner{
			Clock: clock.RealClock{}, Switch: bmc,
			Facts: func(context.Context) (Facts, error) {
				if cut = cut || !bmc.on; cut {
					return Facts{}, errors.New("the API server does not answer")
				}
				return silent, nil
			},
			Keep: func(context.Context, Progress) error { return nil },
		}
		got, err := runner.Run(t.Context(), (*world)(nil).plan(), Progress{})
		if err != nil || got.Outcome != WentOffLate || got.Proof != nil || !bmc.on {
			t.Errorf("got %+v, %v; the power is on: %t", got, err, bmc.on)
		}
	})
}

func TestWhoHasLostACycleToAnotherRunnerDoesNotGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bmc := &plain{on: true}
		runner := Runner{
			Clock: clock.RealClock{}, Switch: bmc,
			Facts: func(context.Context) (Facts, error) {
				if !bmc.on {
					return Facts{}, ErrTakenOver
				}
				return silent, nil
			},
			Keep: func(context.Context, Progress) error { return nil },
		}
		if got, err := runner.Run(t.Context(), (*world)(nil).plan(), Progress{}); !errors.Is(err, ErrTakenOver) || bmc.on {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}
