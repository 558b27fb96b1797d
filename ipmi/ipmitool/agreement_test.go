//go:build integration

package ipmitool_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/test/ipmisim"
)

// systemInterface is the simulator's as the device source wants it.
type systemInterface struct{ bmc *ipmisim.Simulator }

func (i systemInterface) SendRecv(netFn, cmd uint8, data []byte) ([]byte, error) {
	return i.bmc.SendRecv(netFn, cmd, data...)
}

func (systemInterface) Close() error { return nil }

func TestBothSourcesTellTheSameOfABMC(t *testing.T) {
	bmc := ipmisim.Start(t)
	words := open(t, options(bmc))
	raw := device.New("simulator", systemInterface{bmc}, clock.RealClock{})
	t.Cleanup(func() {
		if err := raw.Close(); err != nil {
			t.Error(err)
		}
	})
	cursors := map[ipmi.Source]ipmi.Cursor{}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"healthy", func() {}},
		{"everything fails", func() {
			bmc.SetSensorValue(ipmisim.CPU0Temp, 98)
			bmc.SetSensorValue(ipmisim.FAN1, 0)
			bmc.SetSensorValue(ipmisim.Volts12, 171)
			bmc.SetSensorBit(ipmisim.PSU1Status, 1, true)
			bmc.SetSensorBit(ipmisim.PSU2Status, 5, true)
			bmc.SetSensorBit(ipmisim.DIMMA1, 1, true)
			bmc.SetSensorBit(ipmisim.Disk0, 1, true)
			bmc.SetSensorBit(ipmisim.CPU0Status, 0, true)
			bmc.SetSensorBit(ipmisim.PSURedundancy, 0, false)
			bmc.SetSensorBit(ipmisim.PSURedundancy, 1, true)
			bmc.SetScanning(ipmisim.FAN2, false)
		}},
		{"nothing new", func() {}},
		{"the clock is set, and others log", func() {
			bmc.SetSELClock(time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC))
			bmc.AddEvent(0x31, 0x07, ipmisim.CPU0Status, 0x6f, [3]byte{0x0b, 0xff, 0xff})
			bmc.AddEvent(0x31, 0x0f, 0x00, 0x6f, [3]byte{0xc2, 0x02, 0xff})
			bmc.AddEvent(0x20, 0x09, ipmisim.PSURedundancy, 0x0b|0x80, [3]byte{0x01, 0xff, 0xff})
			bmc.AddSEL(0xc0, [13]byte{4: 1})
			bmc.AddSEL(0xe0, [13]byte{4: 1})
		}},
		{"cleared", bmc.ClearSEL},
		{"off and repaired", func() {
			bmc.PowerOff()
			bmc.SetSensorValue(ipmisim.FAN1, 120)
			bmc.SetSensorBit(ipmisim.PSU1Status, 1, false)
			bmc.SetScanning(ipmisim.FAN2, true)
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.do()
			if diff := cmp.Diff(everything(t, raw, cursors), everything(t, words, cursors), approximately()); diff != "" {
				t.Errorf("-device +ipmitool:\n%s", diff)
			}
		})
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
	for i := range sensors {
		if sensors[i].Reading == nil {
			sensors[i].Unit = "" // ipmitool does not tell
		}
		sensors[i].Owner = 0 // nor this
	}
	log, err := s.Events(t.Context(), cursors[s])
	if err != nil {
		t.Fatal(err)
	}
	cursors[s] = log.Next
	for i := range log.Events {
		if log.Events[i].Owner == ipmi.BMCAddress {
			log.Events[i].Owner = 0 // as its sensors
		}
	}
	if len(log.Events) == 0 {
		log.Events = nil
	}
	return all{id, chassis, sensors, log}
}

// approximately compares readings as ipmitool rounds them.
func approximately() cmp.Option {
	return cmp.Comparer(func(a, b float64) bool { return a-b < 0.0006 && b-a < 0.0006 })
}
