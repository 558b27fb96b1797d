package ipmitool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/ipmi"
)

// fixture returns what ipmitool 1.8.19 has written about ipmi_sim.
func fixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func reading(value float64) *float64 { return &value }

// Types of sensors (IPMI 2.0, table 42-3).
const (
	temperature ipmi.SensorType = 0x01
	voltage     ipmi.SensorType = 0x02
	fan         ipmi.SensorType = 0x04
	processor   ipmi.SensorType = 0x07
	powerSupply ipmi.SensorType = 0x08
	powerUnit   ipmi.SensorType = 0x09
	memory      ipmi.SensorType = 0x0c
	driveSlot   ipmi.SensorType = 0x0d
	firmware    ipmi.SensorType = 0x0f
	critical    ipmi.SensorType = 0x13

	redundancy ipmi.EventType = 0x0b
)

func TestSensorsAreReadFromIPMItoolsWords(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		want []ipmi.Sensor
	}{
		"of a healthy server": {
			file: "healthy-sensors.txt",
			want: []ipmi.Sensor{
				{Name: "CPU0 Temp", Number: 0x01, Type: temperature, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 3, Instance: 1}, Available: true, Reading: reading(45), Unit: "degrees C"},
				{Name: "FAN1", Number: 0x02, Type: fan, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 29, Instance: 1}, Available: true, Reading: reading(6000), Unit: "RPM"},
				{Name: "FAN2", Number: 0x07, Type: fan, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 29, Instance: 2}, Available: true, Reading: reading(5900), Unit: "RPM"},
				{Name: "PSU1 Status", Number: 0x03, Type: powerSupply, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 10, Instance: 1}, Available: true, States: 1 << 0},
				{Name: "PSU2 Status", Number: 0x08, Type: powerSupply, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 10, Instance: 2}, Available: true, States: 1 << 0},
				{Name: "DIMM_A1", Number: 0x04, Type: memory, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 32, Instance: 1}, Available: true, States: 1 << 6},
				{Name: "Disk0", Number: 0x05, Type: driveSlot, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 26, Instance: 1}, Available: true, States: 1 << 0},
				{Name: "CPU0 Status", Number: 0x06, Type: processor, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 3, Instance: 1}, Available: true, States: 1 << 7},
				{Name: "12V", Number: 0x09, Type: voltage, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 7, Instance: 1}, Available: true, Reading: reading(11.97), Unit: "Volts"},
				{Name: "PSU Redundancy", Number: 0x0a, Type: powerUnit, EventType: redundancy, Entity: ipmi.Entity{ID: 19, Instance: 1}, Available: true, States: 1 << 0},
			},
		},
		"of a server that is broken everywhere": {
			file: "faults-sensors.txt",
			want: []ipmi.Sensor{
				{Name: "CPU0 Temp", Number: 0x01, Type: temperature, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 3, Instance: 1}, Available: true, Reading: reading(98), Unit: "degrees C", States: ipmi.UpperNonCritical | ipmi.UpperCritical},
				{Name: "FAN1", Number: 0x02, Type: fan, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 29, Instance: 1}, Available: true, Reading: reading(0), Unit: "RPM", States: ipmi.LowerNonCritical | ipmi.LowerCritical | ipmi.LowerNonRecoverable},
				{Name: "FAN2", Number: 0x07, Type: fan, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 29, Instance: 2}},
				{Name: "PSU1 Status", Number: 0x03, Type: powerSupply, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 10, Instance: 1}, Available: true, States: 1<<0 | 1<<1},
				{Name: "PSU2 Status", Number: 0x08, Type: powerSupply, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 10, Instance: 2}, Available: true, States: 1<<0 | 1<<5},
				{Name: "DIMM_A1", Number: 0x04, Type: memory, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 32, Instance: 1}, Available: true, States: 1<<1 | 1<<6},
				{Name: "Disk0", Number: 0x05, Type: driveSlot, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 26, Instance: 1}, Available: true, States: 1<<0 | 1<<1},
				{Name: "CPU0 Status", Number: 0x06, Type: processor, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 3, Instance: 1}, Available: true, States: 1<<0 | 1<<7},
				{Name: "12V", Number: 0x09, Type: voltage, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 7, Instance: 1}, Available: true, Reading: reading(11.088), Unit: "Volts", States: ipmi.LowerNonCritical},
				{Name: "PSU Redundancy", Number: 0x0a, Type: powerUnit, EventType: redundancy, Entity: ipmi.Entity{ID: 19, Instance: 1}, Available: true, States: 1 << 1},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseSensors(fixture(t, test.file))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// discrete is a discrete sensor of ipmitool, below whose type other lines follow.
const discrete = `Sensor ID              : %NAME% (0x3f)
 Entity ID             : 10.1 (Power Supply)
 Sensor Type (Discrete): Power Supply (0x08)
`

