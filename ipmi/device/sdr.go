package device

import (
	"fmt"
	"strconv"

	"github.com/nodemend/nodemend/ipmi"
)

// Types of sensor data records (SDRs; IPMI 2.0, section 43).
const (
	recordFull      = 0x01 // 43.1
	recordCompact   = 0x02 // 43.2
	recordEventOnly = 0x03 // 43.3
	recordBMC       = 0x12 // management controller device locator, 43.9
)

// Every SDR begins with a header, which holds its type and how many bytes follow.
const (
	headerLength = 5
	headerType   = 3
	headerRest   = 4
)

// sensorRecord is what the SDRs say of one sensor.
type sensorRecord struct {
	sensor ipmi.Sensor // without its present state
	target Target      // whom to ask for that
	// eventOnly is whether the sensor has events, but no state.
	eventOnly bool
	// conversion is nil for a sensor without analog readings.
	conversion *conversion
	// thresholds is whether they can be read from the sensor.
	thresholds bool
	// unreadable is whether its record is, which the sensor's Problem says.
	unreadable bool
}

// unreadable returns what stands for the sensor of a record that can't be read.
func unreadable(id uint16, record []byte, err error) sensorRecord {
	var s sensorRecord
	if t := record[headerType]; (t == recordFull || t == recordCompact) && len(record) > 13 {
		s = decodeCommon(record)
	}
	s.unreadable = true
	if s.sensor.Type == 0 {
		s.sensor.Name = fmt.Sprintf("SDR 0x%04x", id)
	}
	s.sensor.Problem = err.Error()
	return s
}

// decodeSensors returns the sensors that a record describes: several if it is shared,
// none if it is of another type.
func decodeSensors(record []byte) ([]sensorRecord, error) {
	if len(record) < headerLength {
		return nil, fmt.Errorf("%w: SDR of %d bytes", ipmi.ErrMalformed, len(record))
	}
	shortest := map[uint8]int{recordFull: 48, recordCompact: 32, recordEventOnly: 17}[record[headerType]]
	if len(record) < shortest {
		return nil, fmt.Errorf("%w: SDR of type 0x%02x with %d bytes of %d", ipmi.ErrMalformed, record[headerType], len(record), shortest)
	}
	switch record[headerType] {
	case recordFull:
		return []sensorRecord{decodeFull(record)}, nil
	case recordCompact:
		compact := decodeCommon(record)
		compact.sensor.Name = decodeName(record[31:])
		return share(compact, record[23], record[24]), nil
	case recordEventOnly:
		sensor := decodeKey(record)
		sensor.eventOnly = true
		sensor.sensor.Type = ipmi.SensorType(record[10])
		sensor.sensor.EventType = ipmi.EventType(record[11] & 0x7f)
		sensor.sensor.Name = decodeName(record[16:])
		return share(sensor, record[12], record[13]), nil
	default:
		return nil, nil
	}
}

// decodeKey decodes what the records of all sensors have in one place.
func decodeKey(record []byte) sensorRecord {
	to := Target{Owner: record[5], Channel: record[6] >> 4, LUN: record[6] & 3}
	if to.Owner == ipmi.BMCAddress {
		to.Channel = 0 // means nothing
	}
	return sensorRecord{
		sensor: ipmi.Sensor{
			Number: record[7],
			Entity: ipmi.Entity{ID: record[8], Instance: record[9] & 0x7f},
			Owner:  to.Owner,
			LUN:    to.LUN,
		},
		target: to,
	}
}

// decodeCommon decodes what full and compact records have in common.
func decodeCommon(record []byte) sensorRecord {
	s := decodeKey(record)
	s.sensor.Type = ipmi.SensorType(record[12])
	s.sensor.EventType = ipmi.EventType(record[13] & 0x7f)
	access := record[11] >> 2 & 3
	s.thresholds = s.sensor.EventType == ipmi.Threshold && (access == 1 || access == 2)
	return s
}

func decodeFull(record []byte) sensorRecord {
	s := decodeCommon(record)
	s.sensor.Name = decodeName(record[47:])
	if format := record[20] >> 6; format != notAnalog && s.sensor.EventType == ipmi.Threshold {
		s.sensor.Unit = ipmi.Unit(record[20], record[21], record[22])
		s.conversion = &conversion{
			format:        format,
			linearization: record[23],
			factors:       decodeFactors([6]byte(record[24:30])),
		}
	}
	return s
}

// share returns the sensors that share a record, by the two bytes that say how their
// numbers, names and entities follow each other (table 43-2, bytes 24 and 25).
func share(first sensorRecord, count, modifier uint8) []sensorRecord {
	n := int(count & 0xf)
	if n < 2 {
		return []sensorRecord{first}
	}
	sensors := make([]sensorRecord, n)
	for i := range sensors {
		s := first
		s.sensor.Number += uint8(i)
		if modifier&0x80 != 0 {
			s.sensor.Entity.Instance += uint8(i)
		}
		suffix := int(modifier&0x7f) + i
		if count>>4&3 == 1 {
			s.sensor.Name += letters(suffix)
		} else {
			s.sensor.Name += strconv.Itoa(suffix)
		}
		sensors[i] = s
	}
	return sensors
}

// letters counts A, B … Z, AA, AB ….
func letters(n int) string {
	if n < 26 {
		return string(rune('A' + n))
	}
	return letters(n/26-1) + letters(n%26)
}

// decodeBMC returns the name in a record of the BMC itself.
func decodeBMC(record []byte) (string, bool) {
	if len(record) < 16 || record[headerType] != recordBMC || record[5] != ipmi.BMCAddress {
		return "", false
	}
	return decodeName(record[15:]), true
}
