package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// What a BMC tells in a way of its own is seen all the same.
func TestWhatABMCTellsInAnUnusualWayIsSeen(t *testing.T) {
	const (
		intel, dell                      = 343, 674
		busFatal, busLost                = "failed | BusFailure | PCI 3b:01.1 bus fatal error", "failed | BusFailure | Critical Interrupt #0x07 bus uncorrectable error"
		predictive        ipmi.EventType = 0x04 // IPMI 2.0, table 42-2
	)
	// untyped logs a record of type 0x00.
	untyped := func(e ipmi.Event) func(*bmc) {
		return func(b *bmc) { logs(e)(b); b.sel[len(b.sel)-1].RecordType = 0 }
	}
	pcie := func(number uint8, eventType ipmi.EventType, second, third uint8) ipmi.Event {
		return of(eventType, from(biosSMI, with(ipmi.EventData{0xa1, second, third}, event(interrupt, number, 1))))
	}
	general := func(name string, kind ipmi.SensorType) []moment {
		return []moment{
			{adds(ipmi.Sensor{Name: name, Number: 0x51, Type: kind, EventType: predictive, Available: true, States: 1}), healthy},
			{shows(name, 1<<1), ""},
			{shows(name, 1<<0), ""},
		}
	}
	after := func(moments []moment, wants ...string) []moment {
		for i, want := range wants {
			moments[i+1].want = want
		}
		return moments
	}
	play(t, []scenario{
		{"a record of type 0x00", "FreeIPMI's ipmi-sel has --assume-system-event-records for such boards", []moment{
			{untyped(uncorrectable()), lostData},
		}},
		{"a record of type 0x00 that tells nothing", "erased memory looks like that", []moment{
			{untyped(ipmi.Event{}), healthy},
		}},
		{"an OEM record", "what its bytes mean is not known", []moment{
			{func(b *bmc) { e := uncorrectable(); e.RecordType = 0xc0; logs(e)(b) }, healthy},
		}},
		{"a clear, in a record of type 0x00", "it is one", []moment{
			{logs(uncorrectable(), harmless()), lostData},
			{func(b *bmc) { b.clear(); b.erased = 1000; untyped(event(logging, 0x41, 2))(b) }, healthy},
		}},
		{"an outage, in records of type 0x00", "it is one", []moment{
			{logs(uncorrectable()), lostData},
			{together(untyped(acLost()), passes(time.Hour), untyped(bootByPower()), boots(ipmi.RestartAlwaysRestore)), healthy},
		}},

		{"Intel, PCIe fatal", "G90620, table 71: event type 0x70", []moment{
			{together(made(intel, 112), logs(pcie(0x04, 0x70, 0x3b, 0x09))), busFatal},
		}},
		{"Intel, PCIe fatal, more of it", "FreeIPMI: 0x76 goes on with 0x70", []moment{
			{together(made(intel, 112), logs(pcie(0x14, 0x76, 0x3b, 0x09))), busFatal},
		}},
		{"Intel, PCIe correctable", "G90620, table 69: event type 0x71. Many cards log a few", []moment{
			{together(made(intel, 112), logs(pcie(0x05, 0x71, 0x3b, 0x09))), healthy},
			{func(b *bmc) {
				for range 10 {
					b.after(time.Minute).log(pcie(0x05, 0x71, 0x3b, 0x09))
				}
			}, "healthy | HardwareHealthy | warning PCI 3b:01.1 bus correctable error, 10 times within 1h"},
		}},
		{"Intel, QPI fatal", "G90620, table 54: event type 0x73; on S5500 that is non-fatal, and data are lost all the same", []moment{
			{together(made(intel, 112), logs(of(0x73, from(biosSMI, with(ipmi.EventData{0x81, 0x01, 0xff}, event(interrupt, 0x07, 1)))))), busLost},
		}},
		{"Intel's event types, of the BMC", "Node Manager has others of these numbers", []moment{
			{together(made(intel, 112), logs(of(0x70, from(satellite, event(interrupt, 4, 1))))), healthy},
		}},
		{"Intel's event types on another board", "it is not known what they mean there", []moment{
			{together(made(0, 0), logs(pcie(0x04, 0x70, 0x3b, 0x09))), healthy},
		}},
		{"Dell, a fatal I/O error", "FreeIPMI: sensor type 0xc3, offset 1", []moment{
			{together(made(dell, 0), logs(from(biosDell, with(ipmi.EventData{0xa1, 0x09, 0x83}, event(0xc3, 0x19, 1))))), "failed | BusFailure | Slot 3 bus fatal error"},
		}},
		{"Dell, no fatal I/O error", "FreeIPMI: offset 0 is \"successful\"", []moment{
			{together(made(dell, 0), logs(from(biosDell, with(ipmi.EventData{0xa0, 0x09, 0x83}, event(0xc3, 0x19, 0))))), healthy},
		}},

		{"a drive whose failure is predicted by a general state", "data of pods is lost unless it is moved before", after(general("Bay 3", drive),
			"failed | DriveFailure | Bay 3 predictive failure asserted", healthy)},
		{"a module whose failure is predicted by a general state", "an uncorrectable error comes next, and a module does not mend itself", after(general("DIMM_B2", memory),
			"failed | MemoryFailure | DIMM_B2 predictive failure asserted", "failed | MemoryFailure | DIMM_B2 predictive failure asserted")},
		{"a supply whose failure is predicted by a general state", "it works, and is exchanged under power", after(general("PSU3", supply),
			"healthy | HardwareHealthy | warning PSU3 predictive failure asserted", healthy)},
		{"a processor whose failure is predicted by a general state", "nobody knows how soon", after(general("CPU1", processor),
			"healthy | HardwareHealthy | warning CPU1 predictive failure asserted", healthy)},
	})
}

