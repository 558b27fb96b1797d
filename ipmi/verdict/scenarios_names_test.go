package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// Who is to exchange a part has to know which one.
func TestComponentsAreToldApartByTheirEntity(t *testing.T) {
	psu := func(number, instance uint8) ipmi.Sensor {
		return ipmi.Sensor{Name: "Status", Number: number, Type: supply, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 10, Instance: instance}, Available: true, States: 1}
	}
	temp := func(number uint8, of ipmi.Entity) ipmi.Sensor {
		return ipmi.Sensor{Name: "Temp", Number: number, Type: temperature, EventType: ipmi.Threshold, Entity: of, Available: true}
	}
	at := func(number uint8, states uint16) func(*bmc) {
		return func(b *bmc) {
			for i := range b.in.Sensors {
				if b.in.Sensors[i].Number == number {
					b.in.Sensors[i].States = states
				}
			}
		}
	}
	two := adds(psu(0x41, 1), psu(0x42, 2))
	temps := adds(temp(0x43, ipmi.Entity{ID: 3, Instance: 1}), temp(0x44, ipmi.Entity{ID: 3, Instance: 2}), temp(0x45, ipmi.Entity{ID: 55, Instance: 1}))
	play(t, []scenario{
		{"two supplies called Status, the second fails", "the first must not be pulled", []moment{
			{two, healthy},
			{at(0x42, 1|1<<1), "failed | PowerSupplyFailure | Power Supply 2 failure detected"},
		}},
		{"both fail", "both are to be exchanged", []moment{
			{two, healthy},
			{together(at(0x41, 1|1<<1), at(0x42, 1|1<<1)), "failed | PowerSupplyFailure | Power Supply 1 failure detected | Power Supply 2 failure detected"},
		}},
		{"the second is pulled", "it is to be put back", []moment{
			{two, healthy},
			{at(0x42, 0), "cannotTell | ComponentMissing"},
			{watches(time.Hour), "failed | PowerSupplyFailure | Power Supply 2 absent"},
		}},
		{"the second fails, and the sensors can't be read", "its name stays", []moment{
			{two, healthy},
			{at(0x42, 1|1<<1), "failed | PowerSupplyFailure | Power Supply 2 failure detected"},
			{func(b *bmc) { b.in.SensorsError = errBMC }, "cannotTell | SensorsUnreadable | Power Supply 2 failure detected?"},
		}},
		{"an update of the BMC numbers them anew", "the second is still the second", []moment{
			{two, healthy},
			{func(b *bmc) { n := len(b.in.Sensors); b.in.Sensors[n-1].Number, b.in.Sensors[n-2].Number = 0x51, 0x52 }, healthy},
			{at(0x51, 0), "cannotTell | ComponentMissing"},
			{watches(time.Hour), "failed | PowerSupplyFailure | Power Supply 2 absent"},
		}},
		{"an instance that is relative to the BMC", "people count from one", []moment{
			{adds(psu(0x41, 0x61), psu(0x42, 0x62)), healthy},
			{at(0x42, 1|1<<1), "failed | PowerSupplyFailure | Power Supply 2 failure detected"},
		}},
		{"a Status of nothing that is known", "the number tells more than the word", []moment{
			{logs(named("Status", event(supply, 0x70, 1))), "failed | PowerSupplyFailure | Power Supply #0x70 failure detected"},
		}},
		{"several sensors called Temp", "it is the second processor's", []moment{
			{temps, healthy},
			{at(0x44, ipmi.UpperCritical), "failed | TemperatureFailure | Processor 2 Temp at or above upper critical"},
		}},
		{"a Temp of an entity that is not known by name", "its number tells it apart", []moment{
			{temps, healthy},
			{at(0x45, ipmi.UpperCritical), "failed | TemperatureFailure | Temp (entity 55.1) at or above upper critical"},
		}},
		{"a name that only one has", "that is what is printed on the part", []moment{
			{shows("PSU1 Status", 1|1<<1), "failed | PowerSupplyFailure | PSU1 failure detected"},
		}},
	})
}
