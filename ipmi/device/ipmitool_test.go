//go:build integration

package device_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/test/bmc"
	"github.com/nodemend/nodemend/test/bmc/bmctest"
)

// TestReadingsAreWhatIPMItoolConverts compares every way to convert a reading.
func TestReadingsAreWhatIPMItoolConverts(t *testing.T) {
	variants := []bmc.Factors{
		{M: 1},
		{M: 50, B: -3, BExp: 2, RExp: -1},
		{M: -7, B: 511, BExp: -1, RExp: -2},
		{M: 511, B: -512, RExp: -3},
		{M: 3, B: 20, BExp: 1, RExp: 1},
	}
	for _, factors := range variants {
		b := bmc.New(bmc.Config{MaxSDRRead: 20})
		number := uint8(0)
		for linearization := range uint8(13) {
			for format := range uint8(3) {
				for _, raw := range []uint8{0, 1, 100, 0x80, 0xff} {
					b.AddSensor(bmc.Sensor{
						Number: number, Name: fmt.Sprintf("%d/%d/%d", linearization, format, raw), Type: 2, EventType: 1, Full: true,
						Units: [3]uint8{format << 6, 4, 0}, Linearization: linearization, Factors: factors, Reading: raw,
					})
					number++
				}
			}
		}
		theirs := ipmitoolReadings(t, b)
		for _, sensor := range sensorsOf(t, open(t, b)) {
			want := theirs[sensor.Name]
			if math.IsNaN(want) || math.IsInf(want, 0) {
				if sensor.Reading != nil {
					t.Errorf("%+v: %s is %v, by ipmitool %v", factors, sensor.Name, *sensor.Reading, want)
				}
				continue
			}
			if sensor.Reading == nil || math.Abs(*sensor.Reading-want) > 0.0005+math.Abs(want)*1e-9 {
				t.Errorf("%+v: %s is %v, by ipmitool %v", factors, sensor.Name, sensor.Reading, want)
			}
		}
	}
}

