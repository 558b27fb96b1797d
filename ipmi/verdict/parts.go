package verdict

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// absentAfter is how long a component's sensor has to have no state at all, while others
// have one, for the component to be absent. A BMC takes a minute or two to find
// all components after it or the server has started.
const absentAfter = 3 * time.Minute

// part is a component that was present once.
type part struct {
	sensorKey
	Name string `json:"name,omitempty"`
	// Part is what people call it, if the name does not tell.
	Part   string      `json:"part,omitempty"`
	Entity ipmi.Entity `json:"entity,omitzero"`
	// Missing is since when it is not there; zero while it is.
	Missing time.Time `json:"missing,omitzero"`
	// Gone is whether that is certain: its sensor says so, or has had no state for
	// long.
	Gone bool `json:"gone,omitempty"`
	// Removed is whether the SEL says that it was, after it was there last.
	Removed bool             `json:"removed,omitempty"`
	Ack     *Acknowledgement `json:"ack,omitempty"`
}

// presence returns the states by which a discrete sensor says that its component is
// there, and that it is not (IPMI 2.0, tables 42-2 and 42-3); 0 if it has none.
func presence(t ipmi.SensorType, e ipmi.EventType) (present, absent uint16) {
	const devicePresence ipmi.EventType = 0x08
	switch e {
	case devicePresence:
		return 1 << 1, 1 << 0
	case ipmi.SensorSpecific:
	default:
		return 0, 0
	}
	switch t {
	case 0x07: // Processor
		return 1 << 7, 0
	case 0x08, 0x0d: // Power Supply, Drive Slot
		return 1 << 0, 0
	case 0x0c: // Memory
		return 1 << 6, 0
	case 0x21, 0x29: // Slot, Battery
		return 1 << 2, 0
	case 0x25: // Entity Presence
		return 1 << 0, 1 << 1
	default:
		return 0, 0
	}
}

// isPresent reports whether an available sensor proves that its component is there.
func isPresent(s ipmi.Sensor) bool {
	if present, absent := presence(s.Type, s.EventType); present != 0 {
		return s.States&present != 0 && s.States&absent == 0
	}
	switch s.Type {
	case 0x04, 0x08, 0x0a, 0x0c, 0x0d: // Fan, Power Supply, Cooling Device, Memory, Drive Slot
		return !s.EventType.Discrete()
	default:
		return false
	}
}

// readParts takes note of what is present, and of what is not any more.
func (j *judgement) readParts() {
	if j.sensors == nil {
		return
	}
	owned := make(map[sensorKey]bool, len(j.memory.Parts))
	for _, c := range j.memory.Parts {
		owned[c.sensorKey] = true
	}
	var strangers []sensorKey // present, and not known as a part
	for k, s := range j.sensors {
		if s.Available && isPresent(s) && !owned[k] {
			strangers = append(strangers, k)
		}
	}
	slices.SortFunc(strangers, func(a, b sensorKey) int { return compareKeys(a.state(0), b.state(0)) })
	for i := range j.memory.Parts {
		c := &j.memory.Parts[i]
		if _, ok := j.sensors[c.sensorKey]; !ok {
			strangers = j.rename(c, strangers)
		}
		j.look(c)
	}
	for _, k := range strangers {
		if len(j.memory.Parts) < maxParts {
			j.memory.Parts = append(j.memory.Parts, j.partFor(k))
		}
	}
	slices.SortFunc(j.memory.Parts, func(a, b part) int {
		return cmp.Or(compareKeys(a.state(0), b.state(0)), cmp.Compare(a.Name, b.Name))
	})
}

// partFor returns the component of a sensor that is there.
func (j *judgement) partFor(k sensorKey) part {
	s := j.sensors[k]
	return part{sensorKey: k, Name: clean(s.Name), Part: j.partOf(s), Entity: s.Entity}
}

// rename finds a component again whose sensor has got another number, as by an update
// of the BMC. It returns the strangers that are left.
func (j *judgement) rename(c *part, strangers []sensorKey) []sensorKey {
	i := slices.IndexFunc(strangers, func(k sensorKey) bool {
		return k.Type == c.Type && k.EventType == c.EventType && c.Name != "" && clean(j.sensors[k].Name) == c.Name &&
			(c.Entity == ipmi.Entity{} || c.Entity == j.sensors[k].Entity)
	})
	if i < 0 {
		return strangers
	}
	c.sensorKey = strangers[i]
	return slices.Delete(strangers, i, i+1)
}

// look notes whether c is there. While nobody knows whether the chassis is on,
// nothing is found missing. Without a reading nothing is certain: the sensor may be
// what is broken, or not be there any more after an update of the BMC.
func (j *judgement) look(c *part) {
	s := j.sensors[c.sensorKey]
	isBlank := j.blank[c.sensorKey]
	switch {
	case s.Available && isPresent(s):
		name := c.Name
		*c = j.partFor(c.sensorKey)
		c.Name = cmp.Or(c.Name, name)
		return
	case j.in.ChassisError != nil || !j.reached(c.sensorKey):
		return
	case j.isWithoutInput(c.sensorKey) && !c.Gone && !c.Removed:
		if s.States == 0 {
			c.Missing = j.in.Now // it has no power to tell that it is there
		}
		return
	case c.Missing.IsZero() || j.in.Now.Before(c.Missing) && !c.Gone:
		c.Missing = j.in.Now
	}
	switch {
	case c.Gone || !s.Available:
	case isBlank && (!j.plausible(*c) || !c.Removed && j.in.Now.Sub(c.Missing) < absentAfter):
	default:
		c.Gone = true
		for state := range uint8(15) { // what was removed has no other state
			if p := j.points[c.state(state)]; p != nil {
				p.Asserted, p.Shown = false, false
			}
		}
	}
}

// isBlank reports whether the discrete sensor of a component that was there has no state at
// all, neither present nor absent. After a reset of the BMC many have none.
func isBlank(s ipmi.Sensor) bool {
	present, _ := presence(s.Type, s.EventType)
	return s.Available && present != 0 && s.States == 0
}

// findBlanks takes note of the blank sensors of components that are not known to be gone.
func (j *judgement) findBlanks() {
	j.blank = make(map[sensorKey]bool)
	for _, c := range j.memory.Parts {
		if !c.Gone && isBlank(j.sensors[c.sensorKey]) {
			j.blank[c.sensorKey] = true
		}
	}
}

// plausible reports whether c may be gone although its sensor is blank: not if those of all
// components are, or of all that a running server needs one of.
func (j *judgement) plausible(c part) bool {
	isNeeded := c.Type == 0x07 || c.Type == 0x08 || c.Type == 0x0c // Processor, Power Supply, Memory
	all, others, alike := 0, 0, 0
	for _, other := range j.memory.Parts {
		if present, _ := presence(other.Type, other.EventType); present == 0 {
			continue
		}
		all++
		if s := j.sensors[other.sensorKey]; s.Available && isPresent(s) {
			others++
			if other.Type == c.Type {
				alike++
			}
		}
	}
	return (others > 0 || all < 2) && (alike > 0 || !isNeeded)
}

// remove notes that a record says that the component of a sensor was removed, or is there.
func (j *judgement) remove(sensor sensorKey, removed bool) {
	for i := range j.memory.Parts {
		if c := &j.memory.Parts[i]; c.sensorKey == sensor {
			c.Removed = removed
		}
	}
}
