package device

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
)

var _ ipmi.Source = (*Device)(nil)

// Device reads a BMC. Its methods are not safe for concurrent use. If one of them
// returns since its context has ended, the next one waits until the transport has returned
// from the command that was given up.
type Device struct {
	name string
	conn *conn
	sdrs *repository // nil before it was read
	// unfinished is the part that was read when there was no more time; nil: none.
	unfinished *repository
	// nextSensor is where to begin to read sensors, as there was no time for it.
	nextSensor int
	// channels are those that are a LAN; nil before they were asked for.
	channels  []byte
	sel       *selState // nil if the next call can't rely on it
	selReader *reader
}

// Open opens a device of the kernel's IPMI driver, such as /dev/ipmi0. If there is
// none, because the machine has no BMC or the driver is not loaded, the error is
// fs.ErrNotExist.
func Open(path string) (*Device, error) {
	transport, err := openDriver(path)
	if err != nil {
		return nil, err
	}
	return New(path, transport, clock.RealClock{}), nil
}

// New returns a source over a transport that it will close. The clock is for the
// pauses before a busy BMC is asked again, which are below a second.
func New(name string, transport Transport, clk clock.Clock) *Device {
	c := newConn(transport, clk)
	return &Device{name: name, conn: c, selReader: newReader(c, reserveSEL, getSELEntry)}
}

// String returns the name that New was given, or the path of the device.
func (d *Device) String() string { return d.name }

// Rest ends what is held for the next call, as a session at the BMC.
func (d *Device) Rest() { d.conn.rest() }

// Close closes the device. It ends a command that is under way, and waits for that.
func (d *Device) Close() error { return d.conn.close() }

// DeviceID identifies the BMC.
func (d *Device) DeviceID(ctx context.Context) (ipmi.DeviceID, error) {
	answer, err := d.conn.send(ctx, getDeviceID)
	if err != nil {
		return ipmi.DeviceID{}, err
	}
	id := decodeDeviceID(answer)
	repo, err := d.repository(ctx)
	switch {
	case err == nil:
		id.Name = repo.bmc
	case !refused(err):
		return ipmi.DeviceID{}, err
	}
	return id, nil
}

// refused reports whether the BMC has answered that it can't do it.
func refused(err error) bool {
	code, ok := errors.AsType[ipmi.CompletionCode](err)
	return ok && !code.Temporary()
}

// decodeDeviceID decodes the answer of Get Device ID (IPMI 2.0, section 20.1).
func decodeDeviceID(answer []byte) ipmi.DeviceID {
	return ipmi.DeviceID{
		Firmware:     fmt.Sprintf("%d.%02x", answer[2]&0x7f, answer[3]),
		IPMIVersion:  fmt.Sprintf("%d.%d", answer[4]&0xf, answer[4]>>4),
		Manufacturer: uint32(answer[6]) | uint32(answer[7])<<8 | uint32(answer[8]&0xf)<<16,
		Product:      uint16(answer[9]) | uint16(answer[10])<<8,
	}
}

// Chassis returns the state of the chassis, and why the system was last started
// unless the BMC refuses to tell.
func (d *Device) Chassis(ctx context.Context) (ipmi.Chassis, error) {
	status, err := d.conn.send(ctx, getChassisStatus)
	if err != nil {
		return ipmi.Chassis{}, err
	}
	chassis := decodeChassis(status)
	cause, err := d.conn.send(ctx, getRestartCause)
	switch {
	case err == nil:
		chassis.RestartCause = ipmi.RestartCause(cause[0] & 0xf)
	case !refused(err):
		return ipmi.Chassis{}, err
	}
	return chassis, nil
}

// decodeChassis decodes the answer of Get Chassis Status (section 28.2).
func decodeChassis(answer []byte) ipmi.Chassis {
	power, misc := answer[0], answer[2]
	return ipmi.Chassis{
		PowerOn:           power&(1<<0) != 0,
		PowerOverload:     power&(1<<1) != 0,
		MainPowerFault:    power&(1<<3) != 0,
		PowerControlFault: power&(1<<4) != 0,
		Intrusion:         misc&(1<<0) != 0,
		DriveFault:        misc&(1<<2) != 0,
		CoolingFault:      misc&(1<<3) != 0,
	}
}
