package ipmitool

import (
	"fmt"

	"github.com/nodemend/nodemend/ipmi"
)

// sel is the whole SEL.
type sel struct {
	events []ipmi.Event
	info   selInfo
	// unchanged is whether it was the same at the beginning and at the end.
	unchanged bool
}

// parseSEL joins the SEL's state before and after it was read, its list of entries,
// and its records.
func parseSEL(before, list, verboseList, afterwards string) (sel, error) {
	info, err := parseSELInfo(before)
	if err != nil {
		return sel{}, err
	}
	later, err := parseSELInfo(afterwards)
	if err != nil {
		return sel{}, err
	}
	records, err := parseSELRecords(verboseList)
	if err != nil {
		return sel{}, err
	}
	s := sel{info: info, unchanged: info == later}
	entries := parseSELList(list)
	for _, record := range records {
		// One that came in between is read the next time.
		if entry, ok := entries[record.event.ID]; ok {
			event := record.event
			event.Timestamp, event.Time = entry.timestamp, selTime(entry.timestamp)
			if event.OfSensor() {
				event.SensorName = entry.sensorName(record.sensorType)
				if event.Owner&1 == 0 && (event.SensorName != "" || event.Owner == ipmi.BMCAddress) {
					event.Owner, event.LUN = 0, 0 // as its sensor, of which ipmitool does not tell them
				}
			}
			s.events = append(s.events, event)
		}
	}
	if least := min(info.entries, later.entries); len(s.events) < least {
		return sel{}, fmt.Errorf("%w: %d of %d SEL records", ErrIncomplete, len(s.events), least)
	}
	if later.entries < info.entries || later.erased != info.erased {
		return sel{}, fmt.Errorf("%w: the SEL was erased meanwhile", ErrIncomplete)
	}
	return s, nil
}

// since returns the records after the cursor. What was known of the SEL when it was read
// up to there helps, but may be nil.
func (s sel) since(after ipmi.Cursor, then *selInfo) ipmi.EventLog {
	log := ipmi.EventLog{Events: s.events, Total: s.info.entries, Full: s.info.overflow}
	log.Next.Erased, log.Next.Records = s.info.erased, len(s.events)
	if last := len(s.events) - 1; last >= 0 {
		log.Next.ID, log.Next.Timestamp, log.Next.Read = s.events[last].ID, s.events[last].Timestamp, true
	}
	if !after.Read {
		return log
	}
	log.Restarted = true
	if after.Erased != 0 && after.Erased != s.info.erased || then != nil && then.erased != s.info.erased {
		return log
	}
	for i, event := range s.events {
		if event.ID != after.ID || event.Timestamp != after.Timestamp {
			continue
		}
		later := s.events[i+1:]
		// A SEL that has grown, but not at its end, is not in the order of time.
		if len(later) == 0 && then != nil && (s.info.entries > then.entries || s.info.added != then.added) {
			break
		}
		log.Events, log.Restarted = later, false
		break
	}
	return log
}
