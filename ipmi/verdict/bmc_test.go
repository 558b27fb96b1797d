package verdict_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// Sensor types and generic event types of the tests.
const (
	temperature ipmi.SensorType = 0x01
	voltage     ipmi.SensorType = 0x02
	fan         ipmi.SensorType = 0x04
	processor   ipmi.SensorType = 0x07
	supply      ipmi.SensorType = 0x08
	powerUnit   ipmi.SensorType = 0x09
	memory      ipmi.SensorType = 0x0c
	drive       ipmi.SensorType = 0x0d
	logging     ipmi.SensorType = 0x10
	interrupt   ipmi.SensorType = 0x13
	systemBoot  ipmi.SensorType = 0x1d
	acpi        ipmi.SensorType = 0x22
	watchdog    ipmi.SensorType = 0x23

	digital    ipmi.EventType = 0x03
	redundancy ipmi.EventType = 0x0b
)

var start = time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC)

var errBMC = errors.New("no answer from the BMC")

// bmc is a BMC with a SEL, and the memory of who watches it. Every judgement goes
// through a restart: the state is kept as JSON.
type bmc struct {
	t     testing.TB
	rules verdict.Rules
	in    verdict.Input
	saved []byte

	sel    []ipmi.Event
	nextID uint16
	erased uint32
	full   bool
	// readsAtMost is up to which record there is time to read; 0: all.
	readsAtMost int
	// anew makes the source read the whole SEL after anything was erased from it.
	anew bool
	// over are the transports over which it is read, too; nil: none.
	over *transports
}

// newBMC returns one with two power supplies, a fan, a processor with a temperature
// and memory modules, all well.
func newBMC(t testing.TB) *bmc {
	b := &bmc{t: t, nextID: 1, erased: 1000}
	b.in = verdict.Input{
		Now: start, BootID: "boot 1",
		Chassis: ipmi.Chassis{PowerOn: true, RestartCause: ipmi.RestartChassisControl},
		Sensors: []ipmi.Sensor{
			{Name: "CPU0 Temp", Number: 1, Type: temperature, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 3, Instance: 1}, Available: true, Reading: new(45.0), Unit: "degrees C"},
			{Name: "FAN1", Number: 2, Type: fan, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 29, Instance: 1}, Available: true, Reading: new(5400.0), Unit: "RPM"},
			{Name: "PSU1 Status", Number: 3, Type: supply, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 10, Instance: 1}, Available: true, States: 1},
			{Name: "DIMM_A1", Number: 4, Type: memory, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 32, Instance: 1}, Available: true},
			{Name: "Disk0", Number: 5, Type: drive, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 26, Instance: 1}, Available: true, States: 1},
			{Name: "CPU0 Status", Number: 6, Type: processor, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 3, Instance: 1}, Available: true, States: 1 << 7},
			{Name: "PSU2 Status", Number: 7, Type: supply, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 10, Instance: 2}, Available: true, States: 1},
		},
	}
	return b
}

// sensor returns the sensor of a name.
func (b *bmc) sensor(name string) *ipmi.Sensor {
	b.t.Helper()
	for i := range b.in.Sensors {
		if b.in.Sensors[i].Name == name {
			return &b.in.Sensors[i]
		}
	}
	b.t.Fatalf("no sensor %q", name)
	return nil
}

// unavailable takes the reading of a sensor away.
func (b *bmc) unavailable(name string) {
	s := b.sensor(name)
	s.Available, s.Reading, s.States = false, nil, 0
}

// pull takes a power supply or a drive away, of which the SEL tells.
func (b *bmc) pull(name string) {
	s := b.sensor(name)
	b.log(ended(named(name, event(s.Type, s.Number, 0))))
	s.States = 0
}

// log adds records to the SEL, one each second, which is what makes them have an ID and a
// time.
func (b *bmc) log(events ...ipmi.Event) {
	for i, e := range events {
		if e.ID == 0 {
			e.ID = b.nextID
			b.nextID++
		}
		if e.RecordType == 0 {
			e.RecordType = 2
		}
		if e.Data == (ipmi.EventData{}) && e.OfSensor() {
			e.Data = ipmi.EventData{e.Offset, 0xff, 0xff}
		}
		if e.Timestamp == 0 {
			e.Time = b.in.Now.Add(time.Duration(i) * time.Second)
			e.Timestamp = uint32(e.Time.Unix())
		}
		b.sel = append(b.sel, e)
	}
}

// clear empties the SEL.
func (b *bmc) clear() {
	b.sel, b.full, b.nextID = nil, false, 1
	b.erased = max(uint32(b.in.Now.Unix()), b.erased+1)
}

// state returns what is remembered.
func (b *bmc) state() (s verdict.State) {
	b.t.Helper()
	if b.saved == nil {
		return verdict.State{}
	}
	if err := json.Unmarshal(b.saved, &s); err != nil {
		b.t.Fatal(err)
	}
	return s
}

// read returns the SEL after the cursor, as a source does.
func (b *bmc) read(after ipmi.Cursor) ipmi.EventLog {
	log := ipmi.EventLog{Total: len(b.sel), Full: b.full}
	first := 0
	if after.Read {
		at := slices.IndexFunc(b.sel, func(e ipmi.Event) bool { return e.ID == after.ID && e.Timestamp == after.Timestamp })
		log.Restarted = at < 0 || b.anew && after.Erased != b.erased
		if !log.Restarted {
			first = at + 1
		}
	}
	end := len(b.sel)
	if b.readsAtMost > 0 {
		end = min(end, max(first, b.readsAtMost))
	}
	log.Events = slices.Clone(b.sel[first:end])
	log.Next.Erased = b.erased
	if end > 0 {
		last := b.sel[end-1]
		log.Next = ipmi.Cursor{ID: last.ID, Timestamp: last.Timestamp, Erased: b.erased, Read: true}
	}
	return log
}

