package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// Work on a power feed must not empty a row of racks.
func TestAPowerFeedTakesNoServerOut(t *testing.T) {
	const (
		well    = healthy
		lost    = " | warning PSU1 power supply AC lost"
		failing = "failed | PowerSupplyFailure | PSU1 failure detected"

		present, broken, noInput, noInputOrRange = 1 << 0, 1 << 1, 1 << 3, 1 << 4
	)
	first, second := ipmi.Entity{ID: 10, Instance: 1}, ipmi.Entity{ID: 10, Instance: 2}
	limit := func(name string, number uint8, kind ipmi.SensorType, of ipmi.Entity) ipmi.Sensor {
		return ipmi.Sensor{Name: name, Number: number, Type: kind, EventType: ipmi.Threshold, Entity: of, Available: true}
	}
	vin, psuFan := limit("PS1 Input Voltage", 0x21, voltage, first), limit("PSU1 Fan", 0x22, fan, first)
	rail := limit("12V", 0x23, voltage, ipmi.Entity{ID: 7, Instance: 1})
	backed := ipmi.Sensor{Name: "PS Redundancy", Number: 9, Type: powerUnit, EventType: redundancy, Entity: ipmi.Entity{ID: 19, Instance: 1}, Available: true, States: 1}
	rules := func(rules ...verdict.Rule) func(*bmc) { return func(b *bmc) { b.rules = rules } }
	dead := ipmi.LowerNonCritical | ipmi.LowerCritical

	play(t, []scenario{
		{"one of two feeds off", "the other supply carries the server", []moment{
			{shows("PSU1 Status", present|noInput), well + lost},
			{passes(24 * time.Hour), well + lost},
			{shows("PSU1 Status", present), well},
		}},
		{"one of two feeds off, and redundancy is lost", "of course it is", []moment{
			{adds(backed), well},
			{together(shows("PSU1 Status", present|noInput), shows("PS Redundancy", 1<<1)), well + lost + " | warning PS Redundancy redundancy lost"},
		}},
		{"one of two feeds off, and resources are insufficient", "of course they are", []moment{
			{adds(backed), well},
			{
				together(shows("PSU1 Status", present|noInput), shows("PS Redundancy", 1<<5)),
				well + " | warning PS Redundancy non-redundant: insufficient resources" + lost,
			},
			{
				shows("PSU1 Status", present),
				"failed | PowerSupplyFailure | PS Redundancy non-redundant: insufficient resources",
			},
		}},
		{"lost or out of range", "it is a feed, too", []moment{
			{shows("PSU1 Status", present|noInputOrRange), well + " | warning PSU1 AC lost or out-of-range"},
		}},
		{"a supply calls itself failed without its feed", "it has nothing to work with", []moment{
			{shows("PSU1 Status", present|broken|noInput), well + " | warning PSU1 failure detected" + lost},
			{shows("PSU1 Status", present|broken), failing},
		}},
		{"the same in a SEL without sensors", "there is a good supply", []moment{
			{
				logs(named("PSU3 Status", event(supply, 0x70, 1)), named("PSU3 Status", event(supply, 0x70, 3))),
				well + " | warning PSU3 failure detected | warning PSU3 power supply AC lost",
			},
			{logs(ended(event(supply, 0x70, 3))), "failed | PowerSupplyFailure | PSU3 failure detected"},
		}},
		{"its input voltage is gone", "it is the feed", []moment{
			{adds(vin), well},
			{
				together(shows("PSU1 Status", present|noInput), shows("PS1 Input Voltage", dead)),
				well + " | warning PS1 Input Voltage at or below lower critical" + lost,
			},
		}},
		{"only the input voltage is low", "it is the feed", []moment{
			{adds(vin), well},
			{shows("PS1 Input Voltage", dead), well + " | warning PS1 Input Voltage at or below lower critical"},
		}},
		{"the input voltage is low, and the supply calls itself failed", "it has too little to work with", []moment{
			{adds(vin), well},
			{
				together(shows("PSU1 Status", present|broken), shows("PS1 Input Voltage", dead)),
				well + " | warning PSU1 failure detected | warning PS1 Input Voltage at or below lower critical",
			},
		}},
		{"its fan stands still", "it has no power to turn", []moment{
			{adds(psuFan), well},
			{
				together(shows("PSU1 Status", present|noInput), shows("PSU1 Fan", dead)),
				well + lost + " | warning PSU1 Fan at or below lower critical",
			},
			{shows("PSU1 Status", present), "failed | FanFailure | PSU1 Fan at or below lower critical"},
		}},
		{"its fan has no reading", "it has no power to measure", []moment{
			{adds(psuFan), well},
			{together(shows("PSU1 Status", present|noInput), silences("PSU1 Fan")), well + lost},
			{passes(time.Hour), well + lost},
		}},
		{"another fan stands still", "that is no feed", []moment{
			{
				together(shows("PSU1 Status", present|noInput), shows("FAN1", dead)),
				"failed | FanFailure | FAN1 5400 RPM, at or below lower critical" + lost,
			},
		}},
		{"another voltage is low", "that is no feed", []moment{
			{adds(rail), well},
			{
				together(shows("PSU1 Status", present|noInput), shows("12V", dead)),
				"failed | VoltageFailure | 12V at or below lower critical" + lost,
			},
		}},
		{"the other supply fails as well", "nothing is behind it any more", []moment{
			{
				together(shows("PSU1 Status", present|noInput), shows("PSU2 Status", present|broken)),
				"failed | PowerSupplyFailure | PSU2 failure detected" + lost,
			},
		}},
		{"a supply is hot without its feed", "no feed makes heat", []moment{
			{adds(limit("PSU1 Temp", 0x24, temperature, first)), well},
			{
				together(shows("PSU1 Status", present|noInput), shows("PSU1 Temp", ipmi.UpperCritical)),
				"failed | TemperatureFailure | PSU1 Temp at or above upper critical" + lost,
			},
		}},
		{"both supplies are of one entity", "whose fan it is is not known", []moment{
			{func(b *bmc) { b.sensor("PSU2 Status").Entity = first }, well},
			{adds(psuFan), well},
			{
				together(shows("PSU1 Status", present|noInput), shows("PSU1 Fan", dead)),
				"failed | FanFailure | PSU1 Fan at or below lower critical" + lost,
			},
		}},
		{"the fan of the other supply", "that one has its feed", []moment{
			{adds(limit("PSU2 Fan", 0x25, fan, second)), well},
			{
				together(shows("PSU1 Status", present|noInput), shows("PSU2 Fan", dead)),
				"failed | FanFailure | PSU2 Fan at or below lower critical" + lost,
			},
		}},
		{"a lost input that is a failure by a rule of people", "they have said so", []moment{
			{func(b *bmc) { b.rules = inputRules() }, well},
			{shows("PSU1 Status", present|noInput), "failed | PowerSupplyFailure | PSU1 power supply AC lost"},
		}},
		{"it goes blank without its feed", "it has no power to tell that it is there", []moment{
			{shows("PSU1 Status", present|noInput), well + lost},
			{shows("PSU1 Status", 0), well + lost},
			{passes(5 * time.Minute), well + lost},
			{passes(5 * time.Minute), well + lost},
			{shows("PSU1 Status", present|noInput), well + lost},
			{shows("PSU1 Status", present), well},
		}},
		{"the SEL tells of its feed, and it goes blank at once", "it has no power to tell that it is there", []moment{
			{together(logs(named("PSU1 Status", event(supply, 3, 3))), shows("PSU1 Status", 0)), well + lost},
			{passes(5 * time.Minute), well + lost},
			{passes(5 * time.Minute), well + lost},
			{logs(ended(named("PSU1 Status", event(supply, 3, 3)))), "cannotTell | ComponentMissing"},
			{passes(3 * time.Minute), "failed | PowerSupplyFailure | PSU1 absent"},
		}},
		{"it shows nothing but that it has no input", "so it is there", []moment{
			{shows("PSU1 Status", noInput), well + lost},
			{passes(5 * time.Minute), well + lost},
			{shows("PSU1 Status", present), well},
		}},
		{"it has no feed, and the SEL says that it was pulled", "two witnesses", []moment{
			{shows("PSU1 Status", present|noInput), well + lost},
			{together(logs(ended(named("PSU1 Status", event(supply, 3, 0)))), shows("PSU1 Status", 0)), "failed | PowerSupplyFailure | PSU1 absent"},
			{passes(time.Hour), "failed | PowerSupplyFailure | PSU1 absent"},
		}},
		{"it is blank without its feed, and the other supply fails", "nothing is behind it any more", []moment{
			{shows("PSU1 Status", present|noInput), well + lost},
			{together(shows("PSU1 Status", 0), shows("PSU2 Status", present|broken)), "failed | PowerSupplyFailure | PSU2 failure detected" + lost},
		}},
		{"the input voltage is low, and a rule ignores it", "what is not to be shown explains all the same", []moment{
			{together(adds(vin, psuFan), rules(verdict.Rule{Name: "ours", Match: verdict.Match{SensorType: "Voltage", SensorName: "PS1 Input*", Threshold: "critical"}, Severity: verdict.SeverityIgnore})), well},
			{
				together(shows("PS1 Input Voltage", dead), shows("PSU1 Fan", dead)),
				well + " | warning PS1 Input Voltage at or below lower non-critical | warning PSU1 Fan at or below lower critical",
			},
		}},
		{"the input voltage is low, and a rule of people is for it", "it is the feed", []moment{
			{together(adds(vin, psuFan), rules(verdict.Rule{Name: "ours", Match: verdict.Match{SensorName: "PS1 Input*"}, Severity: verdict.SeverityWarning})), well},
			{
				together(shows("PS1 Input Voltage", dead), shows("PSU1 Fan", dead)),
				well + " | warning PS1 Input Voltage at or below lower critical | warning PSU1 Fan at or below lower critical",
			},
		}},
		{"a low input voltage that is a failure by a rule of people", "they have said so", []moment{
			{together(adds(vin), rules(verdict.Rule{Name: "ours", Match: verdict.Match{SensorName: "PS1 Input*", Threshold: "lower critical"}, Severity: verdict.SeverityFailure})), well},
			{shows("PS1 Input Voltage", dead), "failed | VoltageFailure | PS1 Input Voltage at or below lower critical"},
		}},
		{"no input, and a rule is for often only", "once explains all the same", []moment{
			{together(adds(psuFan), rules(verdict.Rule{
				Name: "ours", Match: verdict.Match{SensorType: "Power Supply", Event: "Power Supply AC lost"},
				Severity: verdict.SeverityWarning, Rate: &verdict.Rate{Count: 5, Per: time.Hour},
			})), well},
			{
				together(shows("PSU1 Status", present|noInput), shows("PSU1 Fan", dead)),
				well + " | warning PSU1 Fan at or below lower critical",
			},
		}},
		{"no input, and a rule ignores that", "what is not to be shown explains all the same", []moment{
			{together(adds(psuFan), rules(verdict.Rule{Name: "ours", Match: verdict.Match{SensorType: "Power Supply", Event: "Power Supply AC lost"}, Severity: verdict.SeverityIgnore})), well},
			{
				together(shows("PSU1 Status", present|broken|noInput), shows("PSU1 Fan", dead)),
				well + " | warning PSU1 failure detected | warning PSU1 Fan at or below lower critical",
			},
			{together(shows("PSU1 Status", 0), shows("PSU1 Fan", 0)), well + " | warning PSU1 failure detected"},
			{watches(5 * time.Minute), well + " | warning PSU1 failure detected"},
			{shows("PSU1 Status", present|broken), failing},
			{shows("PSU1 Status", present), well},
		}},
		{"too much current on a rail of a supply without its feed", "something is shorted, which no feed explains", []moment{
			{adds(ipmi.Sensor{Name: "PSU1 Rail", Number: 0x24, Type: powerUnit, EventType: ipmi.SensorSpecific, Entity: ipmi.Entity{ID: 10, Instance: 1}, Available: true}), well},
			{
				together(shows("PSU1 Status", present|noInput), shows("PSU1 Rail", 1<<2)),
				"failed | PowerSupplyFailure | PSU1 Rail 240VA power down | warning PSU1 power supply AC lost",
			},
		}},
		{"the only supply that is seen", "the server runs, so something feeds it", []moment{
			{func(b *bmc) { b.in.Sensors = b.in.Sensors[:6] }, "cannotTell | ComponentMissing"},
			{acknowledges, well},
			{shows("PSU1 Status", present|noInput), well + lost},
		}},
	})
}
