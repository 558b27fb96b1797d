package verdict_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// history drives a BMC by random bytes and knows which memory modules have to be
// reported.
type history struct {
	*bmc
	bytes *bytes.Reader
	lost  map[uint8]bool // number of the module's sensor; true: acknowledged
	whole bool           // whether all of the SEL is known to the watchers
}

func (h *history) next(n int) int {
	b, err := h.bytes.ReadByte()
	if err != nil {
		return 0
	}
	return int(b) % n
}

// noise is an event that has nothing to do with memory modules, power or the SEL.
func (h *history) noise() ipmi.Event {
	types := []ipmi.SensorType{temperature, voltage, fan, processor, supply, drive, interrupt, 0x12, 0x19, 0x21, 0x25, 0x29, 0xc1}
	eventTypes := []ipmi.EventType{ipmi.SensorSpecific, ipmi.Threshold, digital, redundancy, 0x07, 0x08, 0x72, 0}
	return ipmi.Event{
		RecordType:   uint8(2 + 0xc0*(h.next(8)/7)),
		SensorType:   types[h.next(len(types))],
		SensorNumber: uint8(h.next(9)),
		SensorName:   []string{"", "A", "Ä\x00", strings.Repeat("n", 100)}[h.next(4)],
		EventType:    eventTypes[h.next(len(eventTypes))],
		Offset:       uint8(h.next(18)),
		Asserted:     h.next(3) > 0,
		Owner:        []uint8{0, ipmi.BMCAddress, biosSMI, satellite}[h.next(4)],
		LUN:          uint8(h.next(2)),
		Data:         ipmi.EventData{uint8(h.next(256)), uint8(h.next(256)), uint8(h.next(256))},
	}
}

// step does one random thing.
func (h *history) step() {
	h.after(time.Duration(1+h.next(250)) * time.Second)
	switch h.next(22) {
	case 0, 1:
		module := uint8(0x40 + h.next(4))
		h.log(event(memory, module, 1))
		h.lost[module] = false
	case 2:
		h.log(ended(event(memory, uint8(0x40+h.next(4)), 1)))
	case 3:
		h.log(correctable())
	case 4, 5:
		h.log(h.noise())
	case 6, 7:
		s := &h.in.Sensors[h.next(len(h.in.Sensors))]
		s.States, s.Available = uint16(h.next(256)), h.next(4) > 0
	case 8:
		h.in.Chassis.DriveFault, h.in.Chassis.CoolingFault = h.next(2) > 0, h.next(2) > 0
	case 9:
		causes := []ipmi.RestartCause{ipmi.RestartUnknown, ipmi.RestartChassisControl, ipmi.RestartSoftReset, ipmi.RestartWatchdog}
		h.boot(causes[h.next(len(causes))])
	case 10:
		switchedOff(time.Duration(h.next(120)) * time.Minute)(h.bmc)
	case 18:
		if h.whole {
			unplugged(time.Hour)(h.bmc)
			h.lost = map[uint8]bool{}
		}
	case 11:
		h.clear()
		h.lost = map[uint8]bool{}
	case 12:
		if h.whole { // what was lost before it was read is not known
			h.sel, h.full = h.sel[len(h.sel)/2:], true
		}
	case 13:
		h.in.LogError = []error{nil, nil, errBMC}[h.next(3)]
	case 14:
		h.in.SensorsError = []error{nil, nil, errBMC}[h.next(3)]
	case 15:
		h.in.ChassisError = []error{nil, nil, errBMC}[h.next(3)]
	case 16:
		h.in.Chassis.PowerOn = h.next(3) > 0
	case 17:
		if h.whole {
			h.acknowledge(verdict.All)
			for module := range h.lost {
				h.lost[module] = true
			}
		}
	case 19:
		h.readsAtMost = h.next(20)
	case 20:
		if len(h.sel) > 1 && h.whole { // without the last one it is empty, as after a clear
			at := h.next(len(h.sel))
			h.sel = append(h.sel[:at:at], h.sel[at+1:]...)
			h.erased = max(uint32(h.in.Now.Unix()), h.erased+1)
		}
	case 21:
		serials := []string{"", "S-1", "S-2", "S-3", "0000"}
		h.in.Modules = modules("A1", serials[h.next(5)], "A2", serials[h.next(5)], "Memory 0x41", serials[h.next(5)])
		if h.next(2) > 0 {
			h.boot(ipmi.RestartPowerButton)
		}
	}
}