func sensorsOf(t *testing.T, d *device.Device) []ipmi.Sensor {
	t.Helper()
	sensors, err := d.Sensors(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sensors
}

// ipmitoolReadings returns the readings by name.
func ipmitoolReadings(t *testing.T, b *bmc.BMC) map[string]float64 {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(bmctest.IPMItool(t, b)("-c", "sdr", "list"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	readings := map[string]float64{}
	for _, row := range rows {
		if readings[row[0]], err = strconv.ParseFloat(strings.Replace(row[1], "-nan", "nan", 1), 64); err != nil {
			t.Fatal(err)
		}
	}
	return readings
}

// TestStatesAreWhatIPMItoolShows sets every state of every type of sensors.
func TestStatesAreWhatIPMItoolShows(t *testing.T) {
	const lastSensorType, lastGeneric = 0x2c, 0x0c
	kinds := make([][2]uint8, 0, 64)
	for sensorType := range uint8(lastSensorType + 1) {
		kinds = append(kinds, [2]uint8{sensorType, 0x6f})
	}
	for eventType := uint8(2); eventType <= lastGeneric; eventType++ {
		kinds = append(kinds, [2]uint8{0x01, eventType})
	}
	b := bmc.New(bmc.Config{})
	run := bmctest.IPMItool(t, b)
	for _, kind := range kinds {
		b.ResetSDRs()
		for offset := range uint8(15) {
			b.AddSensor(bmc.Sensor{
				Number: offset, Name: "S" + strconv.Itoa(int(offset)), Type: kind[0], EventType: kind[1], Entity: [2]uint8{7, 1}, States: 1 << offset,
			})
		}
		theirs := map[string]string{}
		for line := range strings.Lines(run("sdr", "elist")) {
			columns := strings.Split(line, "|")
			theirs[strings.TrimSpace(columns[0])] = strings.TrimSpace(columns[4])
		}
		ours := map[string]string{}
		for offset, sensor := range sensorsOf(t, open(t, b)) {
			ours[sensor.Name] = ipmi.StateName(sensor.Type, sensor.EventType, uint8(offset))
			if sensor.States != 1<<offset {
				t.Errorf("%s: states %b", sensor.Name, sensor.States)
			}
			if sensor.Type == 0x2b && (offset == 1 || offset == 7) {
				delete(theirs, sensor.Name) // it names them with the data of an event only
				delete(ours, sensor.Name)
			}
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("sensor type 0x%02x, event type 0x%02x (-ipmitool +ours):\n%s", kind[0], kind[1], diff)
		}
	}
}

// TestUnitsAreThoseOfIPMItool compares each unit, alone and together with others.
func TestUnitsAreThoseOfIPMItool(t *testing.T) {
	b := bmc.New(bmc.Config{})
	run := bmctest.IPMItool(t, b)
	for _, flags := range []uint8{0, 1, 1 << 1, 2 << 1, 3 << 1, 1<<1 | 1, 5 << 3} {
		b.ResetSDRs()
		for unit := range uint8(95) {
			b.AddSensor(bmc.Sensor{
				Number: unit, Name: strconv.Itoa(int(unit)), Type: 1, EventType: 1, Full: true,
				Units: [3]uint8{flags, unit, 22}, Factors: bmc.Factors{M: 1},
			})
		}
		rows, err := csv.NewReader(strings.NewReader(run("-c", "sdr", "list"))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for i, sensor := range sensorsOf(t, open(t, b)) {
			if theirs := rows[i][2]; sensor.Unit != theirs {
				t.Errorf("flags %08b, unit %d: %q, by ipmitool %q", flags, i, sensor.Unit, theirs)
			}
		}
	}
}

func TestTheRestIsWhatIPMItoolShows(t *testing.T) {
	b := smallServer()
	b.SetFault(bmc.DriveFault, true)
	run := bmctest.IPMItool(t, b)
	d := open(t, b)

	id, err := d.DeviceID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mc := run("mc", "info")
	for name, value := range map[string]string{
		"Firmware Revision": id.Firmware,
		"IPMI Version":      id.IPMIVersion,
		"Manufacturer ID":   strconv.Itoa(int(id.Manufacturer)),
		"Product ID":        fmt.Sprintf("%d (0x%04x)", id.Product, id.Product),
	} {
		if line := fmt.Sprintf("%-26s: %s\n", name, value); !strings.Contains(mc, line) {
			t.Errorf("ipmitool does not write %q:\n%s", line, mc)
		}
	}

	for cause := range uint8(0x0c) {
		b.SetRestartCause(cause)
		chassis, err := d.Chassis(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got, want := run("chassis", "restart_cause"), fmt.Sprintf("System restart cause: %v\n", chassis.RestartCause); got != want {
			t.Errorf("restart cause: %q, by ipmitool %q", want, got)
		}
	}

	event := readEvents(t, d, ipmi.Cursor{}).Events[0]
	line := fmt.Sprintf("%4x | %s | %v %s | %s | Asserted\n",
		event.ID, event.Time.Format("01/02/06 | 15:04:05 MST"), event.SensorType, event.SensorName, event.StateName())
	if got := run("sel", "elist"); got != line {
		t.Errorf("event: %q, by ipmitool %q", line, got)
	}
}

func TestTheDoubleHasLUNsAndEventMasks(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.AddSensor(bmc.Sensor{Number: 3, Name: "PSU1 Status", Type: 8, States: 1, Assertions: 1 << 1})
	b.AddSensor(bmc.Sensor{Number: 3, LUN: 1, Name: "PSU9 Status", Type: 8, States: 1 << 1})
	run := bmctest.IPMItool(t, b)
	list := run("sdr", "elist")
	for _, want := range []string{"PSU1 Status      | 03h | ok  |  0.0 | Presence detected\n", "PSU9 Status      | 03h | ok  |  0.0 | Failure detected\n"} {
		if !strings.Contains(list, want) {
			t.Errorf("ipmitool does not write %q:\n%s", want, list)
		}
	}
	for offset, logged := range map[uint8]int{1: 1, 3: 0} {
		b.ClearSEL()
		if err := b.Assert(3, offset, true); err != nil {
			t.Fatal(err)
		}
		if events := readEvents(t, open(t, b), ipmi.Cursor{}).Events; len(events) != logged {
			t.Errorf("state %d: %d events, want %d", offset, len(events), logged)
		}
	}
}