// A fan that stops again and again between two looks is worn out, although it turns whenever
// one looks.
func TestAFanThatStopsAgainAndAgainIsSeen(t *testing.T) {
	const often = "failed | FanFailure | FAN1 at or below lower critical, 10 times within 24h"
	stop := of(ipmi.Threshold, named("FAN1", event(fan, 2, 2)))
	stops := func(e ipmi.Event, times int, every time.Duration) func(*bmc) {
		return func(b *bmc) {
			for range times {
				b.after(every - time.Second).log(e)
				b.after(time.Second).log(ended(e))
			}
		}
	}
	redundancyLost := of(redundancy, event(fan, 0x61, 1))
	acLostAt := named("PSU1 Status", event(supply, 3, 3))
	psuFan := ipmi.Sensor{Name: "PSU1 Fan", Number: 0x62, Type: fan, EventType: ipmi.Threshold, Entity: ipmi.Entity{ID: 10, Instance: 1}, Available: true, Reading: new(9000.0), Unit: "RPM"}
	psuStop := of(ipmi.Threshold, named("PSU1 Fan", event(fan, 0x62, 2)))
	play(t, []scenario{
		{"twelve times an hour", "its bearing is worn", []moment{
			{stops(stop, 12, 5*time.Minute), often},
			{watches(23 * time.Hour), often},
			{watches(2 * time.Hour), healthy},
		}},
		{"nine times a day", "fans near their limit do that", []moment{
			{stops(stop, 9, time.Hour), healthy},
		}},
		{"ten times in a month", "these are single ones", []moment{
			{stops(stop, 10, 72*time.Hour), healthy},
		}},
		{"several records of one stop", "it is one stop", []moment{
			{func(b *bmc) {
				b.after(time.Minute)
				for range 20 {
					b.log(stop)
					b.log(ended(stop))
				}
			}, healthy},
		}},
		{"it stands still", "that is a failure of its own", []moment{
			{stops(stop, 12, 5*time.Minute), often},
			{together(logs(stop), func(b *bmc) { s := b.sensor("FAN1"); *s.Reading, s.States = 0, ipmi.LowerCritical }), "failed | FanFailure | FAN1 0 RPM, at or below lower critical"},
			{func(b *bmc) { s := b.sensor("FAN1"); *s.Reading, s.States = 5400, 0 }, often},
		}},
		{"it is exchanged under power", "a person says so, and the new one turns", []moment{
			{stops(stop, 12, 5*time.Minute), often},
			{acknowledges, "healthy | HardwareHealthy | (FAN1 at or below lower critical, 10 times within 24h)"},
			{stops(stop, 5, 5*time.Minute), "healthy | HardwareHealthy | (FAN1 at or below lower critical, 10 times within 24h)"},
			{stops(stop, 5, 5*time.Minute), often},
		}},
		{"the SEL is cleared", "some clear it after a repair", []moment{
			{stops(stop, 12, 5*time.Minute), often},
			{clears, healthy},
		}},
		{"a fan near its non-critical limit", "within its specification", []moment{
			{stops(of(ipmi.Threshold, named("FAN1", event(fan, 2, 0))), 30, time.Minute), healthy},
		}},
		{"a redundancy that comes and goes", "fans have rules of their own", []moment{
			{stops(redundancyLost, 30, time.Minute), healthy},
		}},
		{"the fan of a supply whose feed comes and goes", "work on the feed stops it", []moment{
			{adds(psuFan), healthy},
			{func(b *bmc) {
				for range 12 {
					b.after(5*time.Minute).log(acLostAt, psuStop, ended(acLostAt), ended(psuStop))
				}
			}, "healthy | HardwareHealthy | warning PSU1 Fan at or below lower critical, 10 times within 24h"},
		}},
		{"a supply that fails again and again by its feed", "work on the feed sets that bit, too", []moment{
			{stops(supplyFailed(), 12, 5*time.Minute), healthy},
		}},
		{"the sensors can't be read", "it is not known whose fan it is", []moment{
			{together(stops(stop, 12, 5*time.Minute), func(b *bmc) { b.in.SensorsError = errBMC }), "cannotTell | SensorsUnreadable | FAN1 at or below lower critical, 10 times within 24h?"},
			{func(b *bmc) { b.in.SensorsError = nil }, often},
		}},
	})
}
