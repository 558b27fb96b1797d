//go:build integration

package ipmitool_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/ipmitool"
	"github.com/nodemend/nodemend/ipmi/remote"
	"github.com/nodemend/nodemend/test/bmc"
	"github.com/nodemend/nodemend/test/bmc/bmctest"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// systemInterface is the simulator's as the device source wants it.
type systemInterface struct{ bmc *ipmisim.Simulator }

func (i systemInterface) SendRecv(_ context.Context, netFn, cmd uint8, data []byte) ([]byte, error) {
	return i.bmc.SendRecv(netFn, cmd, data...) //nolint:contextcheck // the simulator ends with its test
}

func (systemInterface) Close() error { return nil }

// direct reads the same as ipmitool, without it.
func direct(t testing.TB, transport device.Transport) *device.Device {
	d := device.New("directly", transport, clock.RealClock{})
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// overLAN reads the simulator without ipmitool.
func overLAN(t testing.TB, sim *ipmisim.Simulator) *device.Device {
	host, port := sim.LAN()
	s, err := remote.New(remote.Options{Host: host, Port: port, User: ipmisim.Reader, PasswordFile: sim.PasswordFile()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestTheSameIsReadOverTheNetworkAsByTheDriver(t *testing.T) {
	sim := ipmisim.Start(t)
	program, lan, driver := open(t, options(sim)), overLAN(t, sim), direct(t, systemInterface{sim})
	cursors := map[ipmi.Source]ipmi.Cursor{}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"healthy", func() {}},
		{"everything fails", func() {
			sim.SetSensorValue(ipmisim.CPU0Temp, 98)
			sim.SetSensorValue(ipmisim.FAN1, 0)
			sim.SetSensorValue(ipmisim.Volts12, 171)
			sim.SetSensorBit(ipmisim.PSU1Status, 1, true)
			sim.SetSensorBit(ipmisim.PSU2Status, 5, true)
			sim.SetSensorBit(ipmisim.DIMMA1, 1, true)
			sim.SetSensorBit(ipmisim.Disk0, 1, true)
			sim.SetSensorBit(ipmisim.CPU0Status, 0, true)
			sim.SetSensorBit(ipmisim.PSURedundancy, 0, false)
			sim.SetSensorBit(ipmisim.PSURedundancy, 1, true)
			sim.SetScanning(ipmisim.FAN2, false)
		}},
		{"nothing new", func() {}},
		{"the clock is set, and others log", func() {
			sim.SetSELClock(time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC))
			sim.AddEvent(0x31, 0x07, ipmisim.CPU0Status, 0x6f, [3]byte{0x0b, 0xff, 0xff})
			sim.AddEvent(0x31, 0x0f, 0x00, 0x6f, [3]byte{0xc2, 0x02, 0xff})
			sim.AddEvent(0x20, 0xc7, 0x55, 0x70, [3]byte{0xa3, 0x02, 0x41}) // of a vendor's type
			sim.AddEvent(0x20, 0x09, ipmisim.PSURedundancy, 0x0b|0x80, [3]byte{0x01, 0xff, 0xff})
			sim.AddSEL(0xc0, [13]byte{4: 1})
			sim.AddSEL(0xe0, [13]byte{4: 1})
		}},
		{"cleared", sim.ClearSEL},
		{"off and repaired", func() {
			sim.PowerOff()
			sim.SetSensorValue(ipmisim.FAN1, 120)
			sim.SetSensorBit(ipmisim.PSU1Status, 1, false)
			sim.SetScanning(ipmisim.FAN2, true)
		}},
		{"a long log", func() {
			for i := range 900 {
				sim.AddEvent(0x20, 0x0c, ipmisim.DIMMA1, 0x6f, [3]byte{0xa0, byte(i), byte(i >> 8)})
			}
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.do()
			want := everything(t, driver, cursors)
			for name, other := range map[string]ipmi.Source{"ipmitool": program, "lan": lan} {
				if diff := cmp.Diff(want, everything(t, other, cursors)); diff != "" {
					t.Errorf("-driver +%s:\n%s", name, diff)
				}
			}
		})
	}
}

// TestTheSameIsReadOfABMCThatReturnsLittleAtOnce has sensors that ipmitool's own lists leave
// out, or tell less of.
func TestTheSameIsReadOfABMCThatReturnsLittleAtOnce(t *testing.T) {
	for _, config := range []bmc.Config{{Name: "BMC"}, {Name: "BMC", MaxSDRRead: 7, MaxSELRead: 5}, {Name: "BMC", DeviceSDRs: true}} {
		b := bmc.New(config)
		b.SetClock(0x69122001)
		for number := range uint8(40) {
			b.AddSensor(bmc.Sensor{
				Number: number, Name: fmt.Sprintf("Sensor %d", number), Type: number%0x2d + 1, EventType: 0x6f, Entity: [2]uint8{10, number}, States: 1 << (number % 15),
			})
			b.AddSensor(bmc.Sensor{
				Number: 100 + number, Name: fmt.Sprintf("Temp %d", number), Type: 1, EventType: 1, Full: true, Units: [3]uint8{number % 3 << 6, number, 0},
				Linearization: number % 12, Factors: bmc.Factors{M: 50, B: -3, BExp: 2, RExp: -1}, Reading: 3 * number, Thresholds: [6]uint8{1, 2, 3, 90, 100, 110}, ThresholdMask: 0x3f,
				States: uint16(number % 2), Disabled: number == 7, Unavailable: number == 8, NoStates: number == 9,
			})
			b.Log(bmc.Event{Type: 0xc0 + number, Number: number, Data: [3]uint8{0xa1, number, 0x7f}, Deasserted: number%2 == 1})
		}
		b.AddSensor(bmc.Sensor{Number: 200, Name: "of a vendor", Type: 0xc8, EventType: 0x70, States: 3})
		b.AddSDR(0x01, make([]byte, 9))

		cursors := map[ipmi.Source]ipmi.Cursor{}
		theirs := everything(t, open(t, ipmitool.Options{Path: bmctest.Program(t, b)}), cursors)
		ours := everything(t, direct(t, b.Transport()), cursors)
		if diff := cmp.Diff(ours, theirs); diff != "" {
			t.Errorf("%+v: -directly +ipmitool:\n%s", config, diff)
		}
		if len(ours.Sensors) != 82 || len(ours.Log.Events) != 40 {
			t.Errorf("%+v: %d sensors, %d events", config, len(ours.Sensors), len(ours.Log.Events))
		}
	}
}

func TestSensorsOfAnotherLUNAreRead(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.AddSensor(bmc.Sensor{Number: 3, Name: "PSU1 Status", Type: 8, States: 1})
	b.AddSensor(bmc.Sensor{Number: 3, LUN: 1, Name: "PSU9 Status", Type: 8, States: 1 << 1})
	b.AddSensor(bmc.Sensor{Number: 3, Owner: 0x41, Name: "of software", Type: 8, States: 1 << 1})
	want := map[string]string{"PSU1 Status": "Presence detected", "PSU9 Status": "Failure detected", "of software": "-"}
	if got := states(t, open(t, ipmitool.Options{Path: bmctest.Program(t, b)})); !cmp.Equal(got, want) {
		t.Errorf("states %q, want %q", got, want)
	}
}

func TestSensorsOfAnotherControllerAreRead(t *testing.T) {
	sim := ipmisim.Start(t)
	sim.AddSatellite()
	s := open(t, options(sim))
	for _, failed := range []bool{false, true} {
		sim.SetSatelliteBit(1, failed)
		now := states(t, s)
		want := "Presence detected"
		if failed {
			want += ", Failure detected"
		}
		if now[ipmisim.SatelliteSensor] != want || now["PSU1 Status"] != "Presence detected" {
			t.Errorf("states %q, want %q", now, want)
		}
	}
}

// all is all that a source tells.
type all struct {
	ID      ipmi.DeviceID
	Chassis ipmi.Chassis
	Sensors []ipmi.Sensor
	Log     ipmi.EventLog
}

// everything reads all, and of the SEL what came since the last time.
func everything(t *testing.T, s ipmi.Source, cursors map[ipmi.Source]ipmi.Cursor) all {
	t.Helper()
	id, err := s.DeviceID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	chassis, err := s.Chassis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sensors, err := s.Sensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.Events(t.Context(), cursors[s])
	if err != nil {
		t.Fatal(err)
	}
	s.Rest()
	cursors[s] = log.Next
	log.Events = slices.Clip(log.Events)
	if len(log.Events) == 0 {
		log.Events = nil
	}
	return all{id, chassis, sensors, log}
}
