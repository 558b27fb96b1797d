package ipmi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryStateIsFoundByItsName(t *testing.T) {
	for sensorType := range SensorType(0x30) {
		for eventType := range EventType(0x70) {
			for offset := range uint8(16) {
				name := StateName(sensorType, eventType, offset)
				if name == "" || name == "reserved" {
					continue
				}
				if got, ok := FindState(sensorType, eventType, name); !ok || got != offset {
					t.Errorf("FindState(0x%02x, 0x%02x, %q) = %d, %t; want %d", uint8(sensorType), uint8(eventType), name, got, ok, offset)
				}
			}
		}
	}
}

func TestEverySensorTypeIsFoundByItsName(t *testing.T) {
	for number := range 0x100 {
		sensorType := SensorType(number)
		if got, ok := ParseSensorType(sensorType.String()); !ok || got != sensorType {
			t.Errorf("ParseSensorType(%q) = %d, %t; want %d", sensorType, got, ok, number)
		}
	}
	if got, ok := ParseSensorType(" power supply"); !ok || got != powerSupply {
		t.Errorf("ParseSensorType does not mind case and space: %v, %t", got, ok)
	}
	for _, name := range []string{"", "Unknown", "OEM", "PSU"} {
		if got, ok := ParseSensorType(name); ok {
			t.Errorf("ParseSensorType(%q) = %v", name, got)
		}
	}
}

func TestStatesAreFoundByTheLongerNamesOfEvents(t *testing.T) {
	tests := []struct {
		sensorType SensorType
		name       string
		want       uint8
		found      bool
	}{
		{powerSupply, "Config Error: Vendor Mismatch", 6, true},
		{powerSupply, "AC out-of-range, but present", 5, true},
		{powerSupply, "No Such State: Vendor Mismatch", 0, false},
		{versionChange, "Firmware or software change detected, BIOS/EFI change", 1, true},
		{versionChange, "Firmware or software change success, Mngmt Ctrl Dev Id", 7, true},
		{systemFirmware, "No usable system memory", 0, true},
		{systemFirmware, "System boot initiated", 2, true},
		{systemFirmware, "Unknown Hang", 1, true},
		{0x0c, "uncorrectable ecc", 1, true},
		{0x0c, "Uncorrectable ECC, or so", 0, false},
		{0x0c, "", 0, false},
		{0x22, "", 0, false}, // has an offset without a name
		{0xc1, "Asserted", 0, false},
	}
	for _, test := range tests {
		got, ok := FindState(test.sensorType, SensorSpecific, test.name)
		if got != test.want || ok != test.found {
			t.Errorf("FindState(%v, %q) = %d, %t; want %d, %t", test.sensorType, test.name, got, ok, test.want, test.found)
		}
	}
}

func TestStateNamesNamesEveryBit(t *testing.T) {
	tests := []struct {
		sensor Sensor
		want   []string
	}{
		{Sensor{Type: powerSupply, EventType: SensorSpecific, States: 1<<0 | 1<<3}, []string{"Presence detected", "Power Supply AC lost"}},
		{Sensor{Type: 0x01, EventType: Threshold, States: UpperNonCritical | UpperCritical}, []string{"Upper Non-critical", "Upper Critical"}},
		{Sensor{Type: 0x04, EventType: 0x0b, States: 1 << 1}, []string{"Redundancy Lost"}},
		{Sensor{Type: 0xc0, EventType: SensorSpecific, States: 1 << 15}, []string{"State 15"}},
		{Sensor{Type: powerSupply, EventType: SensorSpecific}, nil},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, test.sensor.StateNames()); diff != "" {
			t.Errorf("StateNames of %+v (-want +got):\n%s", test.sensor, diff)
		}
	}
}

func TestNamesForPeople(t *testing.T) {
	for got, want := range map[string]string{
		ThresholdEventName(4):     "Lower Non-recoverable going low",
		ThresholdEventName(12):    "",
		SensorType(0xc1).String(): "OEM 0xc1",
		SensorType(0x2d).String(): "Unknown 0x2d",
		Event{SensorType: 0x0c, EventType: SensorSpecific, Offset: 1}.StateName():  "Uncorrectable ECC",
		Event{SensorType: 0x0c, EventType: SensorSpecific, Offset: 14}.StateName(): "State 14",
		RestartWatchdog.String():     "watchdog expired",
		RestartCause(0xe).String():   "unknown 0xe",
		Unit(0, 1, 0):                "degrees C",
		Unit(1, 0, 0):                "percent",
		Unit(1, 18, 0):               "% RPM",
		Unit(1<<1, 4, 22):            "Volts/second",
		Unit(2<<1, 4, 5):             "Volts*Amps",
		Unit(0, 92, 0):               "grams",
		Unit(0, 93, 0):               "invalid",
		NodeBusy.Error():             "the BMC answers node busy (completion code 0xc0)",
		CompletionCode(0x7e).Error(): "the BMC answers a code of its own (completion code 0x7e)",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
