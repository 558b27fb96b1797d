package verdict_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// A memory module or a processor whose sensor called its state critical is not whole again
// when the sensor stops to say so.
func TestACriticalStateOfMemoryOrAProcessorLatches(t *testing.T) {
	const severity ipmi.EventType = 0x07 // IPMI 2.0, table 42-2
	sensor := func(name string, kind ipmi.SensorType) ipmi.Sensor {
		return ipmi.Sensor{Name: name, Number: 0x51, Type: kind, EventType: severity, Available: true, States: 1}
	}
	var scenarios []scenario
	for _, row := range []struct {
		kind   ipmi.SensorType
		name   string
		reason string
		latch  bool
	}{
		{memory, "DIMM_B2 Health", "MemoryFailure", true},
		{processor, "CPU1 Health", "ProcessorFailure", true},
		{fan, "Fan Tray", "FanFailure", false},
		{temperature, "Inlet Health", "TemperatureFailure", false},
	} {
		words := map[uint8]string{
			2: "transition to critical from less severe", 3: "transition to non-recoverable from less severe",
			5: "transition to critical from non-recoverable", 6: "transition to non-recoverable",
		}
		for _, offset := range slices.Sorted(maps.Keys(words)) {
			what := words[offset]
			failed := "failed | " + row.reason + " | " + row.name + " " + what
			over := healthy
			if row.latch {
				over = failed
			}
			scenarios = append(scenarios, scenario{row.name + " " + what, "a DIMM or a processor does not mend itself, air does", []moment{
				{adds(sensor(row.name, row.kind)), healthy},
				{shows(row.name, 1<<offset), failed},
				{shows(row.name, 1), over},
				{switchedOff(time.Minute), over},
				{unplugged(time.Hour), healthy},
			}}, scenario{row.name + " " + what + ", in the SEL", "the same", []moment{
				{logs(named(row.name, of(severity, event(row.kind, 0x52, offset)))), failed},
				{logs(of(severity, event(row.kind, 0x52, 0))), over},
			}})
		}
	}
	play(t, scenarios)
}
