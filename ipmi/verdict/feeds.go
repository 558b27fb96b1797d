package verdict

import (
	"slices"

	"github.com/nodemend/nodemend/ipmi"
)

// Sensor types (IPMI 2.0, table 42-3), and the entity of a power supply (table 43-13).
const (
	typeVoltage     ipmi.SensorType = 0x02
	typeCurrent     ipmi.SensorType = 0x03
	typeFan         ipmi.SensorType = 0x04
	typePowerSupply ipmi.SensorType = 0x08
	typePowerUnit   ipmi.SensorType = 0x09
	typeCooling     ipmi.SensorType = 0x0a
	typeOtherUnits  ipmi.SensorType = 0x0b // such as Watts
	typeEntity      ipmi.SensorType = 0x25 // its presence

	entityPowerSupply = 10

	redundancyStates ipmi.EventType = 0x0b // table 42-2

	// States of the type Power Supply.
	supplyPresent, supplyFailed, supplyNoInput, supplyNoInputOrRange = 0, 1, 3, 4
)

// Default rules for the voltage that a feed gives to a supply.
const inputVoltage, inputVoltageVIN = "voltage-input", "voltage-input-vin"

// feeds knows which power supplies have no input, while another one carries the server.
type feeds struct {
	sensors  map[sensorKey]string // their names, by the sensors that say so
	entities map[ipmi.Entity]string
}

// findFeeds looks for supplies without an input. There are none to speak of unless a good
// one is seen.
func (j *judgement) findFeeds() feeds {
	f := feeds{map[sensorKey]string{}, map[ipmi.Entity]string{}}
	for k, p := range j.points {
		s := p.subject()
		if !p.Asserted || p.History || !j.rules.lackOfInput(s) {
			continue
		}
		if losesInput(k) {
			f.sensors[k.sensor()] = component(s)
		}
		if e, ok := j.supplyEntity(k.sensor()); ok {
			f.entities[e] = component(s)
		}
	}
	if !j.goodSupply(f) {
		return feeds{}
	}
	return f
}

// lackOfInput reports whether s is that the feed of a supply gives nothing, or too little,
// whatever the rules make of that.
func (set ruleSet) lackOfInput(s subject) bool {
	if losesInput(s.key) {
		return true
	}
	if s.State != 1 && s.State != 2 { // lower critical, and beyond
		return false
	}
	return slices.ContainsFunc(set, func(c compiledRule) bool {
		return c.isDefault && (c.Name == inputVoltage || c.Name == inputVoltageVIN) && c.matches(s)
	})
}

// losesInput reports whether k is that a supply has no input.
func losesInput(k key) bool {
	return k.Type == typePowerSupply && k.EventType == ipmi.SensorSpecific && (k.State == supplyNoInput || k.State == supplyNoInputOrRange)
}

// shorts reports whether k is a 240VA power down: too much current on a rail, which no lost
// input explains.
func shorts(k key) bool {
	const powerDown240VA = 2
	return k.Type == typePowerUnit && k.EventType == ipmi.SensorSpecific && k.State == powerDown240VA
}

// isWithoutInput reports whether the supply of a sensor is known to have no input.
func (j *judgement) isWithoutInput(sensor sensorKey) bool {
	for _, state := range []uint8{supplyNoInput, supplyNoInputOrRange} {
		k := sensor.state(state)
		if p := j.points[k]; p != nil && losesInput(k) && p.Asserted && !p.History {
			return true
		}
	}
	return false
}

// supplyEntity returns the power supply that a sensor belongs to. ok is false if that is
// not known, as where several supplies have one entity.
func (j *judgement) supplyEntity(k sensorKey) (e ipmi.Entity, ok bool) {
	e = j.sensors[k].Entity
	if e.ID != entityPowerSupply || e.Instance == 0 {
		return e, false
	}
	supplies := 0
	for _, s := range j.sensors {
		if s.Entity == e && s.Type == typePowerSupply && s.EventType == ipmi.SensorSpecific {
			supplies++
		}
	}
	return e, supplies <= 1
}

// goodSupply reports whether a supply is present, works and has its input.
func (j *judgement) goodSupply(f feeds) bool {
	const broken = 1<<supplyFailed | 1<<supplyNoInput | 1<<supplyNoInputOrRange
	for k, s := range j.sensors {
		e, ok := j.supplyEntity(k)
		if s.Type == typePowerSupply && s.EventType == ipmi.SensorSpecific && s.Available && s.States&(1<<supplyPresent) != 0 &&
			s.States&broken == 0 && (!ok || f.entities[e] == "") {
			return true
		}
	}
	return false
}

// explains returns the supply whose lost input explains the state, or the absence, of a
// sensor; "" if none does: the failure of that supply itself, its voltage, current and
// fan, and the redundancy of all.
func (j *judgement) explains(f feeds, k sensorKey) string {
	if name := f.sensors[k]; name != "" {
		return name
	}
	if k.EventType == redundancyStates && (k.Type == typePowerSupply || k.Type == typePowerUnit) {
		return f.any()
	}
	switch k.Type {
	case typeVoltage, typeCurrent, typeFan, typePowerSupply, typePowerUnit, typeCooling, typeOtherUnits:
		if e, ok := j.supplyEntity(k); ok {
			return f.entities[e]
		}
	}
	return ""
}

// any returns the first supply without an input.
func (f feeds) any() string {
	var names []string
	for _, name := range f.sensors {
		names = append(names, name)
	}
	for _, name := range f.entities {
		names = append(names, name)
	}
	if len(names) == 0 {
		return ""
	}
	return slices.Min(names)
}
