package verdict

import (
	"fmt"
	"slices"
	"strings"
)

// Reasons of a verdict besides those of failures, which are the kind of the
// component and "Failure", as "MemoryFailure".
const (
	ReasonHealthy  = "HardwareHealthy"
	ReasonMultiple = "MultipleFailures"
	// Reasons why it can't be told.
	ReasonUnreachable        = "BMCUnreachable"
	ReasonPoweredOff         = "ChassisPoweredOff"
	ReasonSensorsUnreadable  = "SensorsUnreadable"
	ReasonSensorsUnavailable = "SensorsUnavailable"
	ReasonLogUnreadable      = "EventLogUnreadable"
	ReasonLogDoubtful        = "EventLogDoubtful"
	ReasonChassisUnreadable  = "ChassisUnreadable"
	ReasonComponentMissing   = "ComponentMissing"
	ReasonUnconfirmed        = "FailureUnconfirmed"
)

// doubt is why a server can't be called healthy although nothing was found.
type doubt struct{ reason, text string }

// blind reports whether so little could be read that nothing is certain.
func (j *judgement) blind() bool {
	return j.poweredOff() || j.in.ChassisError != nil && unread(j.in.SensorsError) && unread(j.in.LogError)
}

// doubts returns the reasons for doubt, the gravest first.
func (j *judgement) doubts() (doubts []doubt) {
	add := func(reason, format string, args ...any) {
		doubts = append(doubts, doubt{reason, fmt.Sprintf(format, args...)})
	}
	switch {
	case j.poweredOff():
		add(ReasonPoweredOff, "the chassis is powered off")
	case j.blind():
		add(ReasonUnreachable, "the BMC can't be read: %s", explain(j.in.SensorsError))
		return doubts
	case j.in.SensorsError != nil:
		add(ReasonSensorsUnreadable, "the sensors can't be read: %s", explain(j.in.SensorsError))
	case j.sensors == nil:
		add(ReasonSensorsUnavailable, "none of %d sensors is available", len(j.in.Sensors))
	case j.mostFail():
		add(ReasonSensorsUnreadable, "most sensors can't be read")
	}
	if j.in.LogError != nil {
		add(ReasonLogUnreadable, "the SEL can't be read: %s", explain(j.in.LogError))
	}
	if j.logDoubted {
		add(ReasonLogDoubtful, "the SEL has %d records, not %d or more as before, and does not say that it was cleared", j.in.Log.Total, j.memory.Total)
	}
	if j.logReread {
		add(ReasonLogUnreadable, "the SEL is read once more: it is another one than before")
	}
	if j.in.ChassisError != nil {
		add(ReasonChassisUnreadable, "the state of the chassis can't be read: %s", explain(j.in.ChassisError))
	}
	for _, c := range j.memory.Parts {
		if !j.reached(c.sensorKey) {
			continue
		}
		s := c.subject()
		if j.explains(j.feeds, c.sensorKey) != "" {
			continue
		}
		if rule, ok := j.rules.find(s); !c.Missing.IsZero() && !c.Gone && c.Ack == nil && ok && rule.Severity == SeverityFailure {
			add(ReasonComponentMissing, "%s: had a reading before and has none now", component(s))
		}
	}
	return doubts
}

// mostFail reports whether so many sensors can't be read that it is no fault of theirs, as
// while the BMC restarts.
func (j *judgement) mostFail() bool {
	failed := 0
	for _, s := range j.in.Sensors {
		if !s.Available && s.Problem != "" {
			failed++
		}
	}
	return 2*failed > len(j.in.Sensors)
}

// reached reports whether there was time to read a sensor.
func (j *judgement) reached(k sensorKey) bool {
	s, ok := j.sensors[k]
	return j.in.SensorsError == nil || ok && (s.Available || s.Problem != "")
}

// missed reports whether a sensor may be in a list that could not be read. Only of resources there
// are several: IPMI lists all sensors or none. One that never could be has told of no failure.
func (j *judgement) missed(k sensorKey) bool {
	if _, listed := j.sensors[k]; listed || k.Path == "" {
		return false
	}
	return j.in.SensorsError != nil || slices.ContainsFunc(j.memory.Parts, func(c part) bool {
		s, listed := j.sensors[c.sensorKey]
		return listed && s.Path != "" && s.Type == typeEntity && !s.Available // which leads to one
	})
}

