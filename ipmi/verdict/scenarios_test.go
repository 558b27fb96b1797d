package verdict_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// scenario is what a BMC holds and does over time, and what a good operator wants to be
// told. A row more is a test more.
type scenario struct {
	name    string
	why     string // the operator wants that
	moments []moment
}

// moment is what happens, and the outline of the verdict after it.
type moment struct {
	does func(*bmc)
	want string
}

// play plays scenarios, over all transports. A verdict is asked for twice, with a restart
// before each.
func play(t *testing.T, scenarios []scenario) {
	t.Helper()
	playAfter(t, scenarios, func(b *bmc, _ *scenario) { b.expect(healthy) })
}

// playAfter is play for a BMC to which something has happened before, in the place of a first
// look that finds all well.
func playAfter(t *testing.T, scenarios []scenario, before func(*bmc, *scenario)) {
	t.Helper()
	if listed != nil {
		*listed = append(*listed, scenarios...)
		return
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			b := newBMC(t)
			b.over = newTransports(t)
			before(b, &s)
			s.look(t, b)
		})
	}
}

// look plays the moments of a scenario on b.
func (s scenario) look(t *testing.T, b *bmc) {
	t.Helper()
	if s.why == "" {
		t.Error("it has no reason")
	}
	for i, m := range s.moments {
		m.does(b)
		if b.over != nil {
			b.over.fresh = true
		}
		for range 2 {
			if got := outline(b.judge()); got != m.want {
				t.Errorf("moment %d, as %s:\ngot  %.400s\nwant %s", i+1, s.why, got, m.want)
			}
		}
	}
}

// What a BMC does.

// together does one thing after the other.
func together(all ...func(*bmc)) func(*bmc) {
	return func(b *bmc) {
		for _, does := range all {
			does(b)
		}
	}
}

func passes(d time.Duration) func(*bmc) { return func(b *bmc) { b.after(d) } }

// watches lets time pass during which the server is looked at.
func watches(d time.Duration) func(*bmc) { return func(b *bmc) { b.watch(d) } }

// logs adds records, one each second.
func logs(events ...ipmi.Event) func(*bmc) {
	return func(b *bmc) {
		for _, e := range events {
			b.after(time.Second).log(e)
		}
	}
}

func boots(cause ipmi.RestartCause) func(*bmc) { return func(b *bmc) { b.boot(cause) } }

// shows sets the states of a sensor.
func shows(name string, states uint16) func(*bmc) {
	return func(b *bmc) { s := b.sensor(name); s.Available, s.States = true, states }
}

// silences takes the readings of sensors away.
func silences(names ...string) func(*bmc) {
	return func(b *bmc) {
		for _, name := range names {
			b.unavailable(name)
		}
	}
}

// adds adds sensors.
func adds(sensors ...ipmi.Sensor) func(*bmc) {
	return func(b *bmc) { b.in.Sensors = append(slices.Clone(b.in.Sensors), sensors...) }
}

func clears(b *bmc) { b.after(time.Second).clear() }

func acknowledges(b *bmc) { b.acknowledge(0xffff) }

// Records of power (IPMI 2.0, table 42-3).
func acLost() ipmi.Event      { return event(powerUnit, 0x71, 4) }
func powerOff() ipmi.Event    { return event(powerUnit, 0x71, 0) }
func softOff() ipmi.Event     { return event(acpi, 0x72, 5) }
func working() ipmi.Event     { return event(acpi, 0x72, 0) }
func bootByPower() ipmi.Event { return event(systemBoot, 0, 0) }

// unplugged is a server whose cords are drawn for so long.
func unplugged(d time.Duration) func(*bmc) {
	return together(logs(softOff(), acLost()), passes(d), logs(bootByPower()), boots(ipmi.RestartAlwaysRestore))
}

// switchedOff is a server that has standby power only for so long.
func switchedOff(d time.Duration) func(*bmc) {
	return together(logs(powerOff(), softOff()), passes(d), logs(working(), bootByPower()), boots(ipmi.RestartPowerButton))
}
