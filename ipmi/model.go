package ipmi

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Source reads one BMC. Its methods are not safe for concurrent use. They return
// soon after ctx has ended, even if the BMC does not answer.
type Source interface {
	// DeviceID identifies the BMC (IPMI 2.0, section 20.1).
	DeviceID(ctx context.Context) (DeviceID, error)
	// Chassis returns the state of the chassis (section 28.2).
	Chassis(ctx context.Context) (Chassis, error)
	// Sensors returns all sensors with their present state, in the order of the
	// SDR repository. One that can't be read has a Problem, and costs no other. With
	// ErrPartial those that were not reached have none, and are not available.
	Sensors(ctx context.Context) ([]Sensor, error)
	// Events returns the records of the System Event Log (SEL) that came after
	// the cursor, oldest first; all of them for the zero cursor. With ErrPartial
	// these are the first ones only.
	Events(ctx context.Context, after Cursor) (EventLog, error)
	// Rest ends what the source holds for the next call: a session at the BMC, a program.
	Rest()
	// String names the source for people, "/dev/ipmi0" or "ipmitool".
	String() string
	Close() error
}

// DeviceID identifies a BMC.
type DeviceID struct {
	// Name of the BMC, from its SDR of type 0x12; empty if it has none.
	Name         string `json:"name,omitempty"`
	Firmware     string `json:"firmware"`     // "2.14"
	IPMIVersion  string `json:"ipmiVersion"`  // "2.0"
	Manufacturer uint32 `json:"manufacturer"` // IANA enterprise number
	Product      uint16 `json:"product"`
}

// Chassis is the state of the chassis.
type Chassis struct {
	PowerOn           bool `json:"powerOn"`
	PowerOverload     bool `json:"powerOverload"`
	MainPowerFault    bool `json:"mainPowerFault"`
	PowerControlFault bool `json:"powerControlFault"`
	Intrusion         bool `json:"intrusion"`
	DriveFault        bool `json:"driveFault"`
	CoolingFault      bool `json:"coolingFault"`
	// RestartCause is why the system was last started (section 28.11); it is
	// RestartUnknown if the BMC does not tell.
	RestartCause RestartCause `json:"restartCause"`
}

// RestartCause is why the system was last started (IPMI 2.0, table 28-11).
type RestartCause uint8

// Causes of a restart.
const (
	RestartUnknown         RestartCause = 0x0
	RestartChassisControl  RestartCause = 0x1 // power on, cycle or reset: not told which
	RestartResetButton     RestartCause = 0x2
	RestartPowerButton     RestartCause = 0x3 // power up
	RestartWatchdog        RestartCause = 0x4
	RestartOEM             RestartCause = 0x5
	RestartAlwaysRestore   RestartCause = 0x6 // AC power came back
	RestartRestorePrevious RestartCause = 0x7 // AC power came back
	RestartPEFReset        RestartCause = 0x8
	RestartPEFPowerCycle   RestartCause = 0x9
	RestartSoftReset       RestartCause = 0xa
	RestartRTC             RestartCause = 0xb // power up
)

// SensorType is what a sensor is about (IPMI 2.0, table 42-3).
type SensorType uint8

// EventType is how the states of a sensor, or the offsets of its events, are to be
// read (IPMI 2.0, table 42-1): by thresholds, by a generic table (42-2), or by
// that of the sensor's type (42-3).
type EventType uint8

// Event/reading types.
const (
	Threshold      EventType = 0x01
	SensorSpecific EventType = 0x6f
)

// Discrete reports whether t is none of thresholds.
func (t EventType) Discrete() bool { return t != Threshold }

// Entity is the part of the system that a sensor belongs to (section 39.1).
type Entity struct {
	ID       uint8 `json:"id"`
	Instance uint8 `json:"instance"`
}

// Sensor is one sensor and its present state.
type Sensor struct {
	Name   string     `json:"name"`
	Number uint8      `json:"number"`
	Type   SensorType `json:"type"`
	// EventType says how States is to be read.
	EventType EventType `json:"eventType"`
	// Owner and LUN of the sensor are those that its Event has.
	Owner  uint8  `json:"owner,omitempty"`
	LUN    uint8  `json:"lun,omitempty"`
	Entity Entity `json:"entity"`
	// Available is false while the sensor is not scanned or has no reading, be it
	// that what it belongs to is absent; then there is neither a Reading nor a
	// state.
	Available bool `json:"available"`
	// Reading in Unit; nil for a sensor without an analog reading.
	Reading *float64 `json:"reading,omitempty"`
	Unit    string   `json:"unit,omitempty"` // as ipmitool writes it: "degrees C", "RPM", "Volts"
	// States has a bit for every state that is asserted, by its offset: of a
	// discrete sensor those of its table; of a threshold sensor the thresholds
	// that the reading is at or beyond, by the Limit bits.
	States uint16 `json:"states"`
	// Problem is why the sensor, or its record, can't be read or not be believed; empty
	// if it can, or has no reading as it says itself.
	Problem string `json:"problem,omitempty"`
	// Path is that of the part's resource, of a source that knows parts (Redfish); empty of a
	// sensor of IPMI. With the types it tells sensors apart, as they have no numbers.
	Path string `json:"path,omitempty"`
	// Identity is what the resource says which part it is; nil: nothing.
	Identity *Identity `json:"identity,omitempty"`
	// Said is the part's state in the words of the resource, as JSON.
	Said string `json:"said,omitempty"`
}

