package verdict_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// Nobody drains a server for little.
func TestAServerIsNotTakenOutForLittle(t *testing.T) {
	const tooMany = "failed | MemoryFailure | DIMM_A1 correctable ECC, 10 times within 24h"
	volts := func(name string) ipmi.Sensor {
		return ipmi.Sensor{Name: name, Number: 0x31, Type: voltage, EventType: ipmi.Threshold, Available: true}
	}
	low := ipmi.LowerNonCritical | ipmi.LowerCritical
	at := func(e ipmi.Event, second int) ipmi.Event {
		e.Time = start.Add(time.Duration(second) * time.Second)
		e.Timestamp = uint32(e.Time.Unix())
		return e
	}
	same := slices.Repeat([]ipmi.Event{at(correctable(), 1)}, 12)
	var series, noClock []ipmi.Event
	for i := range 12 {
		series = append(series, at(correctable(), 10*i))
		e := correctable()
		e.Timestamp = 1783
		noClock = append(noClock, e)
	}
	scenarios := []scenario{
		{"a voltage of the board", "it is beyond its specification", []moment{
			{adds(volts("P3V3")), healthy},
			{shows("P3V3", low), "failed | VoltageFailure | P3V3 at or below lower critical"},
		}},
		{"an unspecific failure of the system", "nobody knows which part to exchange", []moment{
			{logs(event(0x12, 0x40, 2)), "healthy | HardwareHealthy | warning System Event #0x40 undetermined system hardware failure"},
		}},
		{"twelve equal records of one error", "it is one error", []moment{
			{logs(same...), healthy},
		}},
		{"twelve equal records, without a clock", "it is one error", []moment{
			{logs(noClock...), healthy},
		}},
		{"twelve errors", "a module that wears out", []moment{
			{logs(series...), tooMany},
		}},
		{"twelve equal records, each read alone", "it is one error", []moment{
			{logs(same[0]), healthy}, {logs(same[:5]...), healthy}, {logs(same[5:]...), healthy},
		}},
	}
	const severity ipmi.EventType = 0x07 // IPMI 2.0, table 42-2
	for _, row := range []struct {
		name string
		kind ipmi.SensorType
		why  string
	}{
		{"SysHealth_Stat", 0x18, "HPE's iLO sums up the server by it, a lost feed included, and does not tell the part"},
		{"RAID Battery", 0x29, "the server works without"},
		{"BMC Health", 0x28, "the server works, but less of it is seen"},
	} {
		warning := healthy + " | warning " + row.name + " transition to "
		scenarios = append(scenarios, scenario{"only the state of " + row.name, row.why, []moment{
			{adds(ipmi.Sensor{Name: row.name, Number: 0x33, Type: row.kind, EventType: severity, Available: true, States: 1}), healthy},
			{shows(row.name, 1<<2), warning + "critical from less severe"},
			{shows(row.name, 1<<3), warning + "non-recoverable from less severe"},
			{shows(row.name, 1<<5), warning + "critical from non-recoverable"},
			{shows(row.name, 1<<6), warning + "non-recoverable"},
			{shows("PSU1 Status", 1|1<<1), "failed | PowerSupplyFailure | PSU1 failure detected | warning " + row.name + " transition to non-recoverable"},
		}})
	}
	const battery ipmi.SensorType = 0x29
	scenarios = append(scenarios, scenario{"a battery is gone", "a failed one would take no server out either", []moment{
		{adds(ipmi.Sensor{Name: "RAID Battery", Number: 0x33, Type: battery, EventType: ipmi.SensorSpecific, Available: true, States: 1 << 2}), healthy},
		{
			together(logs(ended(named("RAID Battery", event(battery, 0x33, 2)))), shows("RAID Battery", 0)),
			healthy + " | warning RAID Battery absent",
		},
	}})
	for _, name := range []string{"VBAT", "P3V_BAT", "CMOS", "RTC 3V", "Battery"} {
		scenarios = append(scenarios, scenario{"the clock's battery " + name, "the server works without, and it costs a coin", []moment{
			{adds(volts(name)), healthy},
			{shows(name, low), "healthy | HardwareHealthy | warning " + name + " at or below lower critical"},
		}})
	}
	flags := map[string]func(*ipmi.Chassis){
		"main power fault":    func(c *ipmi.Chassis) { c.MainPowerFault = true },
		"power control fault": func(c *ipmi.Chassis) { c.PowerControlFault = true },
		"power overload":      func(c *ipmi.Chassis) { c.PowerOverload = true },
		"drive fault":         func(c *ipmi.Chassis) { c.DriveFault = true },
		"cooling/fan fault":   func(c *ipmi.Chassis) { c.CoolingFault = true },
	}
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		set := flags[flag]
		scenarios = append(scenarios, scenario{"only the flag " + flag, "it does not tell the part, and some BMCs never clear it", []moment{
			{func(b *bmc) { set(&b.in.Chassis) }, "healthy | HardwareHealthy | warning Chassis " + flag},
			{shows("PSU1 Status", 1|1<<1), "failed | PowerSupplyFailure | PSU1 failure detected | warning Chassis " + flag},
		}})
	}
	play(t, scenarios)
}
