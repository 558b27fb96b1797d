package hardware_test

import (
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/test/bmc"
)

// start is when the tests begin.
var start = time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC)

// Sensors of the double, as the simulator has them.
const (
	temp   = 0x01
	fan    = 0x02
	supply = 0x03
	dimm   = 0x04
)

// double is a server by its BMC's double.
type double struct {
	*bmc.BMC
	t         *testing.T
	transport *bmc.Transport // the last one
}

func newDouble(t *testing.T) *double {
	b := bmc.New(bmc.Config{Name: "node-bmc", MaxSDRRead: 32})
	b.SetRestartCause(uint8(ipmi.RestartPowerButton))
	b.SetClock(uint32(start.Unix()))
	celsius, rpm, volts := [3]uint8{0, 1, 0}, [3]uint8{0, 18, 0}, [3]uint8{0, 4, 0}
	for _, s := range []bmc.Sensor{
		{Number: temp, Name: "CPU0 Temp", Type: 0x01, EventType: 1, Full: true, Units: celsius, Factors: bmc.Factors{M: 1}, Reading: 45},
		{Number: fan, Name: "FAN1", Type: 0x04, EventType: 1, Full: true, Units: rpm, Factors: bmc.Factors{M: 50}, Reading: 120},
		{Number: 7, Name: "FAN2", Type: 0x04, EventType: 1, Full: true, Units: rpm, Factors: bmc.Factors{M: 50}, Reading: 118},
		{Number: supply, Name: "PSU1 Status", Type: 0x08, States: 1 << 0},
		{Number: 8, Name: "PSU2 Status", Type: 0x08, States: 1 << 0},
		{Number: dimm, Name: "DIMM_A1", Type: 0x0c, States: 1 << 6},
		{Number: 5, Name: "Disk0", Type: 0x0d, States: 1 << 0},
		{Number: 6, Name: "CPU0 Status", Type: 0x07, States: 1 << 7},
		{Number: 9, Name: "12V", Type: 0x02, EventType: 1, Full: true, Units: volts, Factors: bmc.Factors{M: 63, RExp: -3}, Reading: 190},
		{Number: 10, Name: "PSU Redundancy", Type: 0x09, EventType: 0x0b, States: 1 << 0},
	} {
		b.AddSensor(s)
	}
	return &double{BMC: b, t: t}
}

// open opens the BMC as a device.
func (d *double) open() (ipmi.Source, error) {
	d.transport = d.Transport()
	return device.New("double", d.transport, clock.RealClock{}), nil
}

// threshold sets the reading of a sensor, and logs the limits that are passed by the
// offsets of their events.
func (d *double) threshold(number, kind, reading uint8, limits uint16, passed bool, offsets ...uint8) {
	d.t.Helper()
	d.must(d.SetSensor(number, func(s *bmc.Sensor) { s.Reading, s.States = reading, limits }))
	for _, offset := range offsets {
		d.Log(bmc.Event{Type: kind, Number: number, EventType: 1, Data: [3]uint8{offset, 0xff, 0xff}, Deasserted: !passed})
	}
}

func (d *double) stopFan(stopped bool) {
	d.t.Helper()
	reading, limits := uint8(120), uint16(0)
	if stopped {
		reading, limits = 0, ipmi.LowerNonCritical|ipmi.LowerCritical|ipmi.LowerNonRecoverable
	}
	d.threshold(fan, 0x04, reading, limits, stopped, 0, 2, 4)
}

func (d *double) heat(hot bool) {
	d.t.Helper()
	reading, limits := uint8(45), uint16(0)
	if hot {
		reading, limits = 98, ipmi.UpperNonCritical|ipmi.UpperCritical
	}
	d.threshold(temp, 0x01, reading, limits, hot, 7, 9)
}

func (d *double) failSupply(failed bool) { d.t.Helper(); d.must(d.Assert(supply, 1, failed)) }
func (d *double) loseFeed(lost bool)     { d.t.Helper(); d.must(d.Assert(supply, 3, lost)) }
func (d *double) pullSupply(pulled bool) { d.t.Helper(); d.must(d.Assert(supply, 0, !pulled)) }
func (d *double) loseData(lost bool)     { d.t.Helper(); d.must(d.Assert(dimm, 1, lost)) }
func (d *double) clearSEL()              { d.ClearSEL() }
func (d *double) setClock(now time.Time) { d.SetClock(uint32(now.Unix())) }

func (d *double) start(switchedOff bool) {
	cause := ipmi.RestartSoftReset
	if switchedOff {
		cause = ipmi.RestartPowerButton
	}
	d.SetRestartCause(uint8(cause))
}

func (d *double) log(sensorType, offset uint8) {
	d.Log(bmc.Event{Type: sensorType, Data: [3]uint8{offset, 0xff, 0xff}})
}

func (d *double) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}