// Identity tells a part from another one of its kind.
type Identity struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	PartNumber   string `json:"partNumber,omitempty"`
	Serial       string `json:"serial,omitempty"`
	Firmware     string `json:"firmware,omitempty"`
}

// String returns "Samsung M393A4K40DB3-CWE, serial 4711, firmware 1.2", or what is known of
// that.
func (i Identity) String() string {
	words := []string{}
	for _, word := range []string{i.Manufacturer, i.Model, i.PartNumber} {
		if word != "" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	text := strings.Join(words, " ")
	if i.Serial != "" {
		text += ", serial " + i.Serial
	}
	if i.Firmware != "" {
		text += ", firmware " + i.Firmware
	}
	return strings.TrimPrefix(text, ", ")
}

// Limits are the bits of States of a threshold sensor (section 35.14).
const (
	LowerNonCritical    uint16 = 1 << 0
	LowerCritical       uint16 = 1 << 1
	LowerNonRecoverable uint16 = 1 << 2
	UpperNonCritical    uint16 = 1 << 3
	UpperCritical       uint16 = 1 << 4
	UpperNonRecoverable uint16 = 1 << 5
)

// Event is one record of the SEL.
type Event struct {
	// ID of the record. IDs need not be contiguous nor start at 1.
	ID uint16 `json:"id"`
	// RecordType is 0x02 for a system event, or another one for which IsEvent is true. Of
	// others (OEM, section 32.2 and 32.3) only ID, Time and Timestamp are known, if at all.
	RecordType uint8 `json:"recordType"`
	// Owner is who has logged it: the even slave address of a controller, as BMCAddress,
	// or an odd software ID, as of a BIOS (table 5-4). Owner, LUN and number together tell
	// sensors apart.
	Owner uint8 `json:"owner,omitempty"`
	LUN   uint8 `json:"lun,omitempty"`
	// Time is zero while the clock of the SEL was not set ("Pre-Init"); then
	// Timestamp counts seconds from the BMC's start.
	Time         time.Time  `json:"time,omitzero"`
	Timestamp    uint32     `json:"timestamp"`
	SensorType   SensorType `json:"sensorType"`
	SensorNumber uint8      `json:"sensorNumber"`
	// SensorName is empty if no SDR names the sensor, as for events of a BIOS.
	SensorName string    `json:"sensorName,omitempty"`
	EventType  EventType `json:"eventType"`
	// Offset is the state, by the table that EventType says; of thresholds by
	// table 42-2: 0 is lower non-critical going low, 11 upper non-recoverable
	// going high.
	Offset   uint8 `json:"offset"`
	Asserted bool  `json:"asserted"`
	// Data are the three bytes of the event.
	Data EventData `json:"data,omitzero"`
	// Raw is the record as the BMC has it.
	Raw SELRecord `json:"raw,omitzero"`
	// Message is the text of an entry of Redfish, which has no bytes; Path is that of the part
	// that the entry names, as Sensor has it.
	Message string `json:"message,omitempty"`
	Path    string `json:"path,omitempty"`
}

// OfLog is what Part returns for an entry of Redfish that names a kind of parts, but no part.
const OfLog = "the log"

// BMCAddress is the slave address of a BMC.
const BMCAddress uint8 = 0x20

// EventData are the three bytes of event data (section 29.7).
type EventData [3]uint8

// What a byte of event data holds (table 29-6).
const (
	dataOEM       = 2 // a code of the maker's
	dataExtension = 3 // what table 42-3 says of the type of the sensor
)

// second and third return what the byte of that number holds, and the byte itself.
func (d EventData) second() (holds, value uint8) { return d[0] >> 6, d[1] }
func (d EventData) third() (holds, value uint8)  { return d[0] >> 4 & 3, d[2] }

// String returns the bytes as ipmitool writes them: "a0ff18".
func (d EventData) String() string { return hex.EncodeToString(d[:]) }

// MarshalText returns the same.
func (d EventData) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText has written.
func (d *EventData) UnmarshalText(text []byte) error {
	data, err := hex.DecodeString(string(text))
	if err != nil || len(data) != len(d) {
		return fmt.Errorf("%q is not three bytes in hexadecimal", text)
	}
	copy(d[:], data)
	return nil
}

// OfSensor reports whether e tells of a sensor.
func (e Event) OfSensor() bool {
	return e.RecordType == SystemEvent || e.RecordType < oemFirst && e.EventType != 0
}

// Cursor is the last record that was read, as it was then. Of two records with
// one ID, the later one has another time stamp: so a SEL that was cleared or has
// wrapped is told from one that has only grown.
type Cursor struct {
	ID        uint16 `json:"id"`
	Timestamp uint32 `json:"timestamp"`
	// Erased is when the SEL was last cleared, by its own clock (section 31.2);
	// zero if the source can't tell.
	Erased uint32 `json:"erased,omitempty"`
	// Read is whether there was any record; false in the zero cursor.
	Read bool `json:"read,omitempty"`
	// Records is how many there were up to this one, as far as the source knows.
	Records int `json:"records,omitempty"`
}

// EventLog is what was read from the SEL.
type EventLog struct {
	Events []Event
	// Next is the cursor for the next read.
	Next Cursor
	// Restarted is whether the record of the cursor is not there any more: the
	// SEL was cleared, or has wrapped. Events holds all records then.
	Restarted bool
	// Total is the number of records in the SEL. Full is whether records were
	// lost since there was no space (overflow).
	Total int
	Full  bool
}