// unreadable tells of the sensors that can't be read or believed, which costs these only.
func (j *judgement) unreadable() []string {
	const most = 3
	var all []string
	for _, s := range j.in.Sensors {
		if s.Problem != "" {
			all = append(all, clip(printable(s.Problem), maxProblem))
		}
	}
	if len(all) == 0 {
		return nil
	}
	text := strings.Join(all[:min(most, len(all))], ", ")
	if len(all) > most {
		text += ", ..."
	}
	return []string{fmt.Sprintf("warning: %d of %d sensors have a problem: %s", len(all), len(j.in.Sensors), text)}
}

// explain returns an error as a part of a line.
func explain(err error) string {
	const most = 200
	return clip(printable(err.Error()), most)
}

// seen tells how much was looked at.
func (j *judgement) seen() string {
	available := 0
	for _, s := range j.in.Sensors {
		if s.Available {
			available++
		}
	}
	return fmt.Sprintf("no hardware failure: %d of %d sensors available, %d SEL records", available, len(j.in.Sensors), j.in.Log.Total)
}

// reason returns one word for the verdict.
func reason(status Status, failures []Failure, doubts []doubt) string {
	switch status {
	case Failed:
		var kind Kind
		for _, f := range failures {
			switch {
			case !f.Counts() || f.Unconfirmed || f.Kind == kind:
			case kind == "":
				kind = f.Kind
			default:
				return ReasonMultiple
			}
		}
		return string(kind) + "Failure"
	case CannotTell:
		return doubts[0].reason
	default:
		return ReasonHealthy
	}
}

// maxProblem is how many bytes of it are for the problem of a sensor.
const maxProblem = 120

// MaxMessage is how many bytes a message has at most.
const MaxMessage = 900

// message writes a verdict for people.
func message(status Status, failures []Failure, doubts []doubt, unreadable []string, seen string) string {
	var known, unsure []string
	rest := slices.Clone(unreadable)
	for _, f := range failures {
		switch {
		case f.Acknowledged != nil:
			rest = append(rest, fmt.Sprintf("acknowledged by %s: %s", f.Acknowledged.By, f))
		case f.History:
			rest = append(rest, "in the log from before the first look: "+f.String())
		case f.Severity == SeverityWarning:
			rest = append(rest, "warning: "+f.String())
		case f.forgotten:
			known = append(known, "in the log from before that: "+f.String())
		case f.Unconfirmed:
			known = append(known, "known before: "+f.String())
		default:
			known = append(known, f.String())
		}
	}
	for _, d := range doubts {
		unsure = append(unsure, d.text)
	}
	var items []string
	switch status {
	case Failed:
		items = slices.Concat(known, unsure, rest)
	case CannotTell:
		items = slices.Concat(unsure, known, rest)
	default:
		items = append([]string{seen}, rest...)
	}
	return fit(items)
}

// fit joins as many items as a message holds, and counts the others.
func fit(items []string) string {
	const reserve = len("; and 65535 more")
	var text strings.Builder
	for i, item := range items {
		room := MaxMessage - text.Len() - len("; ") - len(item)
		if isLast := i == len(items)-1; room < 0 || !isLast && room < reserve {
			fmt.Fprintf(&text, "; and %d more", len(items)-i)
			break
		}
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(item)
	}
	return text.String()
}

// String returns "DIMM_A1: uncorrectable ECC (SEL 0x07, 2026-11-21T05:48Z)".
func (f Failure) String() string {
	text := f.Component + ": " + f.What
	if f.NoInput != "" && f.NoInput != f.Component {
		text += ", as " + f.NoInput + " has no input"
	} else if f.NoInput != "" {
		text += ", as it has no input"
	}
	switch {
	case f.Record == 0:
		return text
	case f.recorded.IsZero():
		return fmt.Sprintf("%s (%s)", text, f.Source)
	default:
		return fmt.Sprintf("%s (%s, %s)", text, f.Source, f.recorded.Format("2006-01-02T15:04Z"))
	}
}
