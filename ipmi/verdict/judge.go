package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/cut"
	"github.com/nodemend/nodemend/ipmi"
)

// active reports whether p is a failure, or warning, by the rule.
func (p *point) active(rule compiledRule, now time.Time) bool {
	isPresent := rule.Latch == LatchPresent
	switch {
	case rule.Rate == nil && (p.Asserted || p.Latched && !isPresent):
		return true
	case rule.counted() == nil || p.Reached == nil:
		return false
	default:
		return !isPresent || now.Sub(p.Reached.LastSeen) <= rule.counted().Per
	}
}

// byCount reports whether p, which is active, is so as it came that often.
func (p *point) byCount(rule compiledRule) bool {
	return rule.Rate != nil || rule.Recurs != nil && !p.Asserted && (!p.Latched || rule.Latch == LatchPresent)
}

// verdict judges what is known now.
func (j *judgement) verdict() Verdict {
	j.feeds = j.findFeeds()
	failures := append(j.failures(), j.absences()...)
	j.weaken(failures)
	failures = mostExtreme(failures)
	doubts := j.doubts()
	blind := j.blind()
	certain, uncertain, forgotten := false, false, false
	for i := range failures {
		f := &failures[i].Failure
		f.Unconfirmed = f.Unconfirmed || blind
		certain = certain || f.Counts() && !f.Unconfirmed
		uncertain = uncertain || f.Counts() && f.Unconfirmed
		forgotten = forgotten || f.Counts() && f.forgotten
	}
	if forgotten {
		doubts = append(doubts, doubt{
			ReasonUnconfirmed,
			"what was remembered of this server is lost, so that old records may count or not: acknowledge them, or clear the SEL",
		})
	}
	if uncertain && !certain && len(doubts) == 0 {
		doubts = append(doubts, doubt{ReasonUnconfirmed, "the sensor of a known failure has no reading"})
	}
	status := Healthy
	switch {
	case certain:
		status = Failed
	case len(doubts) > 0:
		status = CannotTell
	}
	v := Verdict{Status: status, Failures: ordered(failures)}
	v.Reason = reason(status, v.Failures, doubts)
	v.Message = message(status, v.Failures, doubts, j.unreadable(), j.seen())
	return v
}

// found is a failure with where it comes from.
type found struct {
	Failure
	subject subject
	// over is whether the state is over, and counts as it came that often.
	over bool
}

// weaken makes warnings of failures that the lost input of a supply explains.
func (j *judgement) weaken(failures []found) {
	for i := range failures {
		f := &failures[i]
		if f.subject.Chassis != "" || f.Severity != SeverityFailure || j.rules.lackOfInput(f.subject) || shorts(f.subject.key) {
			continue
		}
		if f.NoInput = j.explains(j.feeds, f.subject.sensor()); f.NoInput != "" {
			f.Severity = SeverityWarning
		}
		if _, ok := j.supplyEntity(f.subject.sensor()); ok && f.over {
			f.Severity = SeverityWarning // its feed may have come and gone
		}
	}
}

// failures returns what the points are by the rules.
func (j *judgement) failures() []found {
	var all []found
	for _, p := range j.points {
		s := p.subject()
		rule, ok := j.rules.find(s)
		severity := rule.severity(j.memory.Redundant)
		if !ok || severity == SeverityIgnore || !p.active(rule, j.in.Now) {
			continue
		}
		sensor := j.sensors[p.sensor()]
		f := Failure{
			ID:           p.id(),
			Component:    j.component(s),
			Kind:         kindOf(s),
			What:         what(s, sensor),
			Severity:     severity,
			Since:        p.Since,
			Source:       "sensor " + s.name,
			Rule:         rule.Name,
			Unconfirmed:  p.Forgotten || !j.confirms(p, rule),
			History:      p.History && !p.Forgotten,
			Acknowledged: p.acknowledged(rule),
			forgotten:    p.Forgotten,
			rank:         rule.rank,
		}
		f.Path, f.Identity, f.Said = p.Path, sensor.Identity, sensor.Said
		if s.Located == ipmi.OfLog {
			f.What += ": " + p.Data
		}
		last := p.Record
		if p.byCount(rule) {
			rate := rule.counted()
			last, f.Since = p.Reached.Record, p.Reached.Since
			f.What = fmt.Sprintf("%s, %d times within %s", what(s, ipmi.Sensor{}), rate.Count, cut.Zeros(rate.Per))
		}
		f.Module, f.Candidates = j.modulesOf(s)
		switch {
		case last.ID != 0:
			f.Record, f.recorded, f.Source, f.Data = last.ID, last.Time, fmt.Sprintf("SEL 0x%02x", last.ID), p.Data
			f.Raw = rawRecord(p.Raw)
		case s.Chassis != "":
			f.Source = "chassis status"
		case s.Type == eventLogging && s.State == logFull:
			f.Source = "SEL info"
		default:
			f.Raw = rawSensor(sensor, s.sensor())
		}
		all = append(all, found{f, s, rule.Rate == nil && p.byCount(rule)})
	}
	return all
}

