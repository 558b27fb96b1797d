package ipmisim

// The sensors of the simulated server, by their numbers.
const (
	// Watchdog has events only.
	Watchdog = 0x00
	// CPU0Temp is in degrees C, one for each unit of its raw value; it has all six
	// limits: 2, 5, 10 and 85, 95, 105.
	CPU0Temp = 0x01
	// FAN1 and FAN2 have 50 RPM for each unit of their raw value, and three lower
	// limits: 200, 400, 600 RPM.
	FAN1 = 0x02
	FAN2 = 0x07
	// PSU1Status and PSU2Status are of the type Power Supply.
	PSU1Status = 0x03
	PSU2Status = 0x08
	// DIMMA1 is of the type Memory.
	DIMMA1 = 0x04
	// Disk0 is of the type Drive Slot / Bay.
	Disk0 = 0x05
	// CPU0Status is of the type Processor.
	CPU0Status = 0x06
	// Volts12 has 63 mV for each unit of its raw value; all six limits: 10.710, 11.025,
	// 11.340 and 12.600, 12.915, 13.230 Volts.
	Volts12 = 0x09
	// PSURedundancy has the generic states of redundancy (event/reading type 0x0b).
	PSURedundancy = 0x0a
)

// sensor is what a sensor's SDR says, and how it is while all is well.
type sensor struct {
	name             string
	number           byte
	kind             byte // IPMI 2.0, table 42-3
	eventType        byte // table 42-1
	entity, instance byte // table 43-13
	healthy          byte // raw value, or state of a discrete sensor
	states           uint16
	analog           *analog
}

// analog is how the raw value of a threshold sensor is read.
type analog struct {
	unit     byte // table 43-15
	factor   byte // M
	exponent int  // of the result
	// limits in raw values: lower non-critical, critical, non-recoverable, upper
	// non-critical, critical, non-recoverable.
	limits [6]byte
	upper  bool // has the upper limits, too
}

const (
	specific   = 0x6f
	redundancy = 0x0b
)

// Events of thresholds are going low of the lower ones and going high of the upper
// ones (IPMI 2.0, table 42-2).
const (
	lowerEvents, upperEvents = 0x015, 0xa80
	lowerLimits, upperLimits = 0x07, 0x38
)

// events has a bit for every event that the sensor can log.
func (s sensor) events() uint16 {
	switch {
	case s.analog == nil:
		return s.states
	case s.analog.upper:
		return lowerEvents | upperEvents
	default:
		return lowerEvents
	}
}

// has returns a bit for every limit, in the order of limits.
func (a *analog) has() byte {
	if a.upper {
		return lowerLimits | upperLimits
	}
	return lowerLimits
}

// limitsFromTop returns the limits in the order of an SDR, highest first.
func (a *analog) limitsFromTop() []byte {
	l := a.limits
	return []byte{l[5], l[4], l[3], l[2], l[1], l[0]}
}

func sensors() []sensor {
	const celsius, rpm, volts = 1, 18, 4
	temperature := &analog{unit: celsius, factor: 1, limits: [6]byte{10, 5, 2, 85, 95, 105}, upper: true}
	fan := &analog{unit: rpm, factor: 50, limits: [6]byte{12, 8, 4}}
	rail := &analog{unit: volts, factor: 63, exponent: -3, limits: [6]byte{180, 175, 170, 200, 205, 210}, upper: true}
	return []sensor{
		{name: "CPU0 Temp", number: CPU0Temp, kind: 0x01, eventType: 1, entity: 3, instance: 1, healthy: 45, analog: temperature},
		{name: "FAN1", number: FAN1, kind: 0x04, eventType: 1, entity: 29, instance: 1, healthy: 120, analog: fan},
		{name: "FAN2", number: FAN2, kind: 0x04, eventType: 1, entity: 29, instance: 2, healthy: 118, analog: fan},
		{name: "PSU1 Status", number: PSU1Status, kind: 0x08, eventType: specific, entity: 10, instance: 1, healthy: 0, states: 0x7f},
		{name: "PSU2 Status", number: PSU2Status, kind: 0x08, eventType: specific, entity: 10, instance: 2, healthy: 0, states: 0x7f},
		{name: "DIMM_A1", number: DIMMA1, kind: 0x0c, eventType: specific, entity: 32, instance: 1, healthy: 6, states: 0x7ff},
		{name: "Disk0", number: Disk0, kind: 0x0d, eventType: specific, entity: 26, instance: 1, healthy: 0, states: 0x1ff},
		{name: "CPU0 Status", number: CPU0Status, kind: 0x07, eventType: specific, entity: 3, instance: 1, healthy: 7, states: 0x1fff},
		{name: "12V", number: Volts12, kind: 0x02, eventType: 1, entity: 7, instance: 1, healthy: 190, analog: rail},
		{name: "PSU Redundancy", number: PSURedundancy, kind: 0x09, eventType: redundancy, entity: 19, instance: 1, healthy: 0, states: 0xff},
	}
}
