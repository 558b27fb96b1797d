package verdict

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// States of the sensor type Event Logging Disabled (table 42-3).
const (
	eventLogging ipmi.SensorType = 0x10
	logCleared   uint8           = 2 // "Log area reset/cleared"
	logFull      uint8           = 4 // "Log full"
)

// shrunkFor is how long a SEL has to lack its newest records for the rest to be taken for
// all that there is.
const shrunkFor = 10 * time.Minute

// trace recognises a record that was read before.
type trace struct {
	ID        uint16          `json:"id"`
	Timestamp uint32          `json:"timestamp"`
	Type      ipmi.SensorType `json:"type"`
	Number    uint8           `json:"number"`
	Offset    uint8           `json:"offset"`
	Asserted  bool            `json:"asserted"`
	// The rest is of records without a time only.
	Owner     uint8          `json:"owner,omitempty"`
	EventType ipmi.EventType `json:"eventType,omitempty"`
	Data      ipmi.EventData `json:"data,omitzero"`
}

// traceOf returns the trace of e. A record with neither a time nor an event has none.
func traceOf(e ipmi.Event) (t trace, ok bool) {
	t = trace{ID: e.ID, Timestamp: e.Timestamp, Type: e.SensorType, Number: e.SensorNumber, Offset: e.Offset, Asserted: e.Asserted}
	if t.hasTime() {
		return t, true
	}
	t.Owner, t.EventType, t.Data = e.Owner, e.EventType, e.Data
	return t, e.OfSensor()
}

// hasTime reports whether the record has any time stamp.
func (t trace) hasTime() bool { return t.Timestamp != 0 && t.Timestamp != math.MaxUint32 }

// readLog takes note of the new records of the SEL, in their order.
func (j *judgement) readLog() {
	if unread(j.in.LogError) {
		return
	}
	log := j.in.Log
	known, overlap := j.known(log)
	again := j.rereads(log)
	isNew := again != nil && !overlap // all of it
	switch {
	case isNew && j.in.LogError != nil: // as far as it was read: what is known may follow
		if again.Told || !j.doubtLog(log, again) {
			j.memory.Reread, j.memory.Cursor, j.memory.Shrunk = again, log.Next, time.Time{}
		}
		return
	case isNew && again.cleared(log):
		// What a part's resource has told, or was told of it, is not only in the log.
		j.releaseUnless(func(p *point) bool { return p.Path != "" })
		j.memory.Tail = nil // what comes back after all is read again
	case j.doubtLog(log, again):
		return
	}
	j.memory.Reread, j.memory.Shrunk = nil, time.Time{}
	if isNew && !log.Restarted && log.Total > 0 { // its first parts were left out
		j.memory.Tail, j.memory.Cursor, j.memory.Total = nil, ipmi.Cursor{}, log.Total
		j.memory.Began, j.logReread = cmp.Or(j.memory.Began, j.in.Now), true
		return
	}
	if log.Restarted && j.in.LogError == nil {
		j.memory.Tail = nil // what was deleted is no trace any more
		for _, e := range log.Events[:known] {
			j.memory.trace(e)
		}
	}
	fresh := make(map[key]bool)
	for _, e := range log.Events[known:] {
		j.memory.trace(e)
		j.watchPower(e, fresh)
		if e.OfSensor() && !j.isOld(e) {
			j.pair(ipmi.Standard(j.bmc(), e), fresh)
		}
	}
	j.show(key{Type: eventLogging, EventType: ipmi.SensorSpecific, State: logFull}, log.Full, "SEL")
	j.memory.Unfinished = j.firstLook() && j.in.LogError != nil
	if j.memory.Began.IsZero() {
		j.memory.Began = j.in.Now
	}
	j.memory.Cursor, j.memory.Total, j.memory.LogBoot = log.Next, log.Total, j.in.BootID
	j.memory.Forgotten = j.memory.Forgotten && j.memory.Unfinished
}

// known returns how many events there are up to the last one that was read before. overlap
// is whether there surely is such a one: then at most single records were deleted.
func (j *judgement) known(log ipmi.EventLog) (n int, overlap bool) {
	proofs := j.memory.proofs()
	for i, e := range log.Events {
		t, _ := traceOf(e)
		if isProof, ok := proofs[t]; ok {
			n, overlap = i+1, overlap || isProof
		}
	}
	if log.Restarted && !overlap {
		n = 0
	}
	return n, overlap
}

