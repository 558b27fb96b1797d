package verdict

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/ipmi"
)

// Limits of a rate.
const (
	maxRateCount = 100
	minRatePer   = time.Minute
	maxRatePer   = 90 * 24 * time.Hour
)

// Mistake is a value in rules that can't be accepted.
type Mistake struct {
	// Path leads to it from the list of rules: "2", "match", "sensorType".
	Path []string
	Text string
}

func (m Mistake) Error() string { return strings.Join(m.Path, ".") + ": " + m.Text }

// Validate returns all that is wrong with the rules.
func (r Rules) Validate() []Mistake {
	var found []Mistake
	names := make(map[string]bool)
	for _, rule := range DefaultRules() {
		names[rule.Name] = true
	}
	for i, rule := range r {
		v := validation{&found, []string{strconv.Itoa(i)}}
		switch {
		case rule.Name == "":
			v.add("is missing: a rule needs one, as failures show it", "name")
		case names[rule.Name]:
			v.add(fmt.Sprintf("%q is the name of another rule, or of a default one", rule.Name), "name")
		}
		names[rule.Name] = true
		v.rule(rule)
		v.match(rule.Match)
	}
	return found
}

// validation collects the mistakes of one rule.
type validation struct {
	found *[]Mistake
	path  []string
}

func (v validation) add(text string, path ...string) {
	*v.found = append(*v.found, Mistake{Path: append(slices.Clone(v.path), path...), Text: text})
}

// oneOf wants value to be accepted.
func oneOf[T ~string](v validation, value T, accepted []T, path ...string) {
	if slices.Contains(accepted, value) {
		return
	}
	words := make([]string, 0, len(accepted))
	for _, a := range accepted {
		words = append(words, string(a))
	}
	v.add(fmt.Sprintf("%q is not one of %s", value, strings.Join(words, ", ")), path...)
}

func (v validation) rule(rule Rule) {
	severities := []Severity{SeverityIgnore, SeverityWarning, SeverityFailure}
	oneOf(v, rule.Severity, severities, "severity")
	if rule.Latch != "" {
		oneOf(v, rule.Latch, []Latch{LatchPresent, LatchMomentary, LatchManual}, "latch")
	}
	if rule.Latch != "" && rule.Latch != LatchPresent && (rule.Match.Absent || rule.Match.Chassis != "") {
		v.add(fmt.Sprintf("%q is for events: a flag of the chassis and an absence are there as long as they are present", rule.Latch), "latch")
	}
	if rule.WhileRedundant != "" {
		oneOf(v, rule.WhileRedundant, severities, "whileRedundant")
		if !strings.EqualFold(rule.Match.SensorType, "Power Supply") {
			v.add("is for the sensorType Power Supply only", "whileRedundant")
		}
	}
	v.rate(rule, rule.Rate, "rate")
	v.rate(rule, rule.Recurs, "recurs")
	if rule.Rate != nil && rule.Recurs != nil {
		v.add("is not for a rule with a rate: that does not count single events", "recurs")
	}
}

func (v validation) rate(rule Rule, rate *Rate, field string) {
	if rate == nil {
		return
	}
	if rate.Count < 2 || rate.Count > maxRateCount {
		v.add(fmt.Sprintf("%d is not between 2 and %d", rate.Count, maxRateCount), field, "count")
	}
	if rate.Per < minRatePer || rate.Per > maxRatePer {
		v.add(fmt.Sprintf("%s is not between %s and %s", cut.Zeros(rate.Per), cut.Zeros(minRatePer), cut.Zeros(maxRatePer)), field, "per")
	}
	if rule.Match.Chassis != "" || rule.Match.Absent {
		v.add("is for events: a flag of the chassis and an absence have none", field)
	}
}

func (v validation) match(m Match) {
	if m == (Match{}) {
		v.add("is empty: name at least one of sensorType, sensorName, event, threshold, chassis, absent", "match")
		return
	}
	selectors := 0
	for _, set := range []bool{m.Event != "", m.Threshold != "", m.Chassis != "", m.Absent} {
		if set {
			selectors++
		}
	}
	if selectors > 1 {
		v.add("has more than one of event, threshold, chassis and absent", "match")
	}
	sensorType, known := ipmi.ParseSensorType(m.SensorType)
	if m.SensorType != "" && !known {
		v.add(fmt.Sprintf("%q is not a type of sensors: accepted are %s", m.SensorType, strings.Join(sensorTypes(), ", ")), "match", "sensorType")
	}
	if m.Chassis != "" {
		oneOfFold(v, m.Chassis, slices.Sorted(maps.Keys(flags(ipmi.Chassis{}))), "match", "chassis")
		if m.SensorType != "" || m.SensorName != "" {
			v.add("is not for a sensor: leave out sensorType and sensorName", "match", "chassis")
		}
	}
	if m.Threshold != "" && limitsOf(m.Threshold) == 0 {
		v.add(fmt.Sprintf("%q is not a threshold: accepted are non-critical, critical and non-recoverable, with or without lower or upper before it", m.Threshold),
			"match", "threshold")
	}
	if m.Event != "" && (known || m.SensorType == "") {
		v.event(m.Event, sensorType, m.SensorType != "")
	}
}

// event wants a name that sensors have, or those of one type.
func (v validation) event(name string, only ipmi.SensorType, isTyped bool) {
	types := []ipmi.SensorType{only}
	if !isTyped {
		types = allTypes()
	}
	var accepted []string
	for _, e := range eventTypes() {
		for _, t := range types {
			if _, ok := ipmi.FindState(t, e, name); ok {
				return
			}
			for offset := range uint8(16) {
				if known := ipmi.StateName(t, e, offset); isTyped && e == ipmi.SensorSpecific && known != "" {
					accepted = append(accepted, known)
				}
			}
		}
	}
	text := fmt.Sprintf("%q is not a state", name)
	switch _, isLimit := ipmi.FindState(0, ipmi.Threshold, name); {
	case isLimit:
		text += ": for limits use threshold, as in upper critical"
	case len(accepted) > 0:
		text += fmt.Sprintf(" of %s: accepted are %s, and those that all types may have, such as State Asserted", only, strings.Join(accepted, ", "))
	default:
		text += " in the words of ipmitool, such as Uncorrectable ECC"
	}
	v.add(text, "match", "event")
}

func oneOfFold(v validation, value string, accepted []string, path ...string) {
	for _, a := range accepted {
		if strings.EqualFold(a, value) {
			return
		}
	}
	oneOf(v, value, accepted, path...)
}

// eventTypes returns those of discrete sensors.
func eventTypes() []ipmi.EventType {
	types := []ipmi.EventType{ipmi.SensorSpecific}
	for e := ipmi.Threshold + 1; e <= 0x0c; e++ {
		types = append(types, e)
	}
	return types
}

// allTypes returns the types of sensors that the standard defines.
func allTypes() (types []ipmi.SensorType) {
	for t := ipmi.SensorType(1); t <= 0x2c; t++ {
		types = append(types, t)
	}
	return types
}

func sensorTypes() (names []string) {
	for _, t := range allTypes() {
		names = append(names, t.String())
	}
	return names
}
