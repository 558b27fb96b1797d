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
type plain struct {
	on           bool
	login        time.Duration // what it takes to log in for an off
	logins, offs int
}

func (p *plain) Read(context.Context, power.UUID) (power.Reading, error) {
	state := power.Off
	if p.on {
		state = power.On
	}
	return power.Reading{GUID: power.GUID(machine), Power: state}, nil
}

func (p *plain) Off(ctx context.Context, _ power.UUID, still power.Still) error {
	p.logins++
	time.Sleep(p.login) //nolint:forbidigo // the time of a bubble
	if err := still.Holds(ctx); err != nil {
		return err
	}
	p.on = false
	p.offs++
	return nil
}

func (p *plain) On(context.Context, power.UUID, power.Still) error {
	p.on = true
	return nil
}

func (*plain) Shutdown(context.Context, power.UUID, power.Still) error { return power.ErrUnsupported }

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

// What holds is read again when nothing is left to do but to send the off: a BMC may take long to log in to.
func TestWhatHappensWhileTheSwitchIsLoggedInToKeepsThePower(t *testing.T) {
	for name, test := range map[string]struct {
		facts Facts
		err   error
		slow  time.Duration // reads what is known
		want  Outcome
		off   bool
	}{
		"nothing":                  {facts: silent, want: PowerCycled, off: true},
		"people hold it":           {facts: Facts{BootID: "1", Restore: true}, want: PowerStillOn},
		"the node answers":         {facts: Facts{BootID: "1", Restore: true, Confirmed: true, Answers: true}, want: NodeAnswers},
		"the node has booted":      {facts: Facts{BootID: "2", Confirmed: true}, want: NewBoot},
		"nobody knows":             {err: errors.New("the API server does not answer"), want: PowerStillOn},
		"it takes too long to ask": {facts: silent, slow: maxAge + time.Second, want: PowerStillOn},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bmc := &plain{on: true, login: 15 * time.Second}
				runner := Runner{
					Clock: clock.RealClock{}, Switch: bmc,
					Facts: func(context.Context) (Facts, error) {
						if bmc.logins == 0 {
							return silent, nil
						}
						time.Sleep(test.slow) //nolint:forbidigo // the time of a bubble
						test.facts.Over = true
						return test.facts, test.err
					},
					Keep: func(context.Context, Progress) error { return nil },
				}
				got, err := runner.Run(t.Context(), (*world)(nil).plan(), Progress{})
				if err != nil || got.Outcome != test.want || (bmc.offs > 0) != test.off || !bmc.on {
					t.Errorf("got %+v, %v; %d offs, the power is on: %t", got, err, bmc.offs, bmc.on)
				}
			})
		})
	}
}
