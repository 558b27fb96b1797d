package verdict_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/remote"
	"github.com/nodemend/nodemend/ipmi/verdict"
	double "github.com/nodemend/nodemend/test/bmc"
	"github.com/nodemend/nodemend/test/bmc/bmctest"
)

// transports play a scenario by what is read over each transport of a BMC that holds the
// same. The verdict has to be the same, too.
type transports struct {
	t    testing.TB
	bmc  *double.BMC
	open map[string]func() (ipmi.Source, error)
	// saved is what is remembered of what was read.
	saved []byte
	// failing are the sensors whose reading fails.
	failing map[uint8]bool
	// fresh is whether something has happened since all transports were asked: between, only
	// the quickest is.
	fresh bool
}

// others opens further transports, for those who have the program.
var others = func(testing.TB, *double.BMC) map[string]func() (ipmi.Source, error) { return nil }

func newTransports(t testing.TB) *transports {
	x := &transports{t: t, bmc: double.New(double.Config{}), open: map[string]func() (ipmi.Source, error){}, failing: map[uint8]bool{}}
	x.bmc.SetHook(func(command double.Command, data []byte) []byte {
		if command == double.GetSensorReading && len(data) > 0 && x.failing[data[0]] {
			return []byte{0xff}
		}
		return nil
	})
	login := bmctest.LAN(t, x.bmc)
	x.open["lan"] = func() (ipmi.Source, error) {
		return remote.New(remote.Options{Host: login.Host, Port: login.Port, User: login.User, PasswordFile: login.PasswordFile})
	}
	for name, open := range others(t, x.bmc) {
		x.open[name] = open
	}
	return x
}

// judge judges what is read, and compares it with the verdict on what was to be read.
func (x *transports) judge(b *bmc, want verdict.Verdict) {
	x.t.Helper()
	if !x.hold(b) { // a transport can't be made to tell that
		x.saved = b.saved
		return
	}
	state := x.state()
	in := x.read(b, state, device.New("double", x.bmc.Transport(), clock.RealClock{}))
	got, next := verdict.Judge(b.rules, state, in)
	if outline(got) != outline(want) {
		x.t.Errorf("by the device: got  %.400s\nwant %s", outline(got), outline(want))
	}
	x.save(next)
	if !x.fresh {
		return
	}
	x.fresh = false
	for name, open := range x.open {
		source, err := open()
		if err != nil {
			x.t.Fatal(err)
		}
		if diff := cmp.Diff(in, x.read(b, state, source), cmp.Comparer(func(a, b error) bool { return (a == nil) == (b == nil) })); diff != "" {
			x.t.Errorf("-device +%s:\n%s", name, diff)
		}
	}
}

// state returns what is remembered.
func (x *transports) state() (s verdict.State) {
	x.t.Helper()
	if x.saved == nil {
		return s
	}
	if err := json.Unmarshal(x.saved, &s); err != nil {
		x.t.Fatal(err)
	}
	return s
}

func (x *transports) save(s verdict.State) {
	x.t.Helper()
	saved, err := json.Marshal(s)
	if err != nil {
		x.t.Fatal(err)
	}
	x.saved = saved
}

// acknowledge is what a person does.
func (x *transports) acknowledge(until uint16, now time.Time) {
	x.t.Helper()
	x.save(x.state().Acknowledge(until, "known", "alice", now))
}

// read reads what a verdict needs.
func (x *transports) read(b *bmc, state verdict.State, source ipmi.Source) verdict.Input {
	x.t.Helper()
	defer func() {
		if err := source.Close(); err != nil {
			x.t.Error(err)
		}
	}()
	in := verdict.Input{Now: b.in.Now, Watched: b.in.Watched, BootID: b.in.BootID, Modules: b.in.Modules}
	if b.in.BMC != nil {
		id, err := source.DeviceID(x.t.Context())
		if err != nil {
			x.t.Fatal(err)
		}
		in.BMC = &id
	}
	if state.KnowsBMC() {
		in.BMC = nil
	}
	in.Log, in.LogError = source.Events(x.t.Context(), state.Cursor())
	in.Chassis, in.ChassisError = source.Chassis(x.t.Context())
	in.Sensors, in.SensorsError = source.Sensors(x.t.Context())
	source.Rest()
	return in
}

