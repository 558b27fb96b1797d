package verdict_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// parse reads rules as the detector's configuration does.
func parse(t *testing.T, text string) (rules verdict.Rules) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&rules); err != nil {
		t.Fatal(err)
	}
	for _, mistake := range rules.Validate() {
		t.Error(mistake)
	}
	return rules
}

func TestRulesOfPeopleComeBeforeTheDefaultOnes(t *testing.T) {
	everything := func(b *bmc) {
		b.log(uncorrectable(), correctable())
		b.sensor("PSU1 Status").States = 1 | 1<<1
		b.sensor("Disk0").States = 1 | 1<<2
		fan1 := b.sensor("FAN1")
		*fan1.Reading, fan1.States = 900, ipmi.LowerNonCritical
		b.in.Chassis.Intrusion = true
	}
	const (
		dimm, psu, disk = " | DIMM_A1 uncorrectable ECC", " | PSU1 failure detected", " | Disk0 predictive failure"
		slow, lid       = " | warning FAN1 900 RPM, at or below lower non-critical", " | warning Chassis chassis intrusion"
	)
	const all = "failed | MultipleFailures" + dimm + psu + disk + slow + lid
	without := func(part string) string { return strings.Replace(all, part, "", 1) }
	for name, tc := range map[string]struct{ rules, want string }{
		"none": {`[]`, all},
		"ignore an event of a type": {
			`[{name: a, match: {sensorType: Memory, event: Uncorrectable ECC}, severity: ignore}]`, without(dimm),
		},
		"ignore an event, in other letters": {
			`[{name: a, match: {sensorType: memory, event: uncorrectable ecc}, severity: ignore}]`, without(dimm),
		},
		"ignore a sensor":              {`[{name: a, match: {sensorName: psu1*}, severity: ignore}]`, without(psu)},
		"the pattern is for the whole": {`[{name: a, match: {sensorName: PSU1}, severity: ignore}]`, all},
		"ignore by one character":      {`[{name: a, match: {sensorName: "Disk?"}, severity: ignore}]`, without(disk)},
		"a pattern is no expression":   {`[{name: a, match: {sensorName: "Disk."}, severity: ignore}]`, all},
		"weaken": {
			`[{name: a, match: {sensorType: Drive Slot / Bay, event: Predictive Failure}, severity: warning}]`,
			"failed | MultipleFailures" + dimm + psu + " | warning Disk0 predictive failure" + slow + lid,
		},
		"strengthen a threshold": {
			`[{name: a, match: {sensorType: Fan, threshold: lower non-critical}, severity: failure}]`,
			"failed | MultipleFailures | FAN1 900 RPM, at or below lower non-critical" + dimm + psu + disk + lid,
		},
		"the other side of a threshold": {
			`[{name: a, match: {sensorType: Fan, threshold: upper non-critical}, severity: failure}]`, all,
		},
		"add": {
			`[{name: a, match: {event: Correctable ECC}, severity: failure}]`,
			"failed | MultipleFailures | DIMM_A1 correctable ECC" + dimm + psu + disk + slow + lid,
		},
		"a flag of the chassis": {`[{name: a, match: {chassis: chassis intrusion}, severity: ignore}]`, without(lid)},
		"no flag by a sensor":   {`[{name: a, match: {sensorName: "*"}, severity: ignore}]`, "healthy | HardwareHealthy" + lid},
		"the first match decides": {
			`[{name: a, match: {event: Uncorrectable ECC}, severity: warning}, {name: b, match: {sensorType: Memory}, severity: ignore}]`,
			"failed | MultipleFailures" + psu + disk + " | warning DIMM_A1 uncorrectable ECC" + slow + lid,
		},
		"while redundant, which it is not": {
			`[{name: a, match: {sensorType: Power Supply, event: Failure detected}, severity: failure, whileRedundant: ignore}]`,
			"failed | MultipleFailures" + psu + dimm + disk + slow + lid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.rules = parse(t, tc.rules)
			everything(b)
			b.expect(tc.want)
			b.expect(tc.want)
		})
	}
}

func TestAnAbsenceHasItsOwnRule(t *testing.T) {
	b := newBMC(t)
	b.rules = parse(t, `[{name: pulled drives, match: {sensorType: Drive Slot / Bay, absent: true}, severity: warning}]`)
	b.expect(healthy)
	b.pull("Disk0")
	b.expect("healthy | HardwareHealthy | warning Disk0 absent")
	b.pull("PSU1 Status")
	b.expect("failed | PowerSupplyFailure | PSU1 absent | warning Disk0 absent")
}

