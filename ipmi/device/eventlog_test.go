package device_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/test/bmc"
)

func readEvents(t *testing.T, d *device.Device, after ipmi.Cursor) ipmi.EventLog {
	t.Helper()
	log, err := d.Events(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// check reads the events after the cursor, compares their IDs, and returns the next
// cursor.
func check(t *testing.T, d *device.Device, after ipmi.Cursor, restarted bool, ids ...uint16) ipmi.Cursor {
	t.Helper()
	log := readEvents(t, d, after)
	var got []uint16
	for _, e := range log.Events {
		got = append(got, e.ID)
	}
	if !slices.Equal(got, ids) || log.Restarted != restarted {
		t.Errorf("events %d, restarted %t; want %d, %t", got, log.Restarted, ids, restarted)
	}
	return log.Next
}

// logN logs as many events of a DIMM.
func logN(b *bmc.BMC, n int) {
	for range n {
		b.Log(bmc.Event{Type: 0x0c, Number: 0x04})
	}
}

func TestEventsAreDecodedAndNamed(t *testing.T) {
	b := smallServer()
	b.AddSensor(bmc.Sensor{Number: 0x04, LUN: 1, Name: "DIMM_B1", Type: 0x0c})
	b.Log(bmc.Event{Type: 0x0c, Number: 0x04, Data: [3]uint8{1, 0xff, 0xff}, Deasserted: true})
	b.Log(bmc.Event{Generator: 0x41, Type: 0x0c, Number: 0x04, Data: [3]uint8{0, 0xff, 0xff}}) // a BIOS
	b.Log(bmc.Event{Generator: 0x20, LUN: 1, Type: 0x0c, Number: 0x04, Data: [3]uint8{0, 0xff, 0xff}})
	b.LogRecord([16]byte{2: 0xc0})
	var got []string
	for _, e := range readEvents(t, open(t, b), ipmi.Cursor{}).Events {
		if e.RecordType != ipmi.SystemEvent {
			got = append(got, "OEM")
			continue
		}
		direction := " deasserted"
		if e.Asserted {
			direction = " asserted"
		}
		got = append(got, e.SensorName+": "+e.StateName()+direction)
	}
	want := []string{"DIMM_A1: Uncorrectable ECC asserted", "DIMM_A1: Uncorrectable ECC deasserted", ": Correctable ECC asserted", "DIMM_B1: Correctable ECC asserted", "OEM"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestOnlyNewEventsAreRead(t *testing.T) {
	b := smallServer()
	logN(b, 99)
	d := open(t, b)
	cursor := readEvents(t, d, ipmi.Cursor{}).Next
	b.TakeCounts()

	cursor = check(t, d, cursor, false)
	if diff := cmp.Diff(map[bmc.Command]int{bmc.GetSELInfo: 1}, b.TakeCounts()); diff != "" {
		t.Errorf("commands without a new event (-want +got):\n%s", diff)
	}

	logN(b, 2)
	cursor = check(t, d, cursor, false, 101, 102)
	want := map[bmc.Command]int{bmc.GetSELInfo: 2, bmc.GetSELEntry: 3}
	if diff := cmp.Diff(want, b.TakeCounts()); diff != "" {
		t.Errorf("commands for two new events (-want +got):\n%s", diff)
	}
	check(t, d, cursor, false)
}

func TestACursorOutlivesTheSource(t *testing.T) {
	b := smallServer()
	cursor := check(t, open(t, b), ipmi.Cursor{}, false, 1)
	cursor = check(t, open(t, b), cursor, false)
	logN(b, 1)
	check(t, open(t, b), cursor, false, 2)
}

func TestIDsNeedNotBeContiguousNorAscending(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.SkipIDs(0x0100)
	logN(b, 1)
	b.SkipIDs(0xfffd)
	logN(b, 1)
	d := open(t, b)
	cursor := check(t, d, ipmi.Cursor{}, false, 0x0100, 0xfffd)
	logN(b, 2)
	check(t, d, cursor, false, 0xfffe, 0x0001)
}

func TestAClearedSELIsToldFromOneThatHasGrown(t *testing.T) {
	tests := map[string]func(b *bmc.BMC){
		"cleared":                                     func(b *bmc.BMC) { b.SetClock(50); b.ClearSEL() },
		"cleared at the second of a log":              func(b *bmc.BMC) { b.ClearSEL(); b.SetClock(11); logN(b, 3) },
		"cleared and filled again":                    func(b *bmc.BMC) { b.SetClock(50); b.ClearSEL(); logN(b, 3) },
		"cleared, with the clock of the cursor again": func(b *bmc.BMC) { b.SetClock(5); b.ClearSEL(); b.SetClock(10); logN(b, 4) },
		"our last record deleted":                     func(b *bmc.BMC) { b.SetClock(50); b.DeleteSEL(3) },
		"an earlier record deleted":                   func(b *bmc.BMC) { b.SetClock(50); b.DeleteSEL(1) },
	}
	for name, change := range tests {
		for _, restart := range []bool{false, true} {
			b := bmc.New(bmc.Config{})
			b.SetClock(10)
			logN(b, 3)
			d := open(t, b)
			cursor := check(t, d, ipmi.Cursor{}, false, 1, 2, 3)
			change(b)
			if restart {
				d = open(t, b)
			}
			log := readEvents(t, d, cursor)
			all := readEvents(t, open(t, b), ipmi.Cursor{})
			if !log.Restarted || len(log.Events) != len(all.Events) {
				t.Errorf("%s, restart %t: restarted %t, %d events of %d", name, restart, log.Restarted, len(log.Events), len(all.Events))
			}
			check(t, d, log.Next, false)
			logN(b, 1)
			if log := readEvents(t, d, log.Next); log.Restarted || len(log.Events) != 1 {
				t.Errorf("%s, restart %t: then %+v", name, restart, log)
			}
		}
	}
}

func TestAnEmptySELHasNoEvents(t *testing.T) {
	b := bmc.New(bmc.Config{})
	d := open(t, b)
	cursor := check(t, d, ipmi.Cursor{}, false)
	cursor = check(t, d, cursor, false)
	logN(b, 1)
	check(t, d, cursor, false, 1)
}

func TestAFullSELIsFull(t *testing.T) {
	b := bmc.New(bmc.Config{SELCapacity: 3})
	d := open(t, b)
	logN(b, 3)
	log := readEvents(t, d, ipmi.Cursor{})
	if log.Full || log.Total != 3 {
		t.Errorf("before a record is lost: %+v", log)
	}
	logN(b, 1)
	log = readEvents(t, d, log.Next)
	if !log.Full || log.Total != 3 || log.Restarted || len(log.Events) != 0 {
		t.Errorf("after a record is lost: %+v", log)
	}
}

func TestAWrappingSELIsReadOn(t *testing.T) {
	b := bmc.New(bmc.Config{SELCapacity: 3, Circular: true})
	d := open(t, b)
	logN(b, 3)
	cursor := check(t, d, ipmi.Cursor{}, false, 1, 2, 3)
	// In the same second, so that the SEL looks as before.
	logN(b, 2)
	cursor = check(t, d, cursor, false, 4, 5)
	logN(b, 3) // the cursor's record is overwritten
	check(t, d, cursor, true, 6, 7, 8)
}

func TestASELThatIsNotInTheOrderOfTimeIsReadWhole(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.SkipIDs(5)
	logN(b, 1)
	d := open(t, b)
	reversed := &reversedSEL{bmc: b}
	b.SetHook(reversed.hook)
	cursor := check(t, d, ipmi.Cursor{}, false, 5)
	b.SkipIDs(4)
	logN(b, 1)
	check(t, d, cursor, true, 4, 5)
}

// reversedSEL returns the newest record first, each with the ID above its own next.
type reversedSEL struct{ bmc *bmc.BMC }

func (r *reversedSEL) hook(command bmc.Command, data []byte) []byte {
	if command != bmc.GetSELEntry {
		return nil
	}
	data = slices.Clone(data)
	if data[2] == 0 {
		data[2], data[3] = 0xff, 0xff // the newest
	}
	r.bmc.SetHook(nil)
	defer r.bmc.SetHook(r.hook)
	answer := r.bmc.Handle(0x0a, 0, 0x43, data)
	answer[1], answer[2] = 0xff, 0xff
	if answer[3] == 4 {
		answer[1], answer[2] = 5, 0
	}
	return answer
}

func TestASELThatLoopsIsReadOnce(t *testing.T) {
	b := bmc.New(bmc.Config{})
	logN(b, 3)
	var hook bmc.Hook
	hook = func(command bmc.Command, data []byte) []byte {
		if command != bmc.GetSELEntry || data[2] != 3 {
			return nil
		}
		b.SetHook(nil)
		defer b.SetHook(hook)
		answer := b.Handle(0x0a, 0, 0x43, data)
		answer[1], answer[2] = 2, 0 // next
		return answer
	}
	b.SetHook(hook)
	check(t, open(t, b), ipmi.Cursor{}, false, 1, 2, 3)
}

func TestRecordsAreReadInThePiecesThatTheBMCReturns(t *testing.T) {
	for _, size := range []int{1, 3, 8, 15, 16} {
		b := bmc.New(bmc.Config{MaxSELRead: size})
		logN(b, 3)
		check(t, open(t, b), ipmi.Cursor{}, false, 1, 2, 3)
	}
}

func TestALostReservationOfTheSELIsTakenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bmc.New(bmc.Config{MaxSELRead: 8})
		logN(b, 3)
		requests := 0
		b.SetHook(func(command bmc.Command, _ []byte) []byte {
			if command == bmc.GetSELEntry {
				requests++
				if requests%4 == 0 {
					b.CancelReservations()
				}
			}
			return nil
		})
		check(t, open(t, b), ipmi.Cursor{}, false, 1, 2, 3)
	})
}

// atEntry calls change before the BMC answers the n-th Get SEL Entry.
func atEntry(b *bmc.BMC, n int, change func()) {
	b.SetHook(func(command bmc.Command, _ []byte) []byte {
		if command == bmc.GetSELEntry {
			n--
			if n == 0 {
				change()
			}
		}
		return nil
	})
}

func TestASELThatChangesWhileItIsReadIsReadAgain(t *testing.T) {
	b := bmc.New(bmc.Config{})
	logN(b, 5)
	d := open(t, b)
	atEntry(b, 3, func() { b.SetClock(50); b.ClearSEL(); b.SkipIDs(100); logN(b, 2) })
	cursor := check(t, d, ipmi.Cursor{}, false, 100, 101)

	atEntry(b, 2, func() { b.SetClock(60); b.DeleteSEL(103) })
	logN(b, 3)
	cursor = check(t, d, cursor, true, 100, 101, 102, 104)

	atEntry(b, 1, func() { b.SetClock(70); logN(b, 1) })
	logN(b, 1)
	cursor = check(t, d, cursor, false, 105, 106)
	cursor = check(t, d, cursor, false)
	logN(b, 1)
	check(t, d, cursor, false, 107)
}

func TestASELOfABMCThatDoesNotTellWhenItWasErasedIsReadAgain(t *testing.T) {
	b := bmc.New(bmc.Config{})
	b.SetClock(10)
	b.ClearSEL()
	logN(b, 5)
	d := open(t, b)
	atEntry(b, 3, func() { b.ClearSEL(); b.SkipIDs(100); logN(b, 2) })
	cursor := check(t, d, ipmi.Cursor{}, false, 100, 101)

	b.ClearSEL()
	b.SetClock(12)
	b.SkipIDs(100)
	logN(b, 3)
	check(t, d, cursor, true, 100, 101, 102)
}

func TestASELThatIsClearedAgainAndAgainIsAnError(t *testing.T) {
	b := bmc.New(bmc.Config{})
	logN(b, 5)
	clock := uint32(50)
	b.SetHook(func(command bmc.Command, _ []byte) []byte {
		if command == bmc.GetSELEntry {
			clock++
			b.SetClock(clock)
			b.ClearSEL()
			logN(b, 1)
		}
		return nil
	})
	if log, err := open(t, b).Events(t.Context(), ipmi.Cursor{}); err == nil {
		t.Errorf("Events = %+v", log)
	}
}

func TestEventsAreReadWithoutTheirNamesIfTheSDRsCanNotBe(t *testing.T) {
	b := smallServer()
	b.Fail(bmc.GetSDR, uint8(ipmi.NoResponse), -1)
	if log := readEvents(t, open(t, b), ipmi.Cursor{}); len(log.Events) != 1 || log.Events[0].SensorName != "" {
		t.Errorf("Events = %+v", log)
	}
}

// A BMC that once says a wrong next record must not hide those after it (IPMI 2.0, section
// 31.5).
func TestAWrongNextRecordOnceDoesNotEndTheReading(t *testing.T) {
	for _, lie := range []struct {
		name     string
		of, next uint16 // what it says once
		first    bool   // in the first reading, else in that of new records
		always   bool
		want     []uint16
	}{
		{name: "the end too early", of: 2, next: 0xffff, first: true, want: []uint16{1, 2, 3, 4, 5}},
		{name: "the end at once", of: 1, next: 0xffff, first: true, want: []uint16{1, 2, 3, 4, 5}},
		{name: "back to the first one", of: 3, next: 1, first: true, want: []uint16{1, 2, 3, 4, 5}},
		{name: "itself", of: 3, next: 3, first: true, want: []uint16{1, 2, 3, 4, 5}},
		{name: "too far ahead", of: 2, next: 5, first: true, want: []uint16{1, 2, 3, 4, 5}},
		{name: "one that is not there", of: 2, next: 77, first: true, want: []uint16{1, 2, 3, 4, 5}},
		{name: "nothing new", of: 5, next: 0xffff, want: []uint16{6, 7, 8}},
		{name: "too few new ones", of: 6, next: 0xffff, want: []uint16{6, 7, 8}},
		{name: "one of the new ones left out", of: 6, next: 8, want: []uint16{6, 7, 8}},
		{name: "always the end, so the BMC counts in a way of its own", of: 2, next: 0xffff, first: true, always: true, want: []uint16{1, 2}},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %t", lie.name, restart), func(t *testing.T) {
				b := bmc.New(bmc.Config{})
				logN(b, 5)
				d := open(t, b)
				told := false
				var hook bmc.Hook
				hook = func(command bmc.Command, data []byte) []byte {
					if command != bmc.GetSELEntry || told && !lie.always {
						return nil
					}
					b.SetHook(nil)
					defer b.SetHook(hook)
					answer := b.Handle(0x0a, 0, 0x43, data)
					if len(answer) > 4 && answer[3] == byte(lie.of) {
						told = true
						answer[1], answer[2] = byte(lie.next), byte(lie.next>>8)
					}
					return answer
				}
				if lie.first {
					b.SetHook(hook)
					cursor := check(t, d, ipmi.Cursor{}, false, lie.want...)
					check(t, d, cursor, false)
					return
				}
				cursor := check(t, d, ipmi.Cursor{}, false, 1, 2, 3, 4, 5)
				if restart {
					d = open(t, b)
				}
				b.SetHook(hook)
				logN(b, 3)
				cursor = check(t, d, cursor, false, lie.want...)
				check(t, d, cursor, false)
			})
		}
	}
}
