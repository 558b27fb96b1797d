package bmc

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Sensor is a sensor and its present state. What its bytes mean is said in the
// tables 43-1 and 43-2 of IPMI 2.0.
type Sensor struct {
	Number uint8
	// Name of at most 16 bytes. NameField is the type/length byte and what
	// follows in its place.
	Name      string
	NameField []byte
	Type      uint8
	EventType uint8 // 0: 0x6f, sensor-specific
	Entity    [2]uint8
	// Owner is the address of the controller that has the sensor; 0: the BMC. LUN is where
	// it is reached.
	Owner, LUN uint8
	// Assertions and Deassertions have a bit for each state, or each event of a threshold,
	// of which the BMC logs events (tables 43-1 and 43-2, bytes 15 to 18); 0: for all.
	Assertions, Deassertions uint16

	// Full has the sensor described by a full record, which an analog one needs.
	Full bool
	// Units are the three bytes from the flags on; Analog has readings
	// converted by Factors and Linearization.
	Units         [3]uint8
	Linearization uint8
	Factors       Factors
	// Shared is the two bytes of a compact record that have it describe several
	// sensors.
	Shared [2]uint8
	// Thresholds are raw, from lower non-critical to upper non-recoverable.
	// Those that are readable have their bit set in ThresholdMask.
	Thresholds    [6]uint8
	ThresholdMask uint8

	Reading     uint8
	States      uint16
	Unavailable bool // reading or state unavailable
	Disabled    bool // not scanned
	Absent      bool // the BMC does not know it
	// NoStates leaves the states out of the answer, as the specification allows.
	NoStates bool
}

// Factors of y = (Mx + B·10^BExp)·10^RExp.
type Factors struct{ M, B, BExp, RExp int }

// AddSensor adds a sensor and its SDR.
func (b *BMC) AddSensor(s Sensor) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.EventType == 0 {
		s.EventType = 0x6f
	}
	if s.Owner == 0 {
		s.Owner = 0x20
	}
	if s.NameField == nil {
		s.NameField = nameField(s.Name)
	}
	b.addSDR(s.record())
	for i := range max(1, s.Shared[0]&0xf) {
		each := s
		each.Number += i
		b.sensors = append(b.sensors, &each)
	}
}

// SetSensor changes the state of a sensor, without an event. There must be one of
// that number.
func (b *BMC) SetSensor(number uint8, change func(*Sensor)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sensor(number)
	if s == nil {
		return fmt.Errorf("the BMC has no sensor 0x%02x", number)
	}
	change(s)
	return nil
}

// Assert makes a state true or false, and logs the event of a discrete sensor if that is
// enabled.
func (b *BMC) Assert(number, offset uint8, asserted bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sensor(number)
	if s == nil {
		return fmt.Errorf("the BMC has no sensor 0x%02x", number)
	}
	s.States &^= 1 << offset
	mask := s.Deassertions
	if asserted {
		s.States |= 1 << offset
		mask = s.Assertions
	}
	if mask == 0 || mask&(1<<offset) != 0 {
		b.log(Event{Type: s.Type, Number: number, EventType: s.EventType, Data: [3]uint8{offset, 0xff, 0xff}, Deasserted: !asserted})
	}
	return nil
}

// sensor returns that of the BMC's LUN 0.
func (b *BMC) sensor(number uint8) *Sensor { return b.sensorOf(0, number) }

func (b *BMC) sensorOf(lun, number uint8) *Sensor {
	for _, s := range b.sensors {
		if s.Number == number && s.Owner == 0x20 && s.LUN == lun {
			return s
		}
	}
	return nil
}

// record returns the SDR of the sensor.
func (s *Sensor) record() (recordType uint8, body []byte) {
	const readableThresholds = 1 << 2
	masks := make([]byte, 6)
	binary.LittleEndian.PutUint16(masks[0:], s.Assertions)
	binary.LittleEndian.PutUint16(masks[2:], s.Deassertions)
	masks[4] = s.ThresholdMask
	body = slices.Concat(
		[]byte{s.Owner, s.LUN, s.Number, s.Entity[0], s.Entity[1], 0x7f, 0x40 | readableThresholds, s.Type, s.EventType},
		masks, s.Units[:])
	if !s.Full {
		return 0x02, slices.Concat(body, s.Shared[:], make([]byte, 6), s.NameField)
	}
	limits := s.Thresholds
	slices.Reverse(limits[:]) // an SDR begins with the upper non-recoverable one
	return 0x01, slices.Concat(body, []byte{s.Linearization}, s.Factors.encode(),
		make([]byte, 6), limits[:], make([]byte, 5), s.NameField)
}

// encode returns the six bytes from M on; tolerance and accuracy are zero.
func (f Factors) encode() []byte {
	return []byte{
		byte(f.M), byte(f.M>>8) << 6,
		byte(f.B), byte(f.B>>8) << 6,
		0, byte(f.RExp)<<4 | byte(f.BExp)&0xf,
	}
}

func (b *BMC) sensorCommand(command Command, lun uint8, data []byte) (uint8, []byte) {
	if len(data) == 0 {
		return invalidLength, nil
	}
	s := b.sensorOf(lun, data[0])
	if s == nil || s.Absent {
		return notPresent, nil
	}
	switch command {
	case GetSensorThresholds:
		if s.EventType != 0x01 {
			return illegalForSensor, nil
		}
		return ok, slices.Concat([]byte{s.ThresholdMask}, s.Thresholds[:])
	case GetReadingFactors:
		return ok, slices.Concat([]byte{0}, s.Factors.encode())
	default:
		return ok, s.reading()
	}
}

func (s *Sensor) reading() []byte {
	const eventsEnabled, scanningEnabled, unavailable, reserved = 0x80, 0x40, 0x20, 0x80
	flags := byte(eventsEnabled | scanningEnabled)
	if s.Disabled {
		flags &^= scanningEnabled
	}
	if s.Unavailable {
		flags |= unavailable
	}
	answer := []byte{s.Reading, flags}
	switch {
	case s.NoStates:
		return answer
	case s.EventType == 0x01:
		return append(answer, byte(s.States)|0xc0)
	default:
		return append(answer, byte(s.States), byte(s.States>>8)|reserved)
	}
}
