package device_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/test/bmc"
)

func TestSensorsAreReadWithTheirState(t *testing.T) {
	b := smallServer()
	for number, change := range map[uint8]func(*bmc.Sensor){
		0x01: func(s *bmc.Sensor) { s.Reading, s.States = 98, 0x18 },
		0x02: func(s *bmc.Sensor) { s.Unavailable, s.States = true, 0x07 },
		0x03: func(s *bmc.Sensor) { s.States = 1<<0 | 1<<1 },
		0x04: func(s *bmc.Sensor) { s.States = 1 << 10 },
	} {
		if err := b.SetSensor(number, change); err != nil {
			t.Fatal(err)
		}
	}
	degrees := 98.0
	want := []ipmi.Sensor{
		{
			Name: "CPU0 Temp", Number: 1, Type: 1, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 3, Instance: 1},
			Available: true, Reading: &degrees, Unit: "degrees C", States: ipmi.UpperNonCritical | ipmi.UpperCritical,
		},
		{Name: "FAN1", Number: 2, Type: 4, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 29, Instance: 1}, Unit: "RPM"},
		{Name: "PSU1 Status", Number: 3, Type: 8, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 10, Instance: 1}, Available: true, States: 3},
		{Name: "DIMM_A1", Number: 4, Type: 12, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 32, Instance: 1}, Available: true, States: 1 << 10},
	}
	for i := range want {
		want[i].Owner = ipmi.BMCAddress
	}
	checkSensors(t, open(t, b), want)
}

func checkSensors(t *testing.T, d *device.Device, want []ipmi.Sensor) {
	t.Helper()
	got, err := d.Sensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Sensors (-want +got):\n%s", diff)
	}
}

// only returns the one sensor of a BMC.
func only(t *testing.T, s bmc.Sensor) ipmi.Sensor {
	t.Helper()
	b := bmc.New(bmc.Config{})
	b.AddSensor(s)
	sensors, err := open(t, b).Sensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(sensors) != 1 {
		t.Fatalf("%d sensors: %+v", len(sensors), sensors)
	}
	return sensors[0]
}