func TestSensorsThatAreOutOfTheOrdinary(t *testing.T) {
	head := strings.ReplaceAll(discrete, "%NAME%", "PSU")
	psu := func(change func(*ipmi.Sensor)) ipmi.Sensor {
		s := ipmi.Sensor{Name: "PSU", Number: 0x3f, Type: powerSupply, Entity: ipmi.Entity{ID: 10, Instance: 1}, Available: true}
		change(&s)
		return s
	}
	for name, test := range map[string]struct {
		text string
		want ipmi.Sensor
	}{
		"states of a sensor without a reading are old": {
			text: head + " Sensor Reading        : No Reading\n States Asserted       : Power Supply\n                         [Failure detected]\n",
			want: psu(func(s *ipmi.Sensor) { s.Available, s.EventType = false, ipmi.SensorSpecific }),
		},
		"states that the standard does not have tell nothing": {
			text: head + " Sensor Reading        : 4h\n States Asserted       : Power Supply\n                         [On fire]\n",
			want: psu(func(*ipmi.Sensor) {}),
		},
		"without any state the events that are enabled tell the type": {
			text: head + " Sensor Reading        : 0h\n Assertions Enabled    : Power Supply\n                         [State Asserted]\n",
			want: psu(func(s *ipmi.Sensor) { s.EventType = 0x03 }),
		},
		"a discrete sensor may have an analog reading": {
			text: head + " Sensor Reading        : 204.50 Watts\n States Asserted       : Power Supply\n                         [Presence detected]\n",
			want: psu(func(s *ipmi.Sensor) {
				s.EventType, s.States, s.Reading, s.Unit = ipmi.SensorSpecific, 1, reading(204.5), "Watts"
			}),
		},
		"a name may be Latin-1, with brackets, colons and the ends of lines": {
			text: strings.ReplaceAll(discrete, "%NAME%", "L\xfcfter: (0x1)\n[b]") + " Sensor Reading        : 0h\n",
			want: psu(func(s *ipmi.Sensor) { s.Name = "Lüfter: (0x1) [b]" }),
		},
		"no name at all": {
			text: strings.ReplaceAll(discrete, "%NAME%", "") + " Sensor Reading        : 0h\n",
			want: psu(func(s *ipmi.Sensor) { s.Name = "" }),
		},
		"a negative reading, and limits that it is not compared with": {
			text: `Sensor ID              : Inlet (0x3f)
 Entity ID             : 64.1 (Air Inlet)
 Sensor Type (Threshold)  : Temperature (0x01)
 Sensor Reading        : -12.500 (+/- 0.500) degrees C
 Status                : Lower Non-Recoverable
 Threshold Read Mask   : lnr lnc ucr 
`,
			want: ipmi.Sensor{
				Name: "Inlet", Number: 0x3f, Type: temperature, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 64, Instance: 1},
				Available: true, Reading: reading(-12.5), Unit: "degrees C", States: ipmi.LowerNonRecoverable | ipmi.LowerNonCritical,
			},
		},
		"a threshold sensor without a factor has no reading": {
			text: `Sensor ID              : Load (0x3f)
 Entity ID             : 7.1 (System Board)
 Sensor Type (Threshold)  : Temperature (0x01)
 Sensor Reading        : 0x2D (+/- 0x00) unspecified
 Status                : ok
`,
			want: ipmi.Sensor{
				Name: "Load", Number: 0x3f, Type: temperature, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 7, Instance: 1}, Available: true,
			},
		},
		"a reading that is no number": {
			text: `Sensor ID              : Load (0x3f)
 Entity ID             : 7.1 (System Board)
 Sensor Type (Threshold)  : Temperature (0x01)
 Sensor Reading        : inf (+/- 0) degrees C
 Status                : Upper Non-Critical
`,
			want: ipmi.Sensor{
				Name: "Load", Number: 0x3f, Type: temperature, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 7, Instance: 1},
				Available: true, Unit: "degrees C", States: ipmi.UpperNonCritical,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseSensors(test.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]ipmi.Sensor{test.want}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestASensorThatIsNotUnderstoodIsNotLeftOut(t *testing.T) {
	const good = `Sensor ID              : Load (0x3f)
 Entity ID             : 7.1 (System Board)
 Sensor Type (Threshold)  : Temperature (0x01)
 Sensor Reading        : 5 (+/- 0) degrees C
 Status                : ok
`
	if _, err := parseSensors(good); err != nil {
		t.Fatal(err)
	}
	for _, broken := range []struct{ old, new, want string }{
		{" (0x3f)", "", `sensor "Load": its number is missing`},
		{"7.1", "7.300", "300"},
		{"7.1", "?", "its entity is"},
		{" (0x01)", "", "its type is missing"},
		{"Sensor Reading ", "Sensor Writing ", "its reading is"},
		{"5 (+/-", "5.5.5 (+/-", "its reading is"},
		{"ok", "on fire", `its status is "on fire"`},
	} {
		_, err := parseSensors(strings.Replace(good, broken.old, broken.new, 1))
		if err == nil || !strings.Contains(err.Error(), broken.want) {
			t.Errorf("%q instead of %q: error %v, want one with %q", broken.new, broken.old, err, broken.want)
		}
		sensors, err := parseSensors(good + strings.Replace(good, broken.old, broken.new, 1))
		if err != nil || len(sensors) != 2 || !sensors[0].Available || sensors[0].Problem != "" || sensors[1].Available || !strings.Contains(sensors[1].Problem, broken.want) {
			t.Errorf("%q instead of %q, behind a good one: %+v, %v", broken.new, broken.old, sensors, err)
		}
	}
}

func FuzzParseSensors(f *testing.F) {
	f.Add(fixture(f, "healthy-sensors.txt"))
	f.Add(fixture(f, "faults-sensors.txt"))
	f.Fuzz(func(t *testing.T, text string) {
		sensors, err := parseSensors(text)
		if err != nil {
			return
		}
		for _, s := range sensors {
			if !s.Available && (s.States != 0 || s.Reading != nil) {
				t.Errorf("not available, and yet: %+v", s)
			}
			if s.EventType == ipmi.Threshold && s.States >= 1<<6 {
				t.Errorf("a limit that does not exist: %+v", s)
			}
		}
	})
}
