package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// readings are what this process has read of a machine without a break. A switch that did not answer may have restarted,
// and says off until it has found its machine again. The zero value has read nothing.
type readings struct {
	by       string    // the switch
	answered time.Time // last
	wasOn    bool      // it has said on
	off      time.Time // since when it says off; zero: it does not
}

// saw takes a reading of a switch. Of off it returns why that is not believed yet; "": it is.
func (s *readings) saw(by string, asked, answered time.Time, r power.Reading, err error) (doubt string) {
	if err != nil || r.Reported || by != s.by || !s.goesOn(asked) {
		*s = readings{by: by}
	}
	if err != nil || r.Reported {
		return ""
	}
	s.answered = answered
	switch {
	case r.Power != power.Off:
		s.off, s.wasOn = time.Time{}, s.wasOn || r.Power == power.On
		return ""
	case s.off.IsZero():
		s.off = answered
	}
	gap, why := proof.DefaultPlan().Settled, ", and may have restarted"
	if s.wasOn {
		gap, why = proof.DefaultPlan().Gap, ""
	}
	if asked.Sub(s.off) >= gap {
		return ""
	}
	return fmt.Sprintf("%s says off%s: that is believed when it was read so for %s", by, why, gap)
}

// goesOn reports whether a reading that is asked for then continues the ones before.
func (s *readings) goesOn(asked time.Time) bool {
	return asked.Sub(s.answered) <= proof.DefaultPlan().Repeat
}

// look reads the power of a machine once, for the maintenance. Of off it returns why nobody may put their hands in the
// machine by that.
func (t *machineAtWork) look(ctx context.Context, m *v1alpha1.NodeMaintenance, bmc power.Switch, machine power.UUID) (is power.Reading, doubt string, err error) {
	asked := t.Clock.Now()
	is, err = t.once(ctx, m, bmc, machine)
	known := t.tried[m.UID]
	doubt = known.read.saw(bmc.String(), asked, t.Clock.Now(), is, err)
	t.tried[m.UID] = known
	return is, doubt, err
}

// unheardOf is for an order that a switch has not answered as it should: it may have restarted.
func (t *machineAtWork) unheardOf(m *v1alpha1.NodeMaintenance) {
	known := t.tried[m.UID]
	known.read = readings{}
	t.tried[m.UID] = known
}
