package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/nodemend/nodemend/internal/power"
)

// Identify switches the light of the system on or off, or that of its chassis if it has none. It
// shines until it is switched off.
func (s *Switch) Identify(ctx context.Context, machine power.UUID, on bool) (time.Duration, error) {
	return 0, s.session(ctx, machine, func(system *schemas.ComputerSystem) error {
		found, err := lightOf(system)
		if err != nil {
			return err
		}
		return found.turn(on)
	})
}

// light is one that people find a machine by.
type light struct {
	of *schemas.Entity
	// active: by LocationIndicatorActive; else by IndicatorLED, which was before that.
	active bool
}

// lightOf returns that of the system, or else of the one chassis that is of this system alone: who
// finds the light of a rack has not found the machine.
func lightOf(system *schemas.ComputerSystem) (*light, error) {
	if l := lightIn(&system.Entity, system.LocationIndicatorActive, system.IndicatorLED); l != nil { //nolint:staticcheck // older BMCs have only this
		return l, nil
	}
	all, err := system.Chassis()
	if err != nil {
		return nil, err
	}
	var found []*light
	for _, chassis := range all {
		if l := lightIn(&chassis.Entity, chassis.LocationIndicatorActive, chassis.IndicatorLED); l != nil && isOfOne(chassis) { //nolint:staticcheck // as above
			found = append(found, l)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("%w: the system has neither LocationIndicatorActive nor IndicatorLED, and of its %d chassis %d have one and are of this system alone: one is accepted",
			power.ErrUnsupported, len(all), len(found))
	}
	return found[0], nil
}

// lightIn returns that of a resource; nil: it has none.
func lightIn(of *schemas.Entity, active *bool, led schemas.IndicatorLED) *light {
	switch {
	case active != nil:
		return &light{of: of, active: true}
	case led != "" && led != schemas.UnknownIndicatorLED:
		return &light{of: of}
	}
	return nil
}

// isOfOne reports whether the chassis has one system.
func isOfOne(chassis *schemas.Chassis) bool {
	var has struct {
		Links struct {
			ComputerSystems []json.RawMessage
		}
	}
	return json.Unmarshal(chassis.RawData, &has) == nil && len(has.Links.ComputerSystems) == 1
}

// turn switches the light. Of those by IndicatorLED some know Lit, and others Blinking alone.
func (l *light) turn(on bool) error {
	switch {
	case l.active:
		return l.of.Patch(l.of.ODataID, map[string]bool{"LocationIndicatorActive": on})
	case !on:
		return l.led(schemas.OffIndicatorLED)
	}
	err := l.led(schemas.LitIndicatorLED)
	var refused *schemas.Error
	if errors.As(err, &refused) && isLogin(refused) == nil {
		return l.led(schemas.BlinkingIndicatorLED)
	}
	return err
}

func (l *light) led(state schemas.IndicatorLED) error {
	return l.of.Patch(l.of.ODataID, map[string]schemas.IndicatorLED{"IndicatorLED": state})
}
