package ipmitool

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nodemend/nodemend/ipmi"
)

// record is a record of "sel list" while verbose. It has all but its time, which ipmitool
// 1.8.19 leaves out, and the name of the sensor.
type record struct {
	event ipmi.Event
	// sensorType in ipmitool's words.
	sensorType string
}

// parseSELRecords reads the output of "sel list" while verbose: a block of lines for
// each record, in the order of the SEL.
func parseSELRecords(text string) ([]record, error) {
	var records []record
	for _, block := range blocks(text, "SEL Record ID  ") {
		f := parseFields(block)
		r, err := parseRecord(f)
		if err != nil {
			return nil, fmt.Errorf("SEL record %q: %w", f["SEL Record ID"], err)
		}
		records = append(records, r)
	}
	return records, nil
}

func parseRecord(f fields) (record, error) {
	id, err := strconv.ParseUint(f["SEL Record ID"], 16, 16)
	if err != nil {
		return record{}, err
	}
	recordType, err := parseRecordType(f["Record Type"])
	if err != nil {
		return record{}, err
	}
	r := record{event: ipmi.Event{ID: uint16(id), RecordType: recordType}, sensorType: f["Sensor Type"]}
	revision, _ := hexByte(f, "EvM Revision") // OEM records have none
	if !ipmi.IsEvent(recordType, revision) {
		return r, nil
	}
	e := &r.event
	if e.SensorNumber, err = hexByte(f, "Sensor Number"); err != nil {
		return record{}, err
	}
	data, err := strconv.ParseUint(f["Event Data"], 16, 24)
	if err != nil {
		return record{}, fmt.Errorf("its Event Data is no number: %w", err)
	}
	e.Offset = uint8(data>>16) & 0x0f
	e.Data = ipmi.EventData{uint8(data >> 16), uint8(data >> 8), uint8(data)}
	generator, err := strconv.ParseUint(f["Generator ID"], 16, 16)
	if err != nil {
		return record{}, fmt.Errorf("its Generator ID is no number: %w", err)
	}
	e.Owner, e.LUN = uint8(generator), uint8(generator>>8)&3
	if e.Owner&1 != 0 {
		e.LUN = 0
	}
	if e.Asserted, err = f.flag("Event Direction", "Assertion Event", "Deassertion Event"); err != nil {
		return record{}, err
	}
	e.SensorType, _ = ipmi.ParseSensorType(r.sensorType) // else it is an OEM's
	e.EventType = recordEventType(f["Event Type"], e.SensorType, e.Offset, f["Description"])
	return r, nil
}

// parseRecordType reads "02", "c0  (OEM timestamped)" or "Linux kernel panic (OEM record
// f0)".
func parseRecordType(text string) (uint8, error) {
	if _, hex, ok := strings.Cut(text, "(OEM record "); ok {
		text = strings.TrimSuffix(hex, ")")
	}
	text, _, _ = strings.Cut(text, " ")
	recordType, err := strconv.ParseUint(text, 16, 8)
	if err != nil {
		return 0, fmt.Errorf("its Record Type is no number: %w", err)
	}
	return uint8(recordType), nil
}

func hexByte(f fields, name string) (uint8, error) {
	value, err := strconv.ParseUint(f[name], 16, 8)
	if err != nil {
		return 0, fmt.Errorf("its %s is no number: %w", name, err)
	}
	return uint8(value), nil
}

// recordEventType returns the event/reading type that ipmitool has a word for. Those of
// the generic ones are told apart by the offset and its description.
func recordEventType(word string, t ipmi.SensorType, offset uint8, description string) ipmi.EventType {
	switch word {
	case "Threshold":
		return ipmi.Threshold
	case "Sensor-specific Discrete":
		return ipmi.SensorSpecific
	case "Generic Discrete", "Reserved": // 0x0c is "Reserved" to ipmitool
		return findGenericType(func(e ipmi.EventType) bool {
			found, ok := ipmi.FindState(t, e, description)
			return ok && found == offset
		})
	default:
		return 0
	}
}
