package verdict

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// stateVersion is that of the JSON of a State.
const stateVersion = 1

// MaxState is more bytes than the JSON of a State has, whatever a BMC tells. Those of
// a real server are some kilobytes.
const MaxState = 4 << 20

// Bounds of what is remembered.
const (
	maxPoints = 256
	maxParts  = 512
	maxTail   = 16
	maxName   = 64
	maxReason = 256
)

// State is what is remembered between two calls of Judge: save it as JSON, across
// restarts of the detector and reboots of the node. The zero value is that of a
// server that is seen for the first time. It is immutable.
type State struct{ memory memory }

// Cursor is where to read the SEL on from.
func (s State) Cursor() ipmi.Cursor { return s.memory.Cursor }

// KnowsBMC reports whether it is known who has made the BMC, so that Input.BMC is not
// needed.
func (s State) KnowsBMC() bool { return s.memory.BMC != nil }

// Forgotten returns the state of a server that was looked at before, of which what was
// remembered is lost. What its SEL holds from before the last day may have counted or not:
// it makes the verdict [CannotTell] until it is acknowledged or over.
func Forgotten() State { return State{memory{Forgotten: true}} }

// MarshalJSON writes the state with its version.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Version int `json:"version"`
		memory
	}{stateVersion, s.memory})
}

// UnmarshalJSON reads a state. It refuses one of another version.
func (s *State) UnmarshalJSON(data []byte) error {
	var file struct {
		Version int `json:"version"`
		memory
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return fmt.Errorf("reading the remembered hardware state: %w", err)
	}
	if file.Version != stateVersion {
		return fmt.Errorf("the remembered hardware state has version %d, accepted is %d: remove it to begin anew, acknowledgements are lost then, and older failures that only the SEL tells do not count",
			file.Version, stateVersion)
	}
	s.memory = file.memory
	return nil
}

// memory is the content of a State.
type memory struct {
	// Cursor, Total and Full are of the last read of the SEL, LogBoot is the
	// boot ID then. Tail are the last records, oldest first.
	Cursor  ipmi.Cursor `json:"cursor"`
	Total   int         `json:"total"`
	LogBoot string      `json:"logBoot,omitempty"`
	Tail    []trace     `json:"tail,omitempty"`
	// Reread is set while it is not known which records are new: the Cursor is behind
	// those that were looked through, and Tail and Total are of before.
	Reread *reread `json:"reread,omitempty"`
	// BMC says how event data are to be read; nil if it is not known.
	BMC *maker `json:"bmc,omitempty"`
	// Kind is Input.Kind of the last look.
	Kind string `json:"kind,omitempty"`
	// Began is when the SEL was first read; Unfinished is whether not to its end yet.
	Began      time.Time `json:"began,omitzero"`
	Unfinished bool      `json:"unfinished,omitempty"`
	// Looked is the last look of all.
	Looked look `json:"looked,omitzero"`
	// Forgotten is whether it was read before, of which nothing is known.
	Forgotten bool `json:"forgotten,omitempty"`
	// Shrunk is since when the SEL lacks its newest records; zero if it does not.
	Shrunk time.Time `json:"shrunk,omitzero"`
	// Redundant is whether the power supplies were so when last seen.
	Redundant bool `json:"redundant,omitempty"`
	// Slots are those of the memory in the boot SlotsBoot.
	Slots     []slot `json:"slots,omitempty"`
	SlotsBoot string `json:"slotsBoot,omitempty"`
	// Filled are the slots that have had a module, with the serial number of the last one.
	Filled []slot `json:"filled,omitempty"`
	// Serials are the parts that have a resource, with their serial numbers as last read.
	Serials []slot  `json:"serials,omitempty"`
	Points  []point `json:"points,omitempty"`
	Parts   []part  `json:"parts,omitempty"`
}

// maker is who has made a BMC, and what.
type maker struct {
	Manufacturer uint32 `json:"manufacturer"`
	Product      uint16 `json:"product"`
}

// key is a state of a sensor, or a flag of the chassis.
type key struct {
	Chassis   string          `json:"chassis,omitempty"`
	Type      ipmi.SensorType `json:"type"`
	Number    uint8           `json:"number"`
	EventType ipmi.EventType  `json:"eventType"`
	// Owner and LUN are 0 for the BMC's own, see owner.
	Owner uint8 `json:"owner,omitempty"`
	LUN   uint8 `json:"lun,omitempty"`
	// Path is that of the part's resource, see ipmi.Sensor.
	Path string `json:"path,omitempty"`
	// Located is which of the sensor's parts it is about, as ipmi.Part names it; empty if the
	// sensor has but one.
	Located string `json:"located,omitempty"`
	// State is the offset of a discrete state, or the bit of a limit.
	State uint8 `json:"state"`
}

// sensor returns the key of the sensor itself.
func (k key) sensor() sensorKey {
	return sensorKey{k.Type, k.Number, k.EventType, k.Owner, k.LUN, k.Path}
}

// anywhere returns the same state of the sensor, of whichever of its parts.
func (k key) anywhere() key { k.Located = ""; return k }

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.Chassis, b.Chassis), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Number, b.Number),
		cmp.Compare(a.EventType, b.EventType), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.LUN, b.LUN),
		cmp.Compare(a.Path, b.Path), cmp.Compare(a.Located, b.Located), cmp.Compare(a.State, b.State))
}

// sensorKey identifies a sensor.
type sensorKey struct {
	Type      ipmi.SensorType `json:"type"`
	Number    uint8           `json:"number"`
	EventType ipmi.EventType  `json:"eventType"`
	Owner     uint8           `json:"owner,omitempty"`
	LUN       uint8           `json:"lun,omitempty"`
	Path      string          `json:"path,omitempty"`
}

