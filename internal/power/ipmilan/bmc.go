package ipmilan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/lan"
)

// Commands (IPMI 2.0, sections 22.14 and 28).
const (
	app, getSystemGUID              = 0x06, 0x37
	chassis, getChassisStatus       = 0x00, 0x01
	chassisControl, chassisIdentify = 0x02, 0x04

	powerDown, powerUp, softShutdown = 0x00, 0x01, 0x05
)

// bmc asks in a session.
type bmc struct{ *lan.Session }

// is returns an error unless the BMC is that of the machine.
func (b bmc) is(ctx context.Context, machine power.UUID) error {
	guid, err := b.guid(ctx)
	if err != nil {
		return err
	}
	return power.Check(guid, machine)
}

// guid returns that of the system. That of the BMC itself would be another one.
func (b bmc) guid(ctx context.Context) (power.GUID, error) {
	return guidOf(b.Command(ctx, app, getSystemGUID))
}

// guidOf returns what an answer to Get System GUID says.
func guidOf(data []byte, err error) (g power.GUID, _ error) {
	var code ipmi.CompletionCode
	switch {
	case errors.As(err, &code) && !code.Temporary():
		return g, fmt.Errorf("%w: its System GUID: %w", power.ErrNoIdentity, err)
	case err != nil:
		return g, err
	case len(data) != len(g):
		return g, fmt.Errorf("%w: its System GUID has %d bytes, not %d: %w", power.ErrNoIdentity, len(data), len(g), ipmi.ErrMalformed)
	}
	return power.GUID(data), nil
}

// power returns whether the power is on.
func (b bmc) power(ctx context.Context) (power.State, error) {
	return stateOf(b.Command(ctx, chassis, getChassisStatus))
}

// stateOf returns what an answer to Get Chassis Status says. It is an error, not Off, if the
// BMC says that it has failed to switch the power.
func stateOf(data []byte, err error) (power.State, error) {
	const isOn, controlFault = 1 << 0, 1 << 4
	switch {
	case err != nil:
		return "", err
	case len(data) < 3:
		return "", fmt.Errorf("the status of the chassis has %d bytes: %w", len(data), ipmi.ErrMalformed)
	case data[0]&isOn != 0:
		return power.On, nil
	case data[0]&controlFault != 0:
		return "", errors.New("the BMC says off, and that it could not switch the power (power control fault)")
	}
	return power.Off, nil
}

// identify switches the light. A BMC of IPMI 1.5 does not know of the byte that says for ever, and
// one that ignores it takes the seconds, so these are as many as there can be.
func (b bmc) identify(ctx context.Context, on bool) (lasts time.Duration, err error) {
	const forEver = 1
	data := []byte{0}
	if on {
		data = []byte{longest, forEver}
	}
	_, err = b.Command(ctx, chassis, chassisIdentify, data...)
	if on && (errors.Is(err, ipmi.InvalidLength) || errors.Is(err, ipmi.InvalidField)) {
		_, err = b.Command(ctx, chassis, chassisIdentify, longest)
	}
	switch {
	case errors.Is(err, ipmi.InvalidCommand):
		return 0, fmt.Errorf("%w: %w", power.ErrUnsupported, err)
	case err != nil || !on:
		return 0, err
	}
	status, _ := b.Command(ctx, chassis, getChassisStatus) // the light is on, whether or not this tells of it
	return lightOf(status)
}

// lightOf returns for how long the light shines that was just switched on, by an answer to Get
// Chassis Status (its third byte, section 28.2); nil: none came.
func lightOf(data []byte) (time.Duration, error) {
	const known, state, timed, indefinite = 1 << 6, 3 << 4, 1 << 4, 2 << 4
	if len(data) < 3 || data[2]&known == 0 { // the BMC has acknowledged it
		return longest * time.Second, nil
	}
	switch data[2] & state {
	case indefinite:
		return 0, nil
	case timed:
		return longest * time.Second, nil
	}
	return 0, errors.New("the BMC has acknowledged that it switches the light on, and says that it is off")
}