// trace adds e to those records by which the SEL is known again.
func (m *memory) trace(e ipmi.Event) {
	if t, ok := traceOf(e); ok {
		m.Tail = append(m.Tail[max(0, len(m.Tail)-maxTail+1):], t)
	}
}

// proofs returns the last records that were read, and whether one of them proves that the
// SEL is the same. One without a time may come again after a clear: it proves that only if
// none has a time, and it is one of the last two, of more. So the SEL was not
// cleared if it has a record less.
func (m *memory) proofs() map[trace]bool {
	all := make(map[trace]bool, len(m.Tail))
	haveTimes := slices.ContainsFunc(m.Tail, trace.hasTime)
	for i, t := range m.Tail {
		all[t] = t.hasTime() || !haveTimes && m.Total > 2 && i >= len(m.Tail)-2
	}
	return all
}

// reread is that the SEL is read from its begin once more, which may take several looks.
type reread struct {
	// Before is up to where it was read before.
	Before ipmi.Cursor `json:"before"`
	// Told is whether a record tells of a clear since.
	Told bool `json:"told,omitempty"`
}

// rereads returns how the SEL is read once more; nil if it is read on.
func (j *judgement) rereads(log ipmi.EventLog) *reread {
	again := reread{Before: j.memory.Cursor}
	switch known := j.memory.Reread; {
	case known == nil && (!again.Before.Read || !log.Restarted && log.Total > 0):
		return nil
	case known != nil && log.Restarted: // a second time
		again.Before = known.Before
	case known != nil:
		again = *known
	}
	again.Told = again.Told || again.tellsOfClear(log)
	return &again
}

// cleared reports whether the SEL, of which no record is known, was cleared. It was not if
// it has wrapped; the package's comment has the evidence.
func (r reread) cleared(log ipmi.EventLog) bool { return r.Told || r.erased(log) && !log.Full }

// tellsOfClear reports whether there is a record of a clear that is not older than what
// was read last: the first record may tell of one long ago.
func (r reread) tellsOfClear(log ipmi.EventLog) bool {
	return slices.ContainsFunc(log.Events, func(e ipmi.Event) bool {
		return e.OfSensor() && e.SensorType == eventLogging && e.EventType == ipmi.SensorSpecific &&
			e.Offset == logCleared && e.Asserted && e.Timestamp >= r.Before.Timestamp
	})
}

// erased reports whether anything was erased since the SEL was read last, as it says.
func (r reread) erased(log ipmi.EventLog) bool {
	return log.Next.Erased != 0 && log.Next.Erased != r.Before.Erased
}

// doubtLog reports whether the SEL has lost its newest records, although nobody says
// that any was erased. Then it is not looked at, until it has been so for long.
func (j *judgement) doubtLog(log ipmi.EventLog, again *reread) bool {
	last := &j.memory
	if again == nil || !log.Restarted || log.Full && log.Total > 0 || log.Total >= last.Total || again.erased(log) {
		return false
	}
	if last.Shrunk.IsZero() || j.in.Now.Before(last.Shrunk) {
		last.Shrunk = j.in.Now
	}
	j.logDoubted = j.in.Now.Sub(last.Shrunk) < shrunkFor
	return j.logDoubted
}

// pair notes what e says of a state: that it is asserted, or over.
func (j *judgement) pair(e ipmi.Event, fresh map[key]bool) {
	k, begins, ok := stateOf(e)
	if !ok {
		return
	}
	k.Located = clip(ipmi.Part(j.bmc(), e), maxName)
	if k.Located == "" && e.SensorType == typeMemory && j.sharedSlots(cmp.Or(clean(e.SensorName), clean(j.sensors[k.sensor()].Name))) != nil {
		k.Located = ipmi.PartByData(e)
	}
	p := j.points[k]
	switch {
	case begins:
		if e.EventType != ipmi.SensorSpecific && e.EventType.Discrete() {
			j.end(k) // the states of a generic table exclude each other
		}
		j.assert(k, e)
		fresh[k] = true
	case p != nil:
		p.Asserted = false
	}
	if present, _ := presence(e.SensorType, e.EventType); present&(1<<k.State) != 0 {
		if k.Located == "" {
			j.remove(k.sensor(), !begins)
		}
		if !begins {
			j.end(k) // what was removed has no other state
		}
	}
}

// bmc returns what is known of who has made it.
func (j *judgement) bmc() (id ipmi.DeviceID) {
	if known := j.memory.BMC; known != nil {
		id.Manufacturer, id.Product = known.Manufacturer, known.Product
	}
	return id
}