// state returns the key of one of the sensor's states.
func (s sensorKey) state(state uint8) key {
	return key{Type: s.Type, Number: s.Number, EventType: s.EventType, Owner: s.Owner, LUN: s.LUN, Path: s.Path, State: state}
}

// keyOf returns the key of a sensor.
func keyOf(s ipmi.Sensor) sensorKey {
	return sensorKey{s.Type, s.Number, s.EventType, owner(s.Owner), s.LUN, s.Path}
}

// owner returns 0 for the BMC's own sensors, as states of earlier versions have them, too.
func owner(address uint8) uint8 {
	if address == ipmi.BMCAddress {
		return 0
	}
	return address
}

// point is what is known of a state that was asserted.
type point struct {
	key
	Name string `json:"name,omitempty"`
	// Part is what people call it, if the name does not tell.
	Part string `json:"part,omitempty"`
	// Asserted is the latest that SEL or sensor have told.
	Asserted bool `json:"asserted"`
	// Latched is whether it was asserted after its last release.
	Latched bool `json:"latched"`
	// Shown is whether it was in the sensor or the flags when these were last read.
	Shown bool `json:"shown,omitempty"`
	// Since is when it was first asserted after its last release.
	Since time.Time `json:"since"`
	// Boot is the one in which it was last seen to be asserted.
	Boot string `json:"boot,omitempty"`
	// Record is the last one that asserts it; zero if none does. Live is whether it was
	// not in the SEL when that was first read.
	Record record `json:"record,omitzero"`
	Live   bool   `json:"live,omitempty"`
	// History is whether only that record tells of it, which is from before the first look.
	History bool `json:"history,omitempty"`
	// Forgotten is whether it may have counted then: nobody remembers.
	Forgotten bool `json:"forgotten,omitempty"`
	// Data are the event data of that record, Raw is all of it.
	Data string `json:"data,omitempty"`
	Raw  string `json:"raw,omitempty"`
	// Unread is since when its sensor has no reading while others have one; zero if it
	// has one.
	Unread time.Time `json:"unread,omitzero"`
	// Occurrences are the last ones, and Reached is when there were too many of
	// them; of points whose rule has a rate.
	Occurrences []occurrence `json:"occurrences,omitempty"`
	Reached     *reached     `json:"reached,omitempty"`
	Ack         *ack         `json:"ack,omitempty"`
	// Module is the one that it is about, in the boot when it was asserted, or the part of Path
	// with its serial number; nil: not known.
	Module *slot `json:"module,omitempty"`
}

// endHistory notes that p is of today. What was counted before the first look is not.
func (p *point) endHistory() {
	if p.History {
		p.History, p.Forgotten, p.Occurrences, p.Reached = false, false, nil, nil
	}
}

// release forgets what has happened. What the sensor shows stays, acknowledged
// if it was.
func (p *point) release() {
	p.Ack = p.Ack.withoutRecord(p.Record)
	p.Asserted, p.Latched = p.Shown, false
	p.Record, p.Live, p.History, p.Forgotten, p.Data, p.Raw = record{}, false, false, false, "", ""
	p.Occurrences, p.Reached, p.Module = nil, nil, nil
}

// record identifies a record of the SEL.
type record struct {
	ID        uint16 `json:"id"`
	Timestamp uint32 `json:"timestamp"`
	// Time is zero if the SEL had no clock.
	Time time.Time `json:"time,omitzero"`
}

func recordOf(e ipmi.Event) record {
	return record{ID: e.ID, Timestamp: e.Timestamp, Time: plain(e.Time)}
}

// plain returns t as JSON keeps it.
func plain(t time.Time) time.Time {
	if t.IsZero() || t.Year() > 9999 || t.Year() < 1 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Second)
}

// judgement is one call of Judge.
type judgement struct {
	in     Input
	rules  ruleSet
	points map[key]*point
	// sensors are those that were read; nil if they tell nothing, see usable.
	sensors map[sensorKey]ipmi.Sensor
	memory  memory
	// namesakes are names that sensors of several entities have.
	namesakes map[string]bool
	// blank are those of components that may be gone, see isBlank.
	blank map[sensorKey]bool
	feeds feeds
	// logDoubted is whether the SEL can be read, but not be believed.
	logDoubted bool
	// logReread is whether it has to be read once more.
	logReread bool
	// before is when the server was looked at before; zero: never.
	before time.Time
	// outage is the one that the SEL was in when it was read up to here; nil: none.
	outage *outage
}

func newJudgement(rules Rules, prev State, in Input) *judgement {
	in.Now = plain(in.Now)
	j := &judgement{
		in:     in,
		rules:  compile(rules),
		points: make(map[key]*point, len(prev.memory.Points)),
		memory: prev.memory,
	}
	j.before = j.memory.Looked.At
	j.changeKind()
	for _, p := range prev.memory.Points {
		p.Occurrences = slices.Clone(p.Occurrences)
		j.points[p.key] = &p
	}
	if in.BMC != nil {
		j.memory.BMC = &maker{in.BMC.Manufacturer, in.BMC.Product}
	}
	j.memory.Tail = slices.Clone(j.memory.Tail)
	j.memory.Parts = slices.Clone(j.memory.Parts)
	j.memory.Filled = slices.Clone(j.memory.Filled)
	j.setClock()
	if j.usable() {
		j.sensors = index(in.Sensors)
		j.findNamesakes()
	}
	return j
}

// memorize returns what is to be remembered.
func (j *judgement) memorize() memory {
	m := j.memory
	m.Points = make([]point, 0, len(j.points))
	for _, p := range j.points {
		m.Points = append(m.Points, *p)
	}
	slices.SortFunc(m.Points, func(a, b point) int { return compareKeys(a.key, b.key) })
	return m
}