// reported returns the modules that v has, as lost.
func reported(v verdict.Verdict) map[uint8]bool {
	modules := map[uint8]bool{}
	for _, f := range v.Failures {
		var module uint8
		if _, err := fmt.Sscanf(f.Component, "Memory #0x%x", &module); err == nil {
			modules[module] = f.Acknowledged != nil
		}
	}
	return modules
}

// live plays a history with a restart before each judgement, beside one watcher
// that is never restarted.
func live(t *testing.T, data []byte) {
	t.Helper()
	h := &history{bmc: newBMC(t), bytes: bytes.NewReader(data), lost: map[uint8]bool{}}
	h.in.Now = start.Add(123456789).In(time.FixedZone("", 7200))
	h.in.BMC = &ipmi.DeviceID{Manufacturer: []uint32{0, 343, 674, 10876}[h.next(4)], Product: 112}
	var steady verdict.State
	h.save(steady)
	h.anew, h.whole = h.next(2) > 0, true
	for h.bytes.Len() > 0 {
		acknowledged := h.saved
		h.step()
		if !bytes.Equal(acknowledged, h.saved) {
			steady = steady.Acknowledge(verdict.All, "known", "alice", h.in.Now)
		}
		in := h.in
		if in.LogError == nil {
			in.Log = h.read(steady.Cursor())
			if h.readsAtMost > 0 {
				in.LogError = ipmi.ErrPartial
			}
		}
		var want verdict.Verdict
		want, steady = verdict.Judge(nil, steady, in)
		got := h.judge()
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(verdict.Failure{})); diff != "" {
			t.Fatalf("a restart changes the verdict (-without +with):\n%s", diff)
		}
		if text, err := json.Marshal(steady); err != nil || !bytes.Equal(text, h.saved) {
			t.Fatalf("a restart changes the state: %v\nwithout %s\nwith    %s", err, text, h.saved)
		}
		h.whole = h.in.LogError == nil && h.readsAtMost == 0 && !strings.Contains(got.Message, "the SEL is read once more")
		if modules := reported(got); h.whole && !maps.Equal(modules, h.lost) {
			t.Fatalf("modules reported (true: acknowledged): %v, want %v", modules, h.lost)
		}
		check(t, h, got)
	}
}

// check holds v against what is so for every verdict.
func check(t *testing.T, h *history, v verdict.Verdict) {
	t.Helper()
	if len(h.saved) > 1<<20 || len(v.Message) > verdict.MaxMessage || v.Reason == "" || v.Message == "" {
		t.Fatalf("state of %d bytes, %q, message of %d bytes", len(h.saved), v.Reason, len(v.Message))
	}
	blind := !h.whole || h.in.SensorsError != nil || h.in.ChassisError != nil || !h.in.Chassis.PowerOn
	if blind && v.Status == verdict.Healthy {
		t.Fatal("healthy, although not all could be read")
	}
	counts := slices.ContainsFunc(v.Failures, func(f verdict.Failure) bool {
		return f.Severity == verdict.SeverityFailure && f.Acknowledged == nil && !f.History
	})
	if counts && v.Status == verdict.Healthy || !counts && v.Status == verdict.Failed {
		t.Fatalf("%s with %+v", v.Status, v.Failures)
	}
}

func TestRestartsAtAnyPointOfAnyHistoryChangeNoVerdict(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 15 { // make fuzz tries others
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		live(t, data)
		if t.Failed() {
			return
		}
	}
}

func FuzzHistory(f *testing.F) {
	f.Add([]byte{10, 0, 1, 5, 11, 3, 12, 5, 17, 0, 0, 1})
	f.Add([]byte{1, 0, 0, 1, 9, 2, 1, 10, 1, 11, 1, 12, 1, 13, 2, 1, 0, 3, 1, 13, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		live(t, data)
	})
}

