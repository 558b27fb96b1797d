package ipmi

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// SELRecord is a record of the SEL as the BMC keeps it (IPMI 2.0, sections 32.1 to
// 32.3); "ipmitool sel writeraw" writes the same 16 bytes.
type SELRecord [16]byte

// String returns the bytes as "ipmitool raw" writes them, without spaces.
func (r SELRecord) String() string { return hex.EncodeToString(r[:]) }

// MarshalText returns the same.
func (r SELRecord) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText has written.
func (r *SELRecord) UnmarshalText(text []byte) error {
	data, err := hex.DecodeString(string(text))
	if err != nil || len(data) != len(r) {
		return fmt.Errorf("%q is not 16 bytes in hexadecimal", text)
	}
	copy(r[:], data)
	return nil
}

// Types of SEL records.
const (
	// SystemEvent is the type of the standard's own records.
	SystemEvent uint8 = 0x02
	// The maker's own types begin here.
	oemFirst uint8 = 0xc0
	// Types above this have no time stamp.
	oemTimestampedLast uint8 = 0xdf
)

// The clock of the SEL counts seconds since 1970 (section 37). Up to preInit they are
// seconds since the start of a BMC whose clock nobody has set, noTime is none at all.
const (
	preInit = 0x20000000
	noTime  = 0xffffffff
)

// ID of the record.
func (r SELRecord) ID() uint16 { return binary.LittleEndian.Uint16(r[0:]) }

// Type of the record, such as SystemEvent.
func (r SELRecord) Type() uint8 { return r[2] }

// Timestamp of the record as the BMC has it; 0 for a type that has none.
func (r SELRecord) Timestamp() uint32 {
	if r.Type() > oemTimestampedLast {
		return 0
	}
	return binary.LittleEndian.Uint32(r[3:])
}

// Generator is who has logged a system event, and on which LUN, as Event has them.
func (r SELRecord) Generator() (owner, lun uint8) {
	if owner = r[7]; owner&1 != 0 {
		return owner, 0
	}
	return owner, r[8] & 3
}

// Event decodes the record. Whatever its bytes, that succeeds; the name of the
// sensor is not in it.
func (r SELRecord) Event() Event {
	e := Event{ID: r.ID(), RecordType: r.Type(), Timestamp: r.Timestamp(), Time: selTime(r.Timestamp()), Raw: r}
	if !IsEvent(r.Type(), r[9]) {
		return e
	}
	e.SensorType = SensorType(r[10])
	e.SensorNumber = r[11]
	e.EventType = EventType(r[12] & 0x7f)
	e.Asserted = r[12]&0x80 == 0
	e.Offset = r[13] & 0x0f
	e.Owner, e.LUN = r.Generator()
	e.Data = EventData(r[13:])
	return e
}

// IsEvent reports whether a record of that type is a system event. Some boards log them
// with a type that the standard reserves, such as 0x00: ipmitool takes all below 0xc0 for
// them, FreeIPMI those that it is told to (ipmi-sel --assume-system-event-records). Here they
// need the revision that events have (section 32.1).
func IsEvent(recordType, revision uint8) bool {
	return recordType == SystemEvent || recordType < oemFirst && (revision == 3 || revision == 4)
}

// selTime returns the time of a stamp; zero if there is none.
func selTime(stamp uint32) time.Time {
	if stamp <= preInit || stamp == noTime {
		return time.Time{}
	}
	return time.Unix(int64(stamp), 0).UTC()
}
