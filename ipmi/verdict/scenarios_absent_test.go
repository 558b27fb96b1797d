package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// A reading that is missing, as after a reset of the BMC, is doubt: neither a failure nor
// an absence.
func TestAMissingReadingIsDoubt(t *testing.T) {
	const (
		missing = "cannotTell | ComponentMissing"
		failing = "failed | PowerSupplyFailure | PSU1 failure detected"
		hour    = time.Hour
	)
	blank := func(names ...string) func(*bmc) {
		return func(b *bmc) {
			for _, name := range names {
				shows(name, 0)(b)
			}
		}
	}
	everything := blank("PSU1 Status", "PSU2 Status", "Disk0", "CPU0 Status")
	play(t, []scenario{
		{"a fan without a reading", "its sensor may be what is broken", []moment{
			{silences("FAN1"), missing}, {passes(hour), missing},
			{shows("FAN1", 0), healthy},
		}},
		{"a supply without a reading", "its sensor may be what is broken", []moment{
			{silences("PSU2 Status"), missing}, {passes(24 * hour), missing},
			{acknowledges, healthy}, {passes(hour), healthy},
		}},
		{"a sensor that an update of the BMC has dropped", "nobody has touched the supply", []moment{
			{func(b *bmc) { b.in.Sensors = b.in.Sensors[:6] }, missing}, {passes(hour), missing},
		}},
		{"all discrete sensors are zero after a reset of the BMC", "it has not looked yet", []moment{
			{everything, missing}, {passes(hour), missing},
			{together(shows("PSU1 Status", 1), shows("PSU2 Status", 1), shows("Disk0", 1), shows("CPU0 Status", 1<<7)), healthy},
		}},
		{"all supplies are zero", "the server runs on one of them", []moment{
			{blank("PSU1 Status", "PSU2 Status"), missing}, {passes(hour), missing},
		}},
		{"the only processor is zero", "the server runs on it", []moment{
			{blank("CPU0 Status"), missing}, {passes(hour), missing},
		}},
		{"a supply is zero for two minutes", "the BMC has not looked at it yet", []moment{
			{blank("PSU2 Status"), missing}, {passes(2 * time.Minute), missing},
			{shows("PSU2 Status", 1), healthy},
		}},
		{"a supply is zero beside another for long", "it was pulled", []moment{
			{blank("PSU2 Status"), missing}, {passes(3 * time.Minute), "failed | PowerSupplyFailure | PSU2 absent"},
		}},
		{"a supply is zero, and the SEL says that it was pulled", "two witnesses", []moment{
			{together(logs(ended(named("PSU2 Status", event(supply, 7, 0)))), blank("PSU2 Status")), "failed | PowerSupplyFailure | PSU2 absent"},
		}},
		{"the SEL said long ago that it was pulled", "it was back since", []moment{
			{together(logs(ended(named("PSU2 Status", event(supply, 7, 0)))), blank("PSU2 Status")), "failed | PowerSupplyFailure | PSU2 absent"},
			{shows("PSU2 Status", 1), healthy},
			{together(passes(hour), blank("PSU2 Status")), missing},
		}},
		{"a sensor that says absent in so many words", "that is no missing reading", []moment{
			{adds(ipmi.Sensor{Name: "Riser", Number: 0x61, Type: 0x25, EventType: ipmi.SensorSpecific, Available: true, States: 1}), healthy},
			{shows("Riser", 1<<1), "failed | HardwareFailure | Riser absent"},
		}},
		{"a failed supply, and zero after a reset of the BMC", "it is not known to be mended", []moment{
			{shows("PSU1 Status", 1|1<<1), failing},
			{everything, missing + " | PSU1 failure detected?"},
			{together(shows("PSU1 Status", 1|1<<1), shows("PSU2 Status", 1), shows("Disk0", 1), shows("CPU0 Status", 1<<7)), failing},
		}},
		{"an acknowledged failure, and zero after a reset of the BMC", "it is the same failure", []moment{
			{shows("PSU1 Status", 1|1<<1), failing},
			{acknowledges, "healthy | HardwareHealthy | (PSU1 failure detected)"},
			{everything, missing + " | (PSU1 failure detected)"},
			{
				together(shows("PSU1 Status", 1|1<<1), shows("PSU2 Status", 1), shows("Disk0", 1), shows("CPU0 Status", 1<<7)),
				"healthy | HardwareHealthy | (PSU1 failure detected)",
			},
		}},
		{"a failed supply that is pulled", "what was removed has no other state", []moment{
			{shows("PSU1 Status", 1|1<<1), failing},
			{blank("PSU1 Status"), missing + " | PSU1 failure detected?"},
			{passes(3 * time.Minute), "failed | PowerSupplyFailure | PSU1 absent"},
			{shows("PSU1 Status", 1), healthy},
		}},
		{"a module's zero is its health", "it never said that it was there", []moment{
			{shows("DIMM_A1", 0), healthy},
		}},
	})
}
