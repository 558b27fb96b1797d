package verdict

import "time"

// Severity is what a rule makes of what it matches.
type Severity string

// All severities.
const (
	// SeverityIgnore: not looked at.
	SeverityIgnore Severity = "ignore"
	// SeverityWarning: shown, but the server stays in service.
	SeverityWarning Severity = "warning"
	// SeverityFailure: the server has failed.
	SeverityFailure Severity = "failure"
)

// Latch says what ends a failure. The package's comment has the reasons.
type Latch string

// All latches.
const (
	// LatchPresent: the end of the state.
	LatchPresent Latch = "present"
	// LatchMomentary: a cleared SEL, an acknowledgement, or a long outage.
	LatchMomentary Latch = "momentary"
	// LatchManual: an acknowledgement only.
	LatchManual Latch = "manual"
)

// Rules are tried in their order, and the default rules after them. The first one
// that matches decides.
type Rules []Rule

// Rule says what a state of a sensor, a flag of the chassis or an absence means.
type Rule struct {
	// Name is shown with what the rule has found.
	Name  string `yaml:"name"`
	Match Match  `yaml:"match"`
	// Severity is one of ignore, warning and failure.
	Severity Severity `yaml:"severity"`
	// WhileRedundant is the severity instead while the remaining power supplies are
	// redundant; for sensors of the type Power Supply.
	WhileRedundant Severity `yaml:"whileRedundant,omitempty"`
	// Rate, if set, is how often an event has to come before it counts.
	Rate *Rate `yaml:"rate,omitempty"`
	// Recurs, if set, has a state count that is over, too, once it has begun that often,
	// until it has not for that long.
	Recurs *Rate `yaml:"recurs,omitempty"`
	// Latch is one of present, momentary and manual; by default that of the
	// default rule for the same state, or else present.
	Latch Latch `yaml:"latch,omitempty"`
	// Why is the reason for the rule, for those who read it.
	Why string `yaml:"why,omitempty"`
}

// Match selects what a rule is for: all of its fields that are not empty have to
// fit. Of Event, Threshold, Chassis and Absent at most one is set; if none is, all
// states of the sensors match, and their absence.
type Match struct {
	// SensorType in the words of ipmitool, as "Power Supply".
	SensorType string `yaml:"sensorType,omitempty"`
	// SensorName is a pattern for the whole name in which * stands for any
	// characters and ? for one; upper and lower case are the same.
	SensorName string `yaml:"sensorName,omitempty"`
	// Event is a discrete state in the words of ipmitool, as "Uncorrectable ECC".
	Event string `yaml:"event,omitempty"`
	// Threshold is "non-critical", "critical" or "non-recoverable", with or without
	// "lower" or "upper" before it. It matches that limit only, not those beyond.
	Threshold string `yaml:"threshold,omitempty"`
	// Chassis is a flag of the chassis in the words of ipmitool, as "Drive Fault".
	Chassis string `yaml:"chassis,omitempty"`
	// Absent matches a component that was present before and is not any more.
	Absent bool `yaml:"absent,omitempty"`
}

// counted returns the rate by which events are counted; nil: they are not.
func (r Rule) counted() *Rate {
	if r.Rate != nil {
		return r.Rate
	}
	return r.Recurs
}

// Rate is Count events of one sensor and state within Per, or more.
type Rate struct {
	Count int           `yaml:"count" json:"count"`
	Per   time.Duration `yaml:"per" json:"per"`
}