// judge reads everything and judges it, with a restart before and after.
func (b *bmc) judge() verdict.Verdict {
	b.t.Helper()
	state := b.state()
	in := b.in
	in.Sensors = slices.Clone(b.in.Sensors)
	if state.KnowsBMC() {
		in.BMC = nil // is not asked again
	}
	if in.LogError == nil || errors.Is(in.LogError, ipmi.ErrPartial) {
		in.Log = b.read(state.Cursor())
		if b.readsAtMost > 0 {
			in.LogError = ipmi.ErrPartial
		}
	}
	v, next := verdict.Judge(b.rules, state, in)
	over := b.over
	b.over = nil // save is for what people do
	b.save(next)
	if b.over = over; over != nil {
		over.judge(b, v)
	}
	b.reads(v)
	return v
}

// reads checks that a message tells whoever reads it of all that counts.
func (b *bmc) reads(v verdict.Verdict) {
	b.t.Helper()
	if strings.HasSuffix(v.Message, " more") {
		return
	}
	said := map[string]bool{}
	for _, s := range verdict.ReadMessage(v.Message) {
		said[s.Component] = said[s.Component] || !s.Aside
	}
	for _, f := range v.Failures {
		if counts := f.Severity == verdict.SeverityFailure && f.Acknowledged == nil && !f.History; counts && !said[f.Component] {
			b.t.Errorf("%q is not read in %q", f.Component, v.Message)
		}
	}
}

func (b *bmc) save(s verdict.State) {
	b.t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		b.t.Fatal(err)
	}
	b.saved = data
	if b.over != nil {
		b.over.saved = data
	}
}

// forget loses what is remembered.
func (b *bmc) forget() {
	b.saved = nil
	if b.over != nil {
		b.over.saved = nil
	}
}

// after lets time pass.
func (b *bmc) after(d time.Duration) *bmc {
	b.in.Now = b.in.Now.Add(d)
	return b
}

// watch lets time pass during which the server is looked at every five minutes, or once if it
// is less.
func (b *bmc) watch(d time.Duration) *bmc {
	const interval = 5 * time.Minute
	for ; d > interval; d -= interval {
		b.after(interval).judge()
	}
	return b.after(d)
}

// boot starts another kernel.
func (b *bmc) boot(cause ipmi.RestartCause) *bmc {
	b.after(5 * time.Minute)
	b.in.BootID = fmt.Sprintf("boot at %d", b.in.Now.Unix())
	b.in.Chassis.RestartCause = cause
	return b
}

// acknowledge is what a person does.
func (b *bmc) acknowledge(until uint16) {
	over := b.over
	b.over = nil // has a state of its own
	b.save(b.state().Acknowledge(until, "known", "alice", b.in.Now))
	if b.over = over; over != nil {
		over.acknowledge(until, b.in.Now)
	}
}

// outline is a verdict in short: status, reason and what counts.
func outline(v verdict.Verdict) string {
	parts := []string{string(v.Status), v.Reason}
	for _, f := range v.Failures {
		text := f.Component + " " + f.What
		switch {
		case f.Acknowledged != nil:
			text = "(" + text + ")"
		case f.History:
			text = "[" + text + "]"
		case f.Severity == verdict.SeverityWarning:
			text = "warning " + text
		case f.Unconfirmed:
			text += "?"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " | ")
}

// once wants that of a single look.
func (b *bmc) once(want string) {
	b.t.Helper()
	if got := outline(b.judge()); got != want {
		b.t.Errorf("once: got  %.400s\nwant %s", got, want)
	}
}

// expect wants a judgement to have that outline.
func (b *bmc) expect(want string) {
	b.t.Helper()
	if got := outline(b.judge()); got != want {
		b.t.Errorf("got  %.400s\nwant %s", got, want)
	}
}

// flagRules make failures of the flags of the chassis, for those who want that.
func flagRules(flags ...string) (rules verdict.Rules) {
	for _, flag := range flags {
		rules = append(rules, verdict.Rule{Name: flag, Match: verdict.Match{Chassis: flag}, Severity: verdict.SeverityFailure})
	}
	return rules
}

const healthy = "healthy | HardwareHealthy"

func event(t ipmi.SensorType, number, offset uint8) ipmi.Event {
	return ipmi.Event{SensorType: t, SensorNumber: number, EventType: ipmi.SensorSpecific, Offset: offset, Asserted: true}
}

func named(name string, e ipmi.Event) ipmi.Event {
	e.SensorName = name
	return e
}

func ended(e ipmi.Event) ipmi.Event {
	e.Asserted = false
	return e
}

// from is what somebody else than the BMC has logged: another controller, or with an odd
// software ID a BIOS.
func from(owner uint8, e ipmi.Event) ipmi.Event {
	e.Owner = owner
	return e
}

// with has event data, the first byte of which holds the offset.
func with(data ipmi.EventData, e ipmi.Event) ipmi.Event {
	e.Data, e.Offset = data, data[0]&0xf
	return e
}

func of(eventType ipmi.EventType, e ipmi.Event) ipmi.Event {
	e.EventType = eventType
	return e
}

// Events of the healthy server's sensors.
func uncorrectable() ipmi.Event { return named("DIMM_A1", event(memory, 4, 1)) }
func correctable() ipmi.Event   { return named("DIMM_A1", event(memory, 4, 0)) }
func supplyFailed() ipmi.Event  { return named("PSU1 Status", event(supply, 3, 1)) }