// stateOf returns the state that e is about and whether it begins. ok is false if e
// tells nothing of a state.
func stateOf(e ipmi.Event) (k key, begins, ok bool) {
	k = sensorKey{e.SensorType, e.SensorNumber, e.EventType, owner(e.Owner), e.LUN, e.Path}.state(e.Offset)
	if e.EventType.Discrete() {
		return k, e.Asserted, e.EventType != 0 && e.Offset < 15
	}
	// Limit and direction take turns in the offsets of table 42-2. A lower limit
	// is passed going low, an upper one going high.
	k.State = e.Offset / 2
	goingHigh := e.Offset%2 == 1
	isUpper := k.State >= 3
	if goingHigh != isUpper {
		return k, false, e.Asserted && e.Offset < 12
	}
	return k, e.Asserted, e.Offset < 12
}

// assert notes that a record says that the state k was asserted.
func (j *judgement) assert(k key, e ipmi.Event) {
	if j.outage != nil {
		delete(j.outage.before, k)
	}
	p := j.points[k]
	isNew := p == nil
	if isNew {
		p = &point{key: k}
		j.points[k] = p
	}
	if name := cmp.Or(clean(e.SensorName), clean(j.sensors[k.sensor()].Name)); name != "" {
		p.Name = name
	}
	if s, ok := j.sensors[k.sensor()]; ok {
		p.Part = j.partOf(s)
	}
	if !p.Asserted && !p.Latched {
		p.Since = j.timeOf(e)
	}
	p.Asserted, p.Latched, p.Boot, p.Record, p.Data = true, true, j.in.BootID, recordOf(e), dataOf(e)
	p.Raw = rawOf(e)
	isHistory := j.isHistory(e)
	switch {
	case isNew:
		p.History, p.Forgotten = isHistory, isHistory && j.memory.Forgotten
	case p.History && !isHistory:
		p.endHistory()
		p.Since = j.timeOf(e)
	}
	p.Live = !j.firstLook()
	if isHistory && !p.History {
		return // what has been shown, or logged, since then is not one more of these
	}
	if rule, ok := j.rules.find(p.subject()); ok && rule.counted() != nil {
		p.occur(occurrenceOf(e, j.in.Now), *rule.counted(), j.in.Now)
	}
}

// newFor is how old a record may be at the first look to be news all the same. The clock of
// a SEL may be hours off, as in local time.
const newFor = 24 * time.Hour

// firstLook reports whether the SEL was not read to its end before.
func (j *judgement) firstLook() bool {
	m := &j.memory
	return m.Unfinished || m.Began.IsZero() && !m.Cursor.Read && m.LogBoot == ""
}

// isHistory reports whether e is of the time before the first look.
func (j *judgement) isHistory(e ipmi.Event) bool {
	if !j.firstLook() {
		return false
	}
	at := plain(e.Time)
	return at.IsZero() || j.in.Now.Sub(at).Abs() > newFor
}

// isOld reports whether e, which has a text and no number of its own, was there at the last look:
// some services number their entries anew.
func (j *judgement) isOld(e ipmi.Event) bool {
	at := plain(e.Time)
	return e.Message != "" && !j.firstLook() && !at.IsZero() && !j.before.IsZero() && j.before.Sub(at) > newFor
}

// timeOf returns when e came: when it was first seen, if the SEL had no clock.
func (j *judgement) timeOf(e ipmi.Event) (at time.Time) {
	if at = plain(e.Time); at.IsZero() {
		at = j.in.Now
	}
	return at
}

// dataOf returns the event data of e, or its text; "" if the source does not tell.
func dataOf(e ipmi.Event) string {
	if e.Message != "" {
		return clip(strings.ReplaceAll(printable(e.Message), "; ", ", "), maxProblem)
	}
	if e.Data == (ipmi.EventData{}) {
		return ""
	}
	return e.Data.String()
}

// rawOf returns all bytes of e; "" if the source does not tell.
func rawOf(e ipmi.Event) string {
	if e.Raw == (ipmi.SELRecord{}) {
		return ""
	}
	return e.Raw.String()
}

// end notes that the states of a sensor, or of one of its parts, are over, except one.
func (j *judgement) end(except key) {
	k := except
	for k.State = range uint8(15) {
		if p := j.points[k]; p != nil && k != except {
			p.Asserted = false
		}
	}
}
