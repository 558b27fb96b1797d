package ipmi

import (
	"fmt"
	"strings"
)

// stateTable holds the names of states by their offset. An empty name is an
// offset that is not used.
type stateTable []string

// name returns the name of the state at offset, or "".
func (t stateTable) name(offset uint8) string {
	if int(offset) >= len(t) {
		return ""
	}
	return t[offset]
}

// find returns the lowest offset of the name.
func (t stateTable) find(name string) (uint8, bool) {
	for offset, have := range t {
		if have != "" && strings.EqualFold(have, name) {
			return uint8(offset), true
		}
	}
	return 0, false
}

// String returns the name of t as ipmitool writes it (IPMI 2.0, table 42-3), such
// as "Power Supply"; that of a type which the table does not have holds its number:
// "OEM 0xc1".
func (t SensorType) String() string {
	switch name := sensorTypes.name(uint8(t)); {
	case name != "":
		return name
	case t >= 0xc0:
		return fmt.Sprintf("OEM 0x%02x", uint8(t))
	default:
		return fmt.Sprintf("Unknown 0x%02x", uint8(t))
	}
}

// ParseSensorType returns the type that SensorType.String has named, whatever
// the case. It does not know ipmitool's bare "Unknown".
func ParseSensorType(name string) (SensorType, bool) {
	name = strings.TrimSpace(name)
	if offset, ok := sensorTypes.find(name); ok {
		return SensorType(offset), true
	}
	for t := len(sensorTypes); t <= 0xff; t++ {
		if strings.EqualFold(SensorType(t).String(), name) {
			return SensorType(t), true
		}
	}
	return 0, false
}

// states returns the table that holds the states of a sensor, or the offsets of its
// events; an empty one if the standard defines none.
func states(t SensorType, e EventType) stateTable {
	if e == SensorSpecific {
		return sensorStates[t]
	}
	return genericStates[e]
}

// StateName returns what a discrete state, or the offset of an event, is called
// in ipmitool's words: "Uncorrectable ECC", or for a Threshold "Lower Critical
// going low". It returns "" for what the tables do not have, such as the
// states of an OEM.
func StateName(t SensorType, e EventType, offset uint8) string {
	return states(t, e).name(offset)
}

// FindState returns the offset that ipmitool calls by that name, whatever the case. It
// knows the longer names too that ipmitool takes from the data of an event, such
// as "Config Error: Vendor Mismatch". A name that errors, hangs and progress of the
// system firmware share is taken for progress.
func FindState(t SensorType, e EventType, name string) (offset uint8, ok bool) {
	name = strings.TrimSpace(name)
	if offset, ok = states(t, e).find(name); ok || e != SensorSpecific {
		return offset, ok
	}
	switch t {
	case systemFirmware:
		return findFirmware(name)
	case powerSupply, versionChange:
		return findDetailed(sensorStates[t], name)
	default:
		return 0, false
	}
}

// findDetailed finds a name that is followed by a detail.
func findDetailed(t stateTable, name string) (uint8, bool) {
	for _, separator := range []string{": ", ", "} {
		if state, _, found := strings.Cut(name, separator); found {
			if offset, ok := t.find(state); ok {
				return offset, true
			}
		}
	}
	return 0, false
}

// findFirmware finds the details of System Firmware events, which ipmitool
// writes in place of the state.
func findFirmware(name string) (uint8, bool) {
	const failure, progress = 0, 2
	if _, ok := firmwareProgress.find(name); ok {
		return progress, true
	}
	if _, ok := firmwareErrors.find(name); ok {
		return failure, true
	}
	return 0, false
}

// ThresholdEventName returns the name of an event of a threshold sensor: "Lower
// Non-recoverable going low"; "" for an offset above 11.
func ThresholdEventName(offset uint8) string {
	return genericStates[Threshold].name(offset)
}

// StateNames returns the names of the states that are asserted, in the order of
// their bits: "Presence detected", or of a threshold sensor the limits that the reading
// is at or beyond, as "Upper Critical". A state that the tables do not have is named by
// its offset: "State 9".
func (s Sensor) StateNames() []string {
	table := states(s.Type, s.EventType)
	if s.EventType == Threshold {
		table = limits
	}
	var names []string
	for offset := range uint8(16) {
		if s.States&(1<<offset) == 0 {
			continue
		}
		name := table.name(offset)
		if name == "" {
			name = fmt.Sprintf("State %d", offset)
		}
		names = append(names, name)
	}
	return names
}

// StateName returns the name of what the event says, by StateName; "State 9" if the
// tables do not have it.
func (e Event) StateName() string {
	if name := StateName(e.SensorType, e.EventType, e.Offset); name != "" {
		return name
	}
	return fmt.Sprintf("State %d", e.Offset)
}

// String returns the cause for people, as ipmitool writes it.
func (c RestartCause) String() string {
	if name := restartCauses.name(uint8(c)); name != "" {
		return name
	}
	return fmt.Sprintf("unknown 0x%x", uint8(c))
}
