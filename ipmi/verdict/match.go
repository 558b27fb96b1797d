package verdict

import (
	"regexp"
	"slices"
	"strings"

	"github.com/nodemend/nodemend/ipmi"
)

// subject is what rules are matched with: a state of a sensor, a flag of the
// chassis, or the absence of what a sensor belongs to.
type subject struct {
	key
	name   string // of the sensor
	part   string // what people call it, if the name does not tell
	absent bool
	live   bool // as point.Live
}

func (p point) subject() subject {
	return subject{key: p.key, name: sensorName(p.Name, p.Type, p.Number), part: p.Part, live: p.Live}
}

func (c part) subject() subject {
	return subject{key: c.state(0), name: sensorName(c.Name, c.Type, c.Number), part: c.Part, absent: true}
}

// ruleSet are rules that are ready to be matched, the default ones included.
type ruleSet []compiledRule

type compiledRule struct {
	Rule
	sensorType ipmi.SensorType
	name       *regexp.Regexp
	limits     uint16
	isDefault  bool
	rank       int
}

func compile(rules Rules) ruleSet {
	var set ruleSet
	add := func(rule Rule, isDefault bool) {
		c := compiledRule{Rule: rule, isDefault: isDefault, rank: len(set)}
		if name := rule.Match.SensorType; name != "" {
			var known bool
			if c.sensorType, known = ipmi.ParseSensorType(name); !known {
				return
			}
		}
		if rule.Match.SensorName != "" {
			c.name = pattern(rule.Match.SensorName)
		}
		c.limits = limitsOf(rule.Match.Threshold)
		set = append(set, c)
	}
	for _, rule := range rules {
		add(rule, false)
	}
	for _, rule := range DefaultRules() {
		add(rule, true)
	}
	return set
}

// nameSensors reports whether a rule of people is for sensors of a name.
func (set ruleSet) nameSensors() bool {
	return slices.ContainsFunc(set, func(c compiledRule) bool { return !c.isDefault && c.name != nil })
}

// find returns the first rule that matches s, with its latch settled.
func (set ruleSet) find(s subject) (compiledRule, bool) {
	for _, c := range set {
		if !c.matches(s) {
			continue
		}
		if c.Latch == "" {
			c.Latch = set.defaultLatch(s)
		}
		return c, true
	}
	return compiledRule{}, false
}

func (set ruleSet) defaultLatch(s subject) Latch {
	for _, c := range set {
		if c.isDefault && c.Latch != "" && c.matches(s) {
			return c.Latch
		}
	}
	return LatchPresent
}

func (c compiledRule) matches(s subject) bool {
	m := c.Match
	if s.Chassis != "" {
		return strings.EqualFold(m.Chassis, s.Chassis)
	}
	if m.Chassis != "" || m.SensorType != "" && c.sensorType != s.Type || c.name != nil && !c.name.MatchString(s.name) {
		return false
	}
	switch {
	case m.Absent:
		return s.absent
	case m.Event != "":
		offset, known := ipmi.FindState(s.Type, s.EventType, m.Event)
		return !s.absent && s.EventType.Discrete() && known && offset == s.State
	case m.Threshold != "":
		return !s.absent && !s.EventType.Discrete() && c.limits&(1<<s.State) != 0
	default:
		return true
	}
}

// pattern turns a pattern for names into a regular expression.
func pattern(text string) *regexp.Regexp {
	quoted := regexp.QuoteMeta(strings.ToValidUTF8(text, "?"))
	quoted = strings.ReplaceAll(quoted, `\*`, `.*`)
	quoted = strings.ReplaceAll(quoted, `\?`, `.`)
	return regexp.MustCompile(`(?is)\A` + quoted + `\z`)
}

// Names of the limits by their bits, as rules have them.
var limitNames = [...]string{
	"lower non-critical", "lower critical", "lower non-recoverable",
	"upper non-critical", "upper critical", "upper non-recoverable",
}

// limitsOf returns the bits of the limits that a rule's threshold names; 0 if it is
// none.
func limitsOf(threshold string) (bits uint16) {
	threshold = strings.ToLower(strings.TrimSpace(threshold))
	for bit, name := range limitNames {
		_, level, _ := strings.Cut(name, " ")
		if threshold == name || threshold == level {
			bits |= 1 << bit
		}
	}
	return bits
}

// Flags of the chassis, in the words of ipmitool.
const (
	flagPowerOverload     = "Power Overload"
	flagMainPowerFault    = "Main Power Fault"
	flagPowerControlFault = "Power Control Fault"
	flagDriveFault        = "Drive Fault"
	flagCoolingFault      = "Cooling/Fan Fault"
	flagIntrusion         = "Chassis Intrusion"
)

// flags returns all flags and whether they are set.
func flags(c ipmi.Chassis) map[string]bool {
	return map[string]bool{
		flagPowerOverload:     c.PowerOverload,
		flagMainPowerFault:    c.MainPowerFault,
		flagPowerControlFault: c.PowerControlFault,
		flagDriveFault:        c.DriveFault,
		flagCoolingFault:      c.CoolingFault,
		flagIntrusion:         c.Intrusion,
	}
}