func TestASensorWithoutAReadingIsNotAvailable(t *testing.T) {
	for name, s := range map[string]bmc.Sensor{
		"scanning disabled":         {Type: 8, States: 2, Disabled: true},
		"reading unavailable":       {Type: 8, States: 2, Unavailable: true},
		"of another controller":     {Type: 8, States: 2, Owner: 0x2c},
		"of another LUN":            {Type: 8, States: 2, LUN: 1},
		"of the system's software":  {Type: 8, States: 2, Owner: 0x41},
		"unavailable with a factor": {Type: 1, EventType: 1, Full: true, Factors: bmc.Factors{M: 1}, Unavailable: true},
	} {
		if got := only(t, s); got.Available || got.States != 0 || got.Reading != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestASensorThatTheBMCRefusesToReadIsNotAvailable(t *testing.T) {
	b := smallServer()
	if err := b.SetSensor(0x03, func(s *bmc.Sensor) { s.Absent = true }); err != nil {
		t.Fatal(err)
	}
	sensors, err := open(t, b).Sensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	available := map[string]bool{}
	for _, s := range sensors {
		available[s.Name] = s.Available
	}
	want := map[string]bool{"CPU0 Temp": true, "FAN1": true, "PSU1 Status": false, "DIMM_A1": true}
	if diff := cmp.Diff(want, available); diff != "" {
		t.Errorf("available (-want +got):\n%s", diff)
	}
}

func TestABMCThatRefusesAllSensorsIsAnError(t *testing.T) {
	b := smallServer()
	b.Fail(bmc.GetSensorReading, uint8(ipmi.UnspecifiedError), -1)
	sensors, err := open(t, b).Sensors(t.Context())
	if !errors.Is(err, ipmi.UnspecifiedError) {
		t.Errorf("Sensors = %+v, %v", sensors, err)
	}
}

func TestASharedRecordDescribesAllItsSensors(t *testing.T) {
	tests := []struct {
		shared    [2]uint8
		names     []string
		instances []uint8
	}{
		{[2]uint8{0x03, 0x80 | 1}, []string{"DIMM1", "DIMM2", "DIMM3"}, []uint8{5, 6, 7}},
		{[2]uint8{0x13, 25}, []string{"DIMMZ", "DIMMAA", "DIMMAB"}, []uint8{5, 5, 5}},
		{[2]uint8{0x01, 7}, []string{"DIMM"}, []uint8{5}},
	}
	for _, test := range tests {
		b := bmc.New(bmc.Config{})
		b.AddSensor(bmc.Sensor{Number: 0x10, Name: "DIMM", Type: 0x0c, Entity: [2]uint8{32, 5}, Shared: test.shared})
		last := uint8(0x10 + len(test.names) - 1)
		if err := b.Assert(last, 1, true); err != nil {
			t.Fatal(err)
		}
		d := open(t, b)
		sensors, err := d.Sensors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		var instances []uint8
		for _, s := range sensors {
			names = append(names, s.Name)
			instances = append(instances, s.Entity.Instance)
		}
		if !slices.Equal(names, test.names) || !slices.Equal(instances, test.instances) {
			t.Errorf("%v: sensors %q of instances %v", test.shared, names, instances)
		}
		for i, s := range sensors {
			if want := i == len(sensors)-1; (s.States != 0) != want {
				t.Errorf("%v: state of %q: %b", test.shared, s.Name, s.States)
			}
		}
		events := readEvents(t, d, ipmi.Cursor{})
		if got := events.Events[0].SensorName; got != names[len(names)-1] {
			t.Errorf("%v: the event is of %q", test.shared, got)
		}
	}
}

func TestThresholdsAreComparedWhereTheBMCDoesNot(t *testing.T) {
	tests := map[uint8]uint16{
		// raw, in 2's complement
		20:              0,
		50:              ipmi.UpperNonCritical,
		60:              ipmi.UpperNonCritical | ipmi.UpperCritical,
		80:              ipmi.UpperNonCritical | ipmi.UpperCritical,
		0xf6 /* -10 */ : ipmi.LowerNonCritical | ipmi.LowerCritical,
		5:               ipmi.LowerNonCritical,
	}
	for raw, want := range tests {
		got := only(t, bmc.Sensor{
			Type: 1, EventType: 1, Full: true, Units: [3]uint8{0x80, 1, 0}, Factors: bmc.Factors{M: 1}, NoStates: true, Reading: raw,
			Thresholds: [6]uint8{5, 0, 0, 50, 60, 70}, ThresholdMask: 0x1b, // neither non-recoverable one
		})
		if got.States != want || !got.Available {
			t.Errorf("raw %d: states %06b, want %06b", raw, got.States, want)
		}
	}
}

func TestANonLinearSensorIsConvertedByTheFactorsOfItsReading(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.AddSensor(bmc.Sensor{Number: 9, Type: 2, EventType: 1, Full: true, Linearization: 0x70, Factors: bmc.Factors{M: 1}, Reading: 12})
	b.SetHook(func(command bmc.Command, data []byte) []byte {
		if command != bmc.GetReadingFactors {
			return nil
		}
		return []byte{0, 0, data[1], 0, 0, 0, 0, 0xf0} // M is the reading, the result exponent -1
	})
	sensors, err := open(t, b).Sensors(t.Context())
	if err != nil || *sensors[0].Reading != 14.4 {
		t.Errorf("reading %v, %v; want 14.4", sensors, err)
	}
}

func TestAReadingThatIsNoNumberIsLeftOut(t *testing.T) {
	const inverse = 7
	got := only(t, bmc.Sensor{
		Type: 2, EventType: 1, Full: true, Linearization: inverse, Factors: bmc.Factors{M: 1}, Reading: 0, States: 1,
	})
	if !got.Available || got.Reading != nil || got.States != ipmi.LowerNonCritical {
		t.Errorf("1/0: %+v", got)
	}
}

func TestSDRsAreReadInThePiecesThatTheBMCReturns(t *testing.T) {
	for _, size := range []int{0, 1, 3, 5, 15, 16} {
		for _, deviceSDRs := range []bool{false, true} {
			b := bmc.New(bmc.Config{Name: "BMC", MaxSDRRead: size, DeviceSDRs: deviceSDRs})
			for number := range uint8(5) {
				b.AddSensor(bmc.Sensor{Number: number, Name: "a name of 16 chr", Type: 8, Full: number%2 == 0})
			}
			sensors, err := open(t, b).Sensors(t.Context())
			if err != nil || len(sensors) != 5 || sensors[4].Name != "a name of 16 chr" {
				t.Errorf("%d bytes, device SDRs %t: %+v, %v", size, deviceSDRs, sensors, err)
			}
		}
	}
}

func TestRecordsOfOtherTypesAreSkipped(t *testing.T) {
	b := smallServer()
	for _, recordType := range []uint8{0x08, 0x11, 0x14, 0xc0, 0xff} {
		b.AddSDR(recordType, []byte{1, 2, 3})
	}
	b.AddSDR(0xc0, nil)
	b.AddSensor(bmc.Sensor{Number: 0x50, Name: "last", Type: 8})
	sensors, err := open(t, b).Sensors(t.Context())
	if err != nil || len(sensors) != 5 || sensors[4].Name != "last" {
		t.Errorf("Sensors = %+v, %v", sensors, err)
	}
}

func TestASensorThatHasEventsOnlyIsKnownByName(t *testing.T) {
	b := smallServer()
	// Table 43-3, from the owner on: processor 0x61, sensor-specific.
	b.AddSDR(0x03, []byte{0x20, 0, 0x61, 3, 1, 0x07, 0x6f, 0, 0, 0, 0, 0xc6, 'C', 'A', 'T', 'E', 'R', 'R'})
	b.ClearSEL()
	b.Log(bmc.Event{Type: 0x07, Number: 0x61})
	d := open(t, b)
	if sensors, err := d.Sensors(t.Context()); err != nil || len(sensors) != 4 {
		t.Errorf("Sensors = %+v, %v", sensors, err)
	}
	if got := readEvents(t, d, ipmi.Cursor{}).Events[0].SensorName; got != "CATERR" {
		t.Errorf("the event is of %q", got)
	}
}

func TestSDRsAreReadAgainOnlyAfterTheyHaveChanged(t *testing.T) {
	b := smallServer()
	d := open(t, b)
	for range 3 {
		if _, err := d.Sensors(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.TakeCounts()
	}
	if _, err := d.Sensors(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[bmc.Command]int{bmc.GetSDRInfo: 1, bmc.GetSensorReading: 4}
	if diff := cmp.Diff(want, b.TakeCounts()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}

	b.SetClock(0x69122002)
	b.AddSensor(bmc.Sensor{Number: 0x50, Name: "new", Type: 8})
	if sensors, err := d.Sensors(t.Context()); err != nil || len(sensors) != 5 {
		t.Errorf("after a change: %+v, %v", sensors, err)
	}
}

func TestALostReservationIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := smallServer()
		requests := 0
		b.SetHook(func(command bmc.Command, _ []byte) []byte {
			if command == bmc.GetSDR {
				requests++
				if requests%7 == 0 {
					b.CancelReservations()
				}
			}
			return nil
		})
		sensors, err := open(t, b).Sensors(t.Context())
		if err != nil || len(sensors) != 4 {
			t.Errorf("Sensors = %+v, %v", sensors, err)
		}
	})
}

func TestAReservationThatIsAlwaysLostIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := smallServer()
		b.SetHook(func(command bmc.Command, _ []byte) []byte {
			if command == bmc.GetSDR {
				b.CancelReservations()
			}
			return nil
		})
		if sensors, err := open(t, b).Sensors(t.Context()); !errors.Is(err, ipmi.ReservationLost) {
			t.Errorf("Sensors = %+v, %v", sensors, err)
		}
	})
}

func TestARepositoryThatLoopsIsReadOnce(t *testing.T) {
	b := smallServer()
	b.SetHook(loop(b))
	sensors, err := open(t, b).Sensors(t.Context())
	if err != nil || len(sensors) != 4 {
		t.Errorf("Sensors = %+v, %v", sensors, err)
	}
}

// loop has the second record of the repository follow its last one.
func loop(b *bmc.BMC) bmc.Hook {
	return func(command bmc.Command, data []byte) []byte {
		if command != bmc.GetSDR || data[2] != 5 {
			return nil
		}
		b.SetHook(nil)
		defer b.SetHook(loop(b))
		answer := b.Handle(0x0a, 0, 0x23, data)
		answer[1], answer[2] = 2, 0
		return answer
	}
}