// A state may come from a file that somebody has edited.
func FuzzState(f *testing.F) {
	b := failed(f)
	b.sensor("PSU1 Status").States = 0
	b.log(correctable(), correctable())
	b.judge()
	b.acknowledge(verdict.All)
	f.Add(b.saved)
	f.Add([]byte(`{"version":1,"points":[{"type":12,"number":4,"eventType":1,"state":250,"asserted":true}],"parts":[{"type":4}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var state verdict.State
		if json.Unmarshal(data, &state) != nil {
			return
		}
		b := newBMC(t)
		b.log(uncorrectable())
		in := b.in
		in.Log = b.read(state.Cursor())
		_, next := verdict.Judge(nil, state.Acknowledge(7, "r", "b", start), in)
		if _, err := json.Marshal(next); err != nil {
			t.Error(err)
		}
	})
}

func TestAStateIsBoundedWhateverABMCTells(t *testing.T) {
	long := strings.Repeat("<", 300) // which JSON writes in six bytes
	for name, log := range map[string]func(b *bmc, sensor uint8){
		"many failures": func(b *bmc, sensor uint8) { b.log(named(long, event(memory, sensor, 1))) },
		"many rates": func(b *bmc, sensor uint8) {
			for i := range 110 {
				e := named(long, event(memory, sensor, 0))
				e.ID, e.Timestamp = uint16(60000+i), uint32(550_000_000+i)
				b.log(e)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.rules = verdict.Rules{{
				Name: "all", Match: verdict.Match{Event: "Correctable ECC"}, Severity: verdict.SeverityFailure,
				Rate: &verdict.Rate{Count: 100, Per: 24 * time.Hour},
			}}
			for i := range 256 {
				sensor := uint8(i)
				b.in.Sensors = append(b.in.Sensors,
					ipmi.Sensor{Name: long, Number: sensor, Type: drive, EventType: ipmi.SensorSpecific, Available: true, States: 1},
					ipmi.Sensor{Name: long, Number: sensor, Type: 0x25, EventType: ipmi.SensorSpecific, Available: true, States: 1},
					ipmi.Sensor{Name: long, Number: sensor, Type: memory, EventType: ipmi.Threshold, Available: true, States: 0xffff},
				)
				log(b, sensor)
			}
			b.judge()
			for i := range b.in.Sensors {
				b.in.Sensors[i].States = 0
			}
			v := b.judge()
			b.acknowledge(1)
			for i := range 256 {
				log(b, uint8(i))
			}
			b.judge()
			before := len(b.saved)
			b.save(b.state().Acknowledge(verdict.All, strings.Repeat(long, 9), long, start))
			if max(before, len(b.saved)) > verdict.MaxState || len(v.Message) > verdict.MaxMessage {
				t.Errorf("state of %d and %d bytes, message of %d bytes", before, len(b.saved), len(v.Message))
			}
			if again := b.judge(); again.Status != verdict.Healthy {
				t.Errorf("got %.200s", again.Message)
			}
			t.Logf("%d and %d bytes", before, len(b.saved))
		})
	}
}

func TestAStateOfAnotherVersionIsRefused(t *testing.T) {
	for _, text := range []string{`{}`, `{"version":2}`, `[]`, `{"version":1,"points":{}}`} {
		var state verdict.State
		if err := json.Unmarshal([]byte(text), &state); err == nil {
			t.Errorf("accepted: %s", text)
		}
	}
}

func TestJudgingDoesNotChangeTheStateBefore(t *testing.T) {
	b := failed(t)
	for range 10 {
		b.log(correctable())
	}
	b.judge()
	b.sensor("PSU2 Status").States = 0
	b.judge()
	before := b.state()
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		b.log(correctable(), uncorrectable())
	}
	b.sensor("PSU2 Status").States = 1
	in := b.boot(ipmi.RestartPowerButton).in
	in.Log = b.read(before.Cursor())
	verdict.Judge(nil, before, in)
	if after, err := json.Marshal(before); err != nil || !bytes.Equal(text, after) {
		t.Errorf("got %s, %v; want %s", after, err, text)
	}
}

func BenchmarkJudge(b *testing.B) {
	server := newBMC(b)
	for i := range 300 {
		server.in.Sensors = append(server.in.Sensors, ipmi.Sensor{
			Name: fmt.Sprintf("T%d", i), Number: uint8(i), Type: ipmi.SensorType(1 + i%5), EventType: ipmi.Threshold, Available: true, Reading: new(1.0),
		})
	}
	_, state := verdict.Judge(nil, verdict.State{}, server.in)
	for b.Loop() {
		verdict.Judge(nil, state, server.in)
	}
}
