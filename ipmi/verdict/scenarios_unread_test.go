package verdict_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// troubles gives a sensor a problem.
func troubles(name string) func(*bmc) {
	return func(b *bmc) { b.unavailable(name); b.sensor(name).Problem = "sensor " + name + ": timeout" }
}

// One bad sensor costs that sensor only.
func TestABadSensorBlindsForNoOther(t *testing.T) {
	part := fmt.Errorf("%w: 3 of 7 sensors", ipmi.ErrPartial)
	late := func(*bmc) {}
	play(t, []scenario{
		{"a stuck sensor", "the others tell enough", []moment{
			{troubles("CPU0 Temp"), healthy},
			{shows("PSU1 Status", 1|1<<1), "failed | PowerSupplyFailure | PSU1 failure detected"},
			{shows("PSU1 Status", 1), healthy},
		}},
		{"the stuck sensor of a known failure", "it is not known to be over", []moment{
			{shows("CPU0 Temp", ipmi.UpperCritical), "failed | TemperatureFailure | CPU0 Temp 45 degrees C, at or above upper critical"},
			{troubles("CPU0 Temp"), "cannotTell | FailureUnconfirmed | CPU0 Temp at or above upper critical?"},
		}},
		{"most sensors are stuck", "that is no fault of a sensor", []moment{
			{together(troubles("CPU0 Temp"), troubles("DIMM_A1")), healthy},
			{together(troubles("FAN1"), troubles("Disk0")), "cannotTell | SensorsUnreadable"},
		}},
		{"the stuck sensor of a fan", "nobody knows whether it turns", []moment{
			{troubles("FAN1"), "cannotTell | ComponentMissing"},
			{acknowledges, healthy},
		}},
		{"no SDR can be read, but the SEL", "an uncorrectable error needs no sensor", []moment{
			{func(b *bmc) { b.in.SensorsError = errBMC; b.log(event(memory, 4, 1)) }, "failed | MemoryFailure | Memory #0x04 uncorrectable ECC"},
			{func(b *bmc) { b.in.SensorsError = nil }, lostData},
		}},
		{"no SDR can be read, and a rule ignores the sensor by its name", "the rule may be for it", []moment{
			{func(b *bmc) {
				b.rules = verdict.Rules{{Name: "ours", Match: verdict.Match{SensorName: "DIMM_A1"}, Severity: verdict.SeverityIgnore}}
				b.in.SensorsError = errBMC
				b.log(event(memory, 4, 1))
			}, "cannotTell | SensorsUnreadable | Memory #0x04 uncorrectable ECC?"},
			{func(b *bmc) { b.in.SensorsError = nil }, healthy},
		}},
		{"there is no time for all sensors", "what was not read may have failed", []moment{
			{together(silences("PSU2 Status", "FAN1"), func(b *bmc) { b.in.SensorsError = part }), "cannotTell | SensorsUnreadable"},
			{shows("PSU1 Status", 1|1<<1), "failed | PowerSupplyFailure | PSU1 failure detected"},
		}},
		{"there is no time for the sensor of a drive that was pulled", "it may be back", []moment{
			{together(shows("Disk0", 0), logs(ended(named("Disk0", event(0x0d, 5, 0))))), "failed | DriveFailure | Disk0 absent"},
			{together(silences("Disk0"), func(b *bmc) { b.in.SensorsError = part }), "cannotTell | SensorsUnreadable | Disk0 absent?"},
			{together(shows("Disk0", 0), func(b *bmc) { b.in.SensorsError = nil }), "failed | DriveFailure | Disk0 absent"},
		}},
		{"there is no time for the whole SEL", "a later record may say that it is over", []moment{
			{together(logs(uncorrectable()), func(b *bmc) { b.in.LogError = part; late = func(b *bmc) { b.in.LogError = nil } }), "cannotTell | EventLogUnreadable | DIMM_A1 uncorrectable ECC?"},
			{func(b *bmc) { late(b) }, lostData},
		}},
	})
}

func TestTheMessageNamesTheSensorsThatCanNotBeRead(t *testing.T) {
	b := newBMC(t)
	for _, name := range []string{"CPU0 Temp", "FAN1", "PSU1 Status", "DIMM_A1"} {
		b.sensor(name).Problem = name + ": " + strings.Repeat("x", 200)
	}
	got := b.judge().Message
	if !strings.Contains(got, "warning: 4 of 7 sensors have a problem: CPU0 Temp: xxx") || !strings.HasSuffix(got, ", ...") || len(got) > verdict.MaxMessage {
		t.Errorf("got %s", got)
	}
}
