//go:build integration

package ipmi_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/test/bmc"
	"github.com/nodemend/nodemend/test/bmc/bmctest"
)

// The highest type that table 42-3 has, and the highest of table 42-2.
const (
	lastSensorType = 0x2c
	lastGeneric    = 0x0c
)

// words are those in which ipmitool decodes a SEL record.
type words struct{ date, sensorType, state, direction string }

// decoder has ipmitool decode records.
func decoder(t *testing.T) func(records []ipmi.SELRecord) []words {
	run := bmctest.IPMItool(t, bmc.New(bmc.Config{}))
	file := filepath.Join(t.TempDir(), "sel")
	return func(records []ipmi.SELRecord) []words {
		t.Helper()
		var raw []byte
		for _, record := range records {
			raw = append(raw, record[:]...)
		}
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		var decoded []words
		for line := range strings.Lines(run("sel", "readraw", file)) {
			columns := strings.Split(strings.TrimSuffix(line, "\n"), " | ")
			if len(columns) == 4 { // Pre-Init, and no column for the time
				date, kind, _ := strings.Cut(columns[1], "|")
				_, kind, _ = strings.Cut(kind, "| ")
				columns = []string{columns[0], date, "", kind, columns[2], columns[3]}
			}
			if len(columns) != 6 {
				t.Fatalf("ipmitool writes %q", line)
			}
			kind, _, _ := strings.Cut(columns[3], " #0x")
			decoded = append(decoded, words{
				strings.TrimSpace(columns[1] + " " + columns[2]), kind,
				strings.TrimSpace(columns[4]), strings.TrimSpace(columns[5]),
			})
		}
		if len(decoded) != len(records) {
			t.Fatalf("ipmitool decodes %d of %d records", len(decoded), len(records))
		}
		return decoded
	}
}

func record(sensorType, event uint8, data ...uint8) ipmi.SELRecord {
	r := ipmi.SELRecord{1, 0, ipmi.SystemEvent, 0, 0, 0, 0, 0x20, 0, 4, sensorType, 0x42, event, 0, 0xff, 0xff}
	binary.LittleEndian.PutUint32(r[3:], 0x69122001)
	copy(r[13:], data)
	return r
}

// differs reports the words in which ipmitool decodes a record otherwise.
func differs(t *testing.T, record ipmi.SELRecord, theirs words) {
	t.Helper()
	event := record.Event()
	direction := "Deasserted"
	if event.Asserted {
		direction = "Asserted"
	}
	date := "Pre-Init"
	if !event.Time.IsZero() {
		date = event.Time.Format("01/02/06 15:04:05 MST")
	}
	ours := words{date, event.SensorType.String(), ipmi.StateName(event.SensorType, event.EventType, event.Offset), direction}
	if ours != theirs {
		t.Errorf("record %x:\n     ours %q\n ipmitool %q", record[:], ours, theirs)
	}
}

func TestStandardEventsAreCalledWhatIPMItoolCallsThem(t *testing.T) {
	decode := decoder(t)
	var records []ipmi.SELRecord
	for sensorType := range uint8(lastSensorType + 1) {
		for _, direction := range []uint8{0x00, 0x80} {
			for offset := range uint8(16) {
				for eventType := uint8(0x01); eventType <= lastGeneric; eventType++ {
					records = append(records, record(sensorType, direction|eventType, offset))
				}
				if sensorType == 0x2b && (offset == 1 || offset == 7) {
					continue // has a name in ipmitool with event data only: below
				}
				records = append(records, record(sensorType, direction|0x6f, offset))
			}
		}
	}
	for i, theirs := range decode(records) {
		differs(t, records[i], theirs)
	}
	t.Logf("%d records", len(records))
}

func TestEventsWithDataHaveTheOffsetThatIPMItoolNames(t *testing.T) {
	decode := decoder(t)
	var records []ipmi.SELRecord
	for sensorType := range uint8(lastSensorType + 1) {
		for offset := range uint8(16) {
			for data := range uint8(0x20) {
				const specified = 0x80
				records = append(records, record(sensorType, 0x6f, specified|offset, data))
			}
		}
	}
	for i, theirs := range decode(records) {
		event := records[i].Event()
		if theirs.state == "" || theirs.state == "reserved" {
			continue
		}
		const firmware, hang, progress = 0x0f, 1, 2
		want := event.Offset
		if event.SensorType == firmware && (want == hang || theirs.state == "Unspecified") && !strings.HasPrefix(theirs.state, "Unknown") {
			want = progress // in words they are the same
		}
		got, ok := ipmi.FindState(event.SensorType, event.EventType, theirs.state)
		if !ok || got != want {
			t.Errorf("FindState(%v, %q) = %d, %t; want %d", event.SensorType, theirs.state, got, ok, want)
		}
		if event.SensorType == 0x2b && (want == 1 || want == 7) && records[i][14] == 0 {
			differs(t, records[i], theirs)
		}
	}
}

func TestTimesAreWhatIPMItoolMakesOfThem(t *testing.T) {
	decode := decoder(t)
	var records []ipmi.SELRecord
	for _, stamp := range []uint32{0, 1, 1396, 0x1fffffff, 0x20000001, 0x69122001, 0x7fffffff} {
		r := record(0x0c, 0x6f, 1)
		binary.LittleEndian.PutUint32(r[3:], stamp)
		records = append(records, r)
	}
	for i, theirs := range decode(records) {
		differs(t, records[i], theirs)
	}
}