// confirms reports whether p, which is active, can be relied on: what is latched
// can, what has a state only if that was read.
func (j *judgement) confirms(p *point, rule compiledRule) bool {
	switch {
	case p.Chassis != "":
		return j.in.ChassisError == nil
	case (j.logReread || j.in.LogError != nil && !unread(j.in.LogError)) && p.Record.ID != 0 && !p.Shown:
		return false // a later record may end it
	case p.Name == "" && j.in.SensorsError != nil && j.rules.nameSensors():
		return false // one of the rules may be for it
	case rule.Latch != LatchPresent || rule.Rate != nil:
		return true
	case p.byCount(rule):
		return j.sensors != nil // else it is not known whether it is a part of a supply
	case p.Type == eventLogging && p.State == logFull:
		return !unread(j.in.LogError)
	case j.sensors == nil || j.missed(p.sensor()):
		return false
	}
	s, ok := j.sensors[p.sensor()]
	return !ok || s.Available && !j.blank[p.sensor()] || j.provedByLog(p)
}

// absences returns the components that are not there any more.
func (j *judgement) absences() []found {
	var all []found
	for _, c := range j.memory.Parts {
		s := c.subject()
		rule, ok := j.rules.find(s)
		severity := rule.severity(j.memory.Redundant)
		if !c.Gone || !ok || severity == SeverityIgnore {
			continue
		}
		all = append(all, found{Failure{
			ID:           c.id(),
			Component:    component(s),
			Kind:         kindOf(s),
			What:         what(s, ipmi.Sensor{}),
			Severity:     severity,
			Since:        c.Missing,
			Source:       "sensor " + s.name,
			Raw:          rawSensor(j.sensors[c.sensorKey], c.sensorKey),
			Rule:         rule.Name,
			Unconfirmed:  j.sensors == nil || j.missed(c.sensorKey) || !j.reached(c.sensorKey),
			Acknowledged: c.Ack,
			rank:         rule.rank,
		}, s, false})
	}
	return all
}

func (c compiledRule) severity(redundant bool) Severity {
	if redundant && c.WhileRedundant != "" {
		return c.WhileRedundant
	}
	return c.Severity
}

// mostExtreme leaves out the limits of a sensor beyond which another limit is
// passed that counts as much.
func mostExtreme(all []found) []found {
	type side struct {
		sensorKey
		upper bool
	}
	sideOf := func(f found) side { return side{f.subject.sensor(), f.subject.State >= 3} }
	return slices.DeleteFunc(slices.Clone(all), func(f found) bool {
		if f.subject.Chassis != "" || f.subject.absent || f.subject.EventType.Discrete() {
			return false
		}
		return slices.ContainsFunc(all, func(other found) bool {
			return other.subject.Chassis == "" && !other.subject.absent && sideOf(other) == sideOf(f) && other.subject.State > f.subject.State &&
				other.weight() >= f.weight() && other.Unconfirmed == f.Unconfirmed
		})
	})
}

// weight is what f counts.
func (f Failure) weight() int {
	switch {
	case f.Acknowledged != nil || f.History:
		return 0
	case f.Severity == SeverityFailure:
		return 2
	default:
		return 1
	}
}

// ordered returns the failures, those first that people have to look at first.
func ordered(all []found) []Failure {
	failures := make([]Failure, 0, len(all))
	for _, f := range all {
		failures = append(failures, f.Failure)
	}
	slices.SortFunc(failures, func(a, b Failure) int {
		return cmp.Or(
			cmp.Compare(b.weight(), a.weight()),
			cmp.Compare(unsure(a), unsure(b)),
			cmp.Compare(a.rank, b.rank),
			a.Since.Compare(b.Since),
			strings.Compare(a.Component, b.Component),
			strings.Compare(a.What, b.What),
			strings.Compare(a.Source, b.Source),
		)
	})
	return failures
}

func unsure(f Failure) int {
	if f.Unconfirmed {
		return 1
	}
	return 0
}
