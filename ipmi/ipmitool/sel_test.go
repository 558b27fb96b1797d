package ipmitool

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/ipmi"
)

// faultsSEL is the SEL of the fixtures.
func faultsSEL(t testing.TB) sel {
	t.Helper()
	info := fixture(t, "faults-sel-info.txt")
	s, err := parseSEL(info, fixture(t, "faults-sel-elist.txt"), fixture(t, "faults-sel-list-verbose.txt"), info)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheSELIsReadFromIPMItoolsWords(t *testing.T) {
	const start = 1396 // seconds after the BMC's start
	set := time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC)
	stamp := uint32(set.Unix())
	preInit := func(id uint16, name string, number uint8, kind ipmi.SensorType, e ipmi.EventType, offset uint8, asserted bool) ipmi.Event {
		return ipmi.Event{
			ID: id, RecordType: ipmi.SystemEvent, Timestamp: start, SensorName: name, SensorNumber: number,
			SensorType: kind, EventType: e, Offset: offset, Asserted: asserted,
		}
	}
	dated := func(id uint16, name string, number uint8, kind ipmi.SensorType, e ipmi.EventType, offset uint8, asserted bool) ipmi.Event {
		event := preInit(id, name, number, kind, e, offset, asserted)
		event.Timestamp, event.Time = stamp, set
		return event
	}
	const specific = ipmi.SensorSpecific
	want := []ipmi.Event{
		preInit(0x01, "CPU0 Temp", 0x01, temperature, ipmi.Threshold, 7, true),
		preInit(0x02, "CPU0 Temp", 0x01, temperature, ipmi.Threshold, 9, true),
		preInit(0x03, "FAN1", 0x02, fan, ipmi.Threshold, 0, true),
		preInit(0x04, "FAN1", 0x02, fan, ipmi.Threshold, 2, true),
		preInit(0x05, "FAN1", 0x02, fan, ipmi.Threshold, 4, true),
		preInit(0x06, "12V", 0x09, voltage, ipmi.Threshold, 0, true),
		preInit(0x07, "PSU1 Status", 0x03, powerSupply, specific, 1, true),
		preInit(0x08, "PSU2 Status", 0x08, powerSupply, specific, 5, true),
		preInit(0x09, "DIMM_A1", 0x04, memory, specific, 1, true),
		preInit(0x0a, "Disk0", 0x05, driveSlot, specific, 1, true),
		preInit(0x0b, "CPU0 Status", 0x06, processor, specific, 0, true),
		preInit(0x0c, "PSU Redundancy", 0x0a, powerUnit, redundancy, 0, false),
		preInit(0x0d, "PSU Redundancy", 0x0a, powerUnit, redundancy, 1, true),
		dated(0x0e, "PSU1 Status", 0x03, powerSupply, specific, 1, false),
		dated(0x0f, "PSU1 Status", 0x03, powerSupply, specific, 1, true),
		// These are of the BIOS, of whose sensors no SDR tells.
		dated(0x10, "", 0x06, processor, specific, 11, true),
		dated(0x11, "", 0x00, memory, specific, 1, true),
		dated(0x12, "", 0x00, critical, specific, 8, true),
		dated(0x13, "", 0x00, 0, 0, 8, true), // 0xc1 and 0x71, ipmitool does not tell
		dated(0x14, "", 0x00, firmware, specific, 0, true),
		dated(0x15, "", 0x00, firmware, specific, 2, true),
		dated(0x16, "", 0x03, powerSupply, specific, 1, false),
		{ID: 0x17, RecordType: 0xc0, Timestamp: stamp, Time: set},
		{ID: 0x18, RecordType: 0xe0},
		{ID: 0x19, RecordType: 0xf0},
	}
	// The event data of the system events, and those that a BIOS has logged.
	for i, data := range []string{
		"576255", "59625f", "50000c", "520008", "540004", "50b0b4", "01ffff", "05ffff", "01ffff", "01ffff", "00ffff",
		"00ffff", "01ffff", "01ffff", "01ffff", "0bffff", "a1ff12", "08ffff", "08ffff", "a002ff", "c202ff", "01ffff",
	} {
		if err := want[i].Data.UnmarshalText([]byte(data)); err != nil {
			t.Fatal(err)
		}
		if i >= 0x0f {
			want[i].Owner = 0x31
		}
	}
	if diff := cmp.Diff(want, faultsSEL(t).events); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestARecordOfAReservedTypeIsAnEventByItsRevision(t *testing.T) {
	info := fixture(t, "faults-sel-info.txt")
	before, after, _ := strings.Cut(fixture(t, "faults-sel-list-verbose.txt"), "SEL Record ID          : 0009\n Record Type           : 02")
	for revision, want := range map[string]ipmi.EventType{"04": ipmi.SensorSpecific, "00": 0} {
		records := before + "SEL Record ID          : 0009\n Record Type           : 00" +
			strings.Replace(after, "EvM Revision          : 04", "EvM Revision          : "+revision, 1)
		s, err := parseSEL(info, fixture(t, "faults-sel-elist.txt"), records, info)
		if err != nil {
			t.Fatal(err)
		}
		if e := s.events[8]; e.ID != 9 || e.RecordType != 0 || e.EventType != want || (e.SensorName == "DIMM_A1") != (want != 0) {
			t.Errorf("revision %s: got %+v", revision, e)
		}
	}
}

func TestAnEmptySELHasNoEvents(t *testing.T) {
	for _, file := range []string{"healthy-sel-info.txt", "cleared-sel-info.txt"} {
		info := fixture(t, file)
		s, err := parseSEL(info, "", "", info)
		if err != nil || len(s.events) != 0 {
			t.Errorf("%s: got %v, %v", file, s.events, err)
		}
	}
}

func TestASELThatWasNotReadAsAWholeIsAnError(t *testing.T) {
	info := fixture(t, "faults-sel-info.txt")
	list, records := fixture(t, "faults-sel-elist.txt"), fixture(t, "faults-sel-list-verbose.txt")
	cut := func(text, at string) string {
		before, _, found := strings.Cut(text, at)
		if !found {
			t.Fatalf("no %q", at)
		}
		return before
	}
	for name, test := range map[string][4]string{
		"the list ends early":       {info, cut(list, "  19 |"), records, info},
		"the records end early":     {info, list, cut(records, "SEL Record ID          : 0019"), info},
		"an entry is not a line":    {info, strings.Replace(list, "05:48:33", "late", 1), records, info},
		"cleared while it was read": {info, list, "", fixture(t, "cleared-sel-info.txt")},
		"cleared after it was read": {info, list, records, fixture(t, "cleared-sel-info.txt")},
		"erased and logged again":   {info, list, records, strings.Replace(info, "Not Available", "11/21/26 05:48:33 UTC", 1)},
	} {
		s, err := parseSEL(test[0], test[1], test[2], test[3])
		if !errors.Is(err, ErrIncomplete) {
			t.Errorf("%s: got %d events, %v", name, len(s.events), err)
		}
	}
}

func TestARecordThatComesWhileTheSELIsReadIsLeftForTheNextTime(t *testing.T) {
	info := fixture(t, "faults-sel-info.txt")
	list, _, _ := strings.Cut(fixture(t, "faults-sel-elist.txt"), "  19 |")
	before := strings.Replace(info, "Entries          : 25", "Entries          : 24", 1)
	s, err := parseSEL(before, list, fixture(t, "faults-sel-list-verbose.txt"), info)
	if err != nil || s.unchanged || len(s.events) != 24 {
		t.Errorf("got %d events, unchanged %t, %v", len(s.events), s.unchanged, err)
	}
}

func TestEventsAreThoseAfterTheCursor(t *testing.T) {
	whole := faultsSEL(t)
	last := ipmi.Cursor{ID: 0x19, Read: true, Records: 25}
	at := func(id uint16, stamp uint32) ipmi.Cursor { return ipmi.Cursor{ID: id, Timestamp: stamp, Read: true} }
	erased := faultsSEL(t)
	erased.info.erased = 1700000000
	empty := sel{info: selInfo{erased: 1700000000}}
	for name, test := range map[string]struct {
		sel       sel
		after     ipmi.Cursor
		then      *selInfo
		events    int
		restarted bool
		next      ipmi.Cursor
	}{
		"all at first":                   {sel: whole, events: 25, next: last},
		"those that came later":          {sel: whole, after: at(0x16, 1795240113), events: 3, next: last},
		"none":                           {sel: whole, after: last, then: &whole.info, next: last},
		"another record with the ID":     {sel: whole, after: at(0x16, 1795240112), events: 25, restarted: true, next: last},
		"the cursor's record is gone":    {sel: whole, after: at(0x1a, 1795240113), events: 25, restarted: true, next: last},
		"no longer erased as it was":     {sel: erased, after: ipmi.Cursor{ID: 0x16, Timestamp: 1795240113, Read: true, Erased: 1600000000}, events: 25, restarted: true, next: ipmi.Cursor{ID: 0x19, Read: true, Erased: 1700000000, Records: 25}},
		"erased for the first time":      {sel: erased, after: at(0x16, 1795240113), then: &selInfo{}, events: 25, restarted: true, next: ipmi.Cursor{ID: 0x19, Read: true, Erased: 1700000000, Records: 25}},
		"erased as the cursor says":      {sel: erased, after: ipmi.Cursor{ID: 0x18, Read: true, Erased: 1700000000}, events: 1, next: ipmi.Cursor{ID: 0x19, Read: true, Erased: 1700000000, Records: 25}},
		"empty":                          {sel: empty, next: ipmi.Cursor{Erased: 1700000000}},
		"empty, and was not":             {sel: empty, after: last, restarted: true, next: ipmi.Cursor{Erased: 1700000000}},
		"grown before the last record":   {sel: whole, after: last, then: &selInfo{entries: 24}, events: 25, restarted: true, next: last},
		"written before the last record": {sel: whole, after: last, then: &selInfo{entries: 25, added: 7}, events: 25, restarted: true, next: last},
	} {
		t.Run(name, func(t *testing.T) {
			log := test.sel.since(test.after, test.then)
			if len(log.Events) != test.events || log.Restarted != test.restarted || log.Next != test.next {
				t.Errorf("got %d events, restarted %t, next %+v", len(log.Events), log.Restarted, log.Next)
			}
			if log.Total != test.sel.info.entries {
				t.Errorf("total %d", log.Total)
			}
		})
	}
}

func TestTheStateOfTheSELIsReadFromIPMItoolsWords(t *testing.T) {
	const stamp = 1795240113
	faults := fixture(t, "faults-sel-info.txt")
	for name, test := range map[string]struct {
		text string
		want selInfo
	}{
		"with events": {faults, selInfo{entries: 25, added: stamp}},
		"cleared":     {fixture(t, "cleared-sel-info.txt"), selInfo{added: stamp, erased: stamp}},
		"new":         {fixture(t, "healthy-sel-info.txt"), selInfo{}},
		"overflow":    {strings.Replace(faults, "false", "true", 1), selInfo{entries: 25, added: stamp, overflow: true}},
		"full":        {strings.Replace(faults, "15600 bytes", "0 bytes", 1), selInfo{entries: 25, added: stamp, full: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseSELInfo(test.text)
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
	for _, missing := range []string{"Entries", "Overflow", "Last Add Time", "Last Del Time"} {
		if got, err := parseSELInfo(strings.Replace(faults, missing, "X", 1)); err == nil {
			t.Errorf("without %s it is %+v", missing, got)
		}
	}
}

func TestGenericEventTypesAreToldApartByTheirWords(t *testing.T) {
	for _, test := range []struct {
		word        string
		offset      uint8
		description string
		want        ipmi.EventType
	}{
		{"Threshold", 9, "Upper Critical going high", ipmi.Threshold},
		{"Sensor-specific Discrete", 1, "Failure detected", ipmi.SensorSpecific},
		{"Generic Discrete", 1, "State Asserted", 0x03},
		{"Generic Discrete", 1, "Redundancy Lost", 0x0b},
		{"Generic Discrete", 0, "Redundancy Lost", 0},
		{"Generic Discrete", 1, "", 0},
		{"Reserved", 3, "D3 Power State", 0x0c},
		{"OEM", 1, "", 0},
		{"Unspecified", 1, "", 0},
	} {
		if got := recordEventType(test.word, powerUnit, test.offset, test.description); got != test.want {
			t.Errorf("%s, offset %d, %q: got %#02x, want %#02x", test.word, test.offset, test.description, got, test.want)
		}
	}
}

func TestARecordThatIsNotUnderstoodIsNotLeftOut(t *testing.T) {
	records := fixture(t, "faults-sel-list-verbose.txt")
	for _, broken := range []struct{ old, new string }{
		{": 0001", ": x001"},
		{"Record Type           : 02", "Record Type           : two"},
		{"Sensor Number         : 01", "Sensor Number         : one"},
		{"Event Data            : 576255", "Event Data            : 57625510"},
		{"Assertion Event", "Assertion"},
	} {
		text := strings.Replace(records, broken.old, broken.new, 1)
		if text == records {
			t.Fatalf("no %q", broken.old)
		}
		if _, err := parseSELRecords(text); err == nil {
			t.Errorf("%q is understood", broken.new)
		}
	}
}

func TestNamesOfSensorsAreNotTheirNumbers(t *testing.T) {
	for sensor, want := range map[string]string{
		"Fan FAN1":                "FAN1",
		"Fan":                     "",
		"Fan #0x02":               "",
		"Fan #ff":                 "",
		"Fan #1":                  "#1",
		"Fan L\xfcfter":           "Lüfter",
		"Cooling Device FAN1":     "", // of another type
		"Fan Fan Fan":             "Fan Fan",
		"Fan     padded    ":      "padded",
		"Fan #0x02 is not a name": "#0x02 is not a name",
	} {
		if got := (entry{sensor: sensor}).sensorName("Fan"); got != want {
			t.Errorf("%q: got %q, want %q", sensor, got, want)
		}
	}
}

func FuzzParseSELInfo(f *testing.F) {
	f.Add(fixture(f, "faults-sel-info.txt"))
	f.Add(fixture(f, "healthy-sel-info.txt"))
	f.Fuzz(func(t *testing.T, text string) {
		if info, err := parseSELInfo(text); err == nil && (info.entries < 0 || info.entries > 0xffff) {
			t.Errorf("%d entries", info.entries)
		}
	})
}

func FuzzParseSELList(f *testing.F) {
	f.Add(fixture(f, "faults-sel-elist.txt"))
	f.Fuzz(func(t *testing.T, text string) {
		entries := parseSELList(text)
		if lines := strings.Count(text, "\n") + 1; len(entries) > lines {
			t.Errorf("%d entries in %d lines", len(entries), lines)
		}
	})
}

func FuzzParseSELRecords(f *testing.F) {
	f.Add(fixture(f, "faults-sel-list-verbose.txt"))
	f.Fuzz(func(t *testing.T, text string) {
		records, err := parseSELRecords(text)
		if err != nil {
			return
		}
		if all := strings.Count(text, "SEL Record ID"); len(records) > all {
			t.Errorf("%d records of %d", len(records), all)
		}
		for _, r := range records {
			if r.event.Offset > 0x0f {
				t.Errorf("offset %d", r.event.Offset)
			}
		}
	})
}
