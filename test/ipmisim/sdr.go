package ipmisim

import "slices"

// bmcAddress is the BMC's address on its bus.
const bmcAddress = 0x20

// Settings in the records of sensors.
const (
	// initialize is for all, to be done by the BMC itself.
	initialize = 0x7f
	// autoRearm, with events that can be chosen for each state.
	autoRearm      = 0x40
	settableLimits = 0x08
)

// record returns an SDR (IPMI 2.0, section 43), to which the BMC gives an ID.
func record(kind byte, body []byte, name string) []byte {
	const version, eightBitASCII = 0x51, 0xc0
	body = append(body, eightBitASCII|byte(len(name)))
	body = append(body, name...)
	return append([]byte{0, 0, version, kind, byte(len(body))}, body...)
}

// record returns the SDR of the sensor, a full one if it is analog.
func (s sensor) record() []byte {
	if s.analog == nil {
		return record(0x02, s.compact(), s.name)
	}
	return record(0x01, s.full(), s.name)
}

// full returns bytes 6 to 47 of a full sensor record (section 43.1).
func (s sensor) full() []byte {
	a := s.analog
	events, limits := s.events(), a.has()
	reading := func(threeLimits byte) byte { return byte(events>>8) | threeLimits<<4 }
	return slices.Concat([]byte{
		bmcAddress, 0, s.number, s.entity, s.instance,
		initialize, autoRearm | settableLimits, s.kind, s.eventType,
		byte(events), reading(limits & 7), // asserted, and lower limits
		byte(events), reading(limits >> 3), // deasserted, and upper limits
		limits, limits, // readable, settable
		0, a.unit, 0, // unsigned
		0, a.factor, 0, 0, 0, 0, byte(a.exponent << 4), // linear
		0, 0, 0, 0, 0xff, 0, // no nominal values; the raw range
	}, a.limitsFromTop(), []byte{0, 0, 0, 0, 0}) // no hysteresis
}

// compact returns bytes 6 to 31 of a compact sensor record (section 43.2).
func (s sensor) compact() []byte {
	low, high := byte(s.states), byte(s.states>>8)
	return []byte{
		bmcAddress, 0, s.number, s.entity, s.instance,
		initialize, autoRearm, s.kind, s.eventType,
		low, high, low, high, low, high,
		0xc0, 0, 0, // no reading
		1, 0, 0, 0, 0, 0, 0, 0,
	}
}

// watchdogRecord is an event-only record (section 43.3).
func watchdogRecord() []byte {
	const watchdog2 = 0x23
	return record(0x03, []byte{bmcAddress, 0, Watchdog, 7, 1, watchdog2, specific, 1, 0, 0, 0}, "Watchdog")
}

// locatorRecord is a management controller device locator (section 43.9): the
// BMC's name.
func locatorRecord() []byte {
	const systemBoard = 7
	return record(0x12, []byte{bmcAddress, 0, 0, 0x9f, 0, 0, 0, systemBoard, 1, 0}, Name)
}