func TestASeverityOfIgnoreWhileRedundantIgnores(t *testing.T) {
	b := newBMC(t)
	b.rules = parse(t, `[{name: a, match: {sensorType: Power Supply, event: Failure detected}, severity: failure, whileRedundant: ignore}]`)
	b.in.Sensors = append(b.in.Sensors, ipmi.Sensor{Name: "PS Redundancy", Number: 9, Type: powerUnit, EventType: redundancy, Available: true, States: 1})
	b.sensor("PSU1 Status").States = 1 | 1<<1
	b.expect(healthy)
}

func TestChangedRulesJudgeWhatIsRemembered(t *testing.T) {
	b := newBMC(t)
	b.log(uncorrectable(), event(0x12, 0x30, 0)) // of the latter there is no rule
	b.expect(lostData)
	b.rules = parse(t, `[{name: a, match: {event: Uncorrectable ECC}, severity: ignore}, {name: b, match: {event: System Reconfigured}, severity: failure}]`)
	b.expect("failed | HardwareFailure | System Event #0x30 system reconfigured")
	b.rules = nil
	b.expect(lostData)
}

func TestAFailureNamesItsRule(t *testing.T) {
	b := newBMC(t)
	b.rules = parse(t, `[{name: ours, match: {event: Drive Fault}, severity: failure}]`)
	b.log(event(drive, 0x55, 1), uncorrectable())
	var got []string
	for _, f := range b.judge().Failures {
		got = append(got, f.Rule)
	}
	if diff := cmp.Diff([]string{"ours", "memory-uncorrectable-ecc"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestMistakesInRulesNameTheFieldAndWhatIsAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		rule string
		want []string
	}{
		"nothing": {`{}`, []string{
			`0.name: is missing: a rule needs one, as failures show it`,
			`0.severity: "" is not one of ignore, warning, failure`,
			`0.match: is empty: name at least one of sensorType, sensorName, event, threshold, chassis, absent`,
		}},
		"the name of a default rule": {
			`{name: drive-fault, match: {absent: true}, severity: ignore}`,
			[]string{`0.name: "drive-fault" is the name of another rule, or of a default one`},
		},
		"words that are not accepted": {
			`{name: a, match: {sensorType: Power Supply, threshold: lower}, severity: critical, latch: sticky, whileRedundant: ok}`,
			[]string{
				`0.severity: "critical" is not one of ignore, warning, failure`,
				`0.latch: "sticky" is not one of present, momentary, manual`,
				`0.whileRedundant: "ok" is not one of ignore, warning, failure`,
				`0.match.threshold: "lower" is not a threshold: accepted are non-critical, critical and non-recoverable, with or without lower or upper before it`,
			},
		},
		"a rate": {
			`{name: a, match: {chassis: Drive Fault}, severity: failure, rate: {count: 1, per: 1s}}`,
			[]string{
				`0.rate.count: 1 is not between 2 and 100`,
				`0.rate.per: 1s is not between 1m and 2160h`,
				`0.rate: is for events: a flag of the chassis and an absence have none`,
			},
		},
		"a state that recurs": {
			`{name: a, match: {absent: true}, severity: failure, recurs: {count: 101, per: 24h}, rate: {count: 2, per: 1h}}`,
			[]string{
				`0.rate: is for events: a flag of the chassis and an absence have none`,
				`0.recurs.count: 101 is not between 2 and 100`,
				`0.recurs: is for events: a flag of the chassis and an absence have none`,
				`0.recurs: is not for a rule with a rate: that does not count single events`,
			},
		},
		"an event that its type does not have": {
			`{name: a, match: {sensorType: Battery, event: Uncorrectable ECC}, severity: failure}`,
			[]string{`0.match.event: "Uncorrectable ECC" is not a state of Battery: accepted are Low, Failed, Presence Detected, and those that all types may have, such as State Asserted`},
		},
		"an event that no type has": {
			`{name: a, match: {event: UECC}, severity: failure}`,
			[]string{`0.match.event: "UECC" is not a state in the words of ipmitool, such as Uncorrectable ECC`},
		},
		"an event of a threshold": {
			`{name: a, match: {event: Lower Critical going low}, severity: failure}`,
			[]string{`0.match.event: "Lower Critical going low" is not a state: for limits use threshold, as in upper critical`},
		},
		"a flag": {
			`{name: a, match: {chassis: Fan Fault}, severity: failure}`,
			[]string{`0.match.chassis: "Fan Fault" is not one of Chassis Intrusion, Cooling/Fan Fault, Drive Fault, Main Power Fault, Power Control Fault, Power Overload`},
		},
		"what does not go together": {
			`{name: a, match: {sensorName: PSU1, chassis: Drive Fault, absent: true}, severity: failure, latch: manual, whileRedundant: warning}`,
			[]string{
				`0.latch: "manual" is for events: a flag of the chassis and an absence are there as long as they are present`,
				`0.whileRedundant: is for the sensorType Power Supply only`,
				`0.match: has more than one of event, threshold, chassis and absent`,
				`0.match.chassis: is not for a sensor: leave out sensorType and sensorName`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var rules verdict.Rules
			if err := yaml.Unmarshal([]byte("["+tc.rule+"]"), &rules); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, mistake := range rules.Validate() {
				got = append(got, mistake.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnUnknownTypeIsAnsweredWithAllThatThereAre(t *testing.T) {
	got := verdict.Rules{{Name: "a", Match: verdict.Match{SensorType: "PSU"}, Severity: verdict.SeverityIgnore}}.Validate()
	if len(got) != 1 || !strings.Contains(got[0].Error(), `0.match.sensorType: "PSU" is not a type of sensors: accepted are Temperature, Voltage,`) {
		t.Errorf("got %v", got)
	}
}

func TestTheDefaultRulesAreValidAndEachCanMatch(t *testing.T) {
	names := map[string]bool{}
	for _, rule := range verdict.DefaultRules() {
		if rule.Why == "" || rule.Latch == "" || names[rule.Name] {
			t.Errorf("rule %q: no reason, no latch, or not the only one", rule.Name)
		}
		names[rule.Name] = true
		rule.Name = "not a default one"
		for _, mistake := range (verdict.Rules{rule}).Validate() {
			t.Errorf("rule %q: %v", rule.Name, mistake)
		}
	}
	for _, rule := range verdict.DefaultRules() {
		if !decides(t, rule.Name) {
			t.Errorf("rule %q never decides: another one before it matches the same", rule.Name)
		}
	}
}

// decides reports whether there is anything that the rule of that name decides.
func decides(t *testing.T, name string) bool {
	t.Helper()
	found := func(b *bmc) bool {
		for _, f := range b.judge().Failures {
			if f.Rule == name {
				return true
			}
		}
		return false
	}
	var rule verdict.Rule
	for _, rule = range verdict.DefaultRules() {
		if rule.Name == name {
			break
		}
	}
	b := newBMC(t)
	switch m := rule.Match; {
	case m.Absent && m.SensorType != "":
		const devicePresence ipmi.EventType = 0x08 // IPMI 2.0, table 42-2
		kind, _ := ipmi.ParseSensorType(m.SensorType)
		adds(ipmi.Sensor{Name: "Part", Number: 0x60, Type: kind, EventType: devicePresence, Available: true, States: 1 << 1})(b)
		b.judge()
		shows("Part", 1<<0)(b)
	case m.Absent:
		b.judge()
		b.pull("Disk0")
	case m.Chassis != "":
		b.in.Chassis = ipmi.Chassis{
			PowerOn: true, PowerOverload: true, MainPowerFault: true, PowerControlFault: true,
			Intrusion: true, DriveFault: true, CoolingFault: true,
		}
	default:
		return decidesEvent(t, rule, found)
	}
	return found(b)
}

func decidesEvent(t *testing.T, rule verdict.Rule, found func(*bmc) bool) bool {
	t.Helper()
	sensorType, known := ipmi.ParseSensorType(rule.Match.SensorType)
	if !known {
		sensorType = 0x0b // Other
	}
	for eventType := range ipmi.EventType(0x0e) {
		if eventType == 0x0d {
			eventType = ipmi.SensorSpecific
		}
		for offset := range uint8(15) {
			if at, ok := ipmi.FindState(sensorType, eventType, rule.Match.Event); eventType.Discrete() && (!ok || at != offset) {
				continue
			}
			b := newBMC(t)
			e := of(eventType, named(strings.ReplaceAll(rule.Match.SensorName, "*", ""), event(sensorType, 0x60, offset)))
			count := 1
			if rule.Rate != nil {
				count = rule.Rate.Count
			}
			b.log(slices.Repeat([]ipmi.Event{e}, count)...)
			if found(b) {
				return true
			}
		}
	}
	return false
}

func TestTheTableShowsEveryRule(t *testing.T) {
	table := verdict.DefaultRules().Table()
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for _, rule := range verdict.DefaultRules() {
		if count := strings.Count(table, "`"+rule.Name+"`"); count != 1 {
			t.Errorf("%s is there %d times", rule.Name, count)
		}
	}
	for _, line := range lines {
		if strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 6 {
			t.Errorf("not five cells: %s", line)
		}
	}
	for _, want := range []string{
		"| `memory-uncorrectable-ecc` | Memory: Uncorrectable ECC | failure | momentary | ",
		"| `memory-correctable-ecc` | Memory: Correctable ECC, 10 times within 24h | failure | momentary | ",
		"| `power-supply-input-lost`<br>`power-supply-input-lost-or-range` | Power Supply: Power Supply AC lost<br>Power Supply: AC lost or out-of-range | " +
			"warning | present | ",
		"| `limit-critical` | any sensor: at or beyond critical | warning | present | ",
		"chassis: Drive Fault | warning | present | ",
		"| `component-absent` | any sensor: absent | failure | present | ",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %s", want)
		}
	}
}
