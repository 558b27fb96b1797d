package verdict

import (
	"errors"
	"slices"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// usable reports whether the sensors tell anything: while the chassis is off their
// readings mean nothing, and while the BMC restarts none is available.
func (j *judgement) usable() bool {
	return !unread(j.in.SensorsError) && !j.poweredOff() &&
		slices.ContainsFunc(j.in.Sensors, func(s ipmi.Sensor) bool { return s.Available })
}

// unread reports whether a part could not be read at all.
func unread(err error) bool { return err != nil && !errors.Is(err, ipmi.ErrPartial) }

func (j *judgement) poweredOff() bool { return j.in.ChassisError == nil && !j.in.Chassis.PowerOn }

// index returns the sensors by their keys. Sensors with one key, as of controllers that
// the source can't tell apart, are taken together: what any of them shows counts.
func index(sensors []ipmi.Sensor) map[sensorKey]ipmi.Sensor {
	byKey := make(map[sensorKey]ipmi.Sensor, len(sensors))
	for _, s := range sensors {
		k := keyOf(s)
		if !s.Available {
			s.States, s.Reading = 0, nil
		}
		if other, ok := byKey[k]; ok {
			other.States |= s.States
			other.Available = other.Available || s.Available
			s = other
		}
		byKey[k] = s
	}
	return byKey
}

// findSensors takes note of which points still have a sensor. That of a removed card
// is gone, and must not hold back what a power-off releases.
func (j *judgement) findSensors() {
	if j.sensors == nil {
		return
	}
	j.adopt()
	for k, p := range j.points {
		s, ok := j.sensors[k.sensor()]
		switch {
		case k.Chassis != "":
		case !ok:
			p.Shown = false
		case p.Name == "":
			p.Name = clean(s.Name)
			fallthrough
		default:
			p.Part = j.partOf(s)
		}
	}
}

// readSensors takes note of the present states.
func (j *judgement) readSensors() {
	if j.sensors == nil {
		for _, p := range j.points {
			p.Unread = time.Time{}
		}
		return
	}
	j.findBlanks()
	for _, p := range j.points {
		j.watch(p)
	}
	located := j.located()
	for k, s := range j.sensors {
		if !s.Available || j.blank[k] {
			continue
		}
		count := uint8(15)
		if !s.EventType.Discrete() {
			count = uint8(len(limitNames))
		}
		for state := range count {
			shown := s.States&(1<<state) != 0
			if isOf(located[k.state(state)], shown) && j.points[k.state(state)] == nil {
				continue
			}
			j.show(k.state(state), shown, s.Name)
			if p := j.points[k.state(state)]; p != nil {
				p.Part = j.partOf(s)
			}
		}
	}
	j.memory.Redundant = redundant(j.sensors)
}

// located returns the points of sensors that are about one of several parts, by what the
// sensor itself shows of them.
func (j *judgement) located() map[key][]*point {
	all := make(map[key][]*point)
	for k, p := range j.points {
		if k.Located != "" {
			all[k.anywhere()] = append(all[k.anywhere()], p)
		}
	}
	return all
}

// isOf notes in the points of a sensor's parts whether the sensor shows their state, and
// reports whether it does so of one of them.
func isOf(points []*point, shown bool) (ok bool) {
	for _, p := range points {
		p.Asserted = p.Asserted && shown
		p.Shown = p.Asserted
		if p.Shown {
			p.endHistory()
		}
		ok = ok || p.Asserted
	}
	return ok
}

// unreadFor is how long a sensor has to be without a reading, while others have one, for
// the SEL to be believed without it.
const unreadFor = 10 * time.Minute

// watch takes note of whether the sensor of p has a reading.
func (j *judgement) watch(p *point) {
	s, ok := j.sensors[p.sensor()]
	switch {
	case p.Chassis != "" || !ok || s.Available && !j.blank[p.sensor()]:
		p.Unread = time.Time{}
	case j.reached(p.sensor()) && (p.Unread.IsZero() || j.in.Now.Before(p.Unread)):
		p.Unread = j.in.Now
	}
}

// provedByLog reports whether the SEL proves p although its sensor has no reading.
func (j *judgement) provedByLog(p *point) bool {
	return p.Live && p.Record.ID != 0 && !p.Unread.IsZero() && j.in.Now.Sub(p.Unread) >= unreadFor
}

// readChassis takes note of the flags.
func (j *judgement) readChassis() {
	if j.in.ChassisError != nil {
		return
	}
	for flag, set := range flags(j.in.Chassis) {
		j.show(key{Chassis: flag}, set, "")
	}
}

// show notes whether the state k is there now.
func (j *judgement) show(k key, shown bool, name string) {
	p := j.points[k]
	if !shown {
		if p != nil {
			p.Asserted, p.Shown = false, false
		}
		return
	}
	if p == nil {
		p = &point{key: k, Name: clean(name)}
		s := p.subject()
		rule, ok := j.rules.find(s)
		if (!ok || rule.Severity == SeverityIgnore) && !j.rules.lackOfInput(s) {
			return
		}
		j.points[k] = p
	}
	if name = clean(name); name != "" {
		p.Name = name
	}
	if !p.Asserted { // anew
		p.Ack = nil
		if !p.Latched {
			p.Since = j.in.Now
		}
	}
	p.endHistory()
	p.Asserted, p.Latched, p.Shown, p.Boot = true, true, true, j.in.BootID
}

// redundant reports whether the power supplies that are left back each other up.
// Sensors of redundancy know; without any, two others that work are enough.
func redundant(sensors map[sensorKey]ipmi.Sensor) bool {
	const (
		redundancy ipmi.EventType  = 0x0b
		powerUnit  ipmi.SensorType = 0x09
		supply     ipmi.SensorType = 0x08

		lost    = 1<<1 | 1<<3 | 1<<4 | 1<<5 // Redundancy Lost, all Non-Redundant
		present = 1 << 0
		broken  = 1<<1 | 1<<3 | 1<<4 // Failure detected, input lost
	)
	working, known, anyLost := 0, false, false
	for _, s := range sensors {
		switch {
		case !s.Available || s.States == 0:
		case s.EventType == redundancy && (s.Type == powerUnit || s.Type == supply):
			known = true
			anyLost = anyLost || s.States&lost != 0
		case s.EventType == ipmi.SensorSpecific && s.Type == supply && s.States&present != 0 && s.States&broken == 0:
			working++
		}
	}
	if known {
		return !anyLost
	}
	return working >= 2
}