// hold has the BMC hold what b does; false if it can't.
func (x *transports) hold(b *bmc) bool {
	if b.in.LogError != nil || b.in.SensorsError != nil || b.in.ChassisError != nil || b.readsAtMost > 0 {
		return false
	}
	maker := ipmi.DeviceID{Manufacturer: 0xfffff}
	if b.in.BMC != nil {
		maker = *b.in.BMC
	}
	x.bmc.SetMaker(maker.Manufacturer, maker.Product)
	x.bmc.ResetSDRs()
	clear(x.failing)
	known, numbers := map[string]bool{}, map[uint8]bool{}
	for _, s := range b.in.Sensors {
		encoded, ok := x.sensor(s)
		if !ok || numbers[s.Number] {
			return false
		}
		numbers[s.Number] = true
		x.bmc.AddSensor(encoded)
		known[fmt.Sprint(owner(s.Owner), s.LUN, s.Type, s.Number)] = true
	}
	var records [][16]byte
	for _, e := range b.sel {
		records = append(records, encode(e))
		key := fmt.Sprint(owner(e.Owner), e.LUN, e.SensorType, e.SensorNumber)
		if known[key] || e.SensorName == "" {
			continue
		}
		if !plain(e.SensorName) {
			return false
		}
		known[key] = true
		x.bmc.AddSDR(0x03, append([]byte{
			owner(e.Owner), e.LUN, e.SensorNumber, 0, 0, uint8(e.SensorType), uint8(e.EventType), 0, 0, 0, 0, 0xc0 | uint8(len(e.SensorName)),
		}, e.SensorName...))
	}
	x.bmc.SetSEL(records, b.erased, b.full)
	x.chassis(b.in.Chassis)
	return true
}

// owner is who has a sensor, the BMC if nobody is named.
func owner(address uint8) uint8 {
	if address == 0 {
		return ipmi.BMCAddress
	}
	return address
}

// plain reports whether a record can have that name.
func plain(name string) bool {
	return name != "" && len(name) < 0x1f && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
}

// sensor returns how the BMC has a sensor; false if it can't have it.
func (x *transports) sensor(s ipmi.Sensor) (double.Sensor, bool) {
	encoded := double.Sensor{
		Number: s.Number, Name: s.Name, Type: uint8(s.Type), EventType: uint8(s.EventType), Entity: [2]uint8{s.Entity.ID, s.Entity.Instance},
		States: s.States, Unavailable: !s.Available,
	}
	if !plain(s.Name) || owner(s.Owner) != ipmi.BMCAddress || s.LUN != 0 || s.Available && s.Problem != "" {
		return encoded, false
	}
	x.failing[s.Number] = s.Problem != ""
	units, known := map[string]uint8{"": 0, "degrees C": 1, "Volts": 4, "RPM": 18}[s.Unit]
	switch {
	case !known:
		return encoded, false
	case s.Reading != nil:
		encoded.Full, encoded.Units, encoded.Factors = true, [3]uint8{0, units, 0}, double.Factors{M: 1}
	}
	if s.Reading != nil {
		reading := *s.Reading
		if reading > 255 {
			encoded.Factors.M = 50
			reading /= 50
		}
		if reading != float64(uint8(reading)) {
			return encoded, false
		}
		encoded.Reading = uint8(reading)
	}
	return encoded, true
}

// encode returns the record of an event.
func encode(e ipmi.Event) (r [16]byte) {
	r[0], r[1], r[2] = byte(e.ID), byte(e.ID>>8), e.RecordType
	for i := range 4 {
		r[3+i] = byte(e.Timestamp >> (8 * i))
	}
	if !e.OfSensor() {
		return r
	}
	const revision = 4
	direction := byte(0)
	if !e.Asserted {
		direction = 0x80
	}
	copy(r[7:], []byte{owner(e.Owner), e.LUN, revision, byte(e.SensorType), e.SensorNumber, direction | byte(e.EventType), e.Data[0]&0xf0 | e.Offset, e.Data[1], e.Data[2]})
	return r
}

func (x *transports) chassis(c ipmi.Chassis) {
	x.bmc.SetPower(c.PowerOn)
	x.bmc.SetRestartCause(uint8(c.RestartCause))
	for fault, set := range map[double.ChassisFault]bool{
		double.PowerOverload: c.PowerOverload, double.MainPowerFault: c.MainPowerFault, double.PowerControlFault: c.PowerControlFault,
		double.Intrusion: c.Intrusion, double.DriveFault: c.DriveFault, double.CoolingFault: c.CoolingFault,
	} {
		x.bmc.SetFault(fault, set)
	}
}
