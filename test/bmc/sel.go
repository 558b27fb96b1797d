package bmc

import (
	"encoding/binary"
	"slices"
)

// eventLog is the SEL.
type eventLog struct {
	records       [][]byte
	nextID        uint16
	added, erased uint32
	overflow      bool
	reservation   uint16 // 0 if cancelled
}

// Event is a system event, as table 32-1 of IPMI 2.0 has it.
type Event struct {
	Generator  uint8 // 0: the BMC
	LUN        uint8
	Type       uint8
	Number     uint8
	EventType  uint8 // 0: 0x6f, sensor-specific
	Data       [3]uint8
	Deasserted bool
}

// Log adds an event to the SEL, with the time of the BMC's clock.
func (b *BMC) Log(e Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log(e)
}

func (b *BMC) log(e Event) {
	if e.Generator == 0 {
		e.Generator = 0x20
	}
	if e.EventType == 0 {
		e.EventType = 0x6f
	}
	direction := e.EventType
	if e.Deasserted {
		direction |= 0x80
	}
	record := make([]byte, 2, 16) // the ID
	record = append(record, 0x02)
	record = binary.LittleEndian.AppendUint32(record, b.clock)
	record = append(record, e.Generator, e.LUN, 0x04, e.Type, e.Number, direction)
	b.addRecord([16]byte(append(record, e.Data[:]...)))
}

// LogRecord adds a record as it is, but for its ID.
func (b *BMC) LogRecord(record [16]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addRecord(record)
}

func (b *BMC) addRecord(record [16]byte) {
	if len(b.sel.records) >= b.config.SELCapacity {
		if !b.config.Circular {
			b.sel.overflow = true
			return
		}
		b.sel.records = slices.Delete(b.sel.records, 0, 1)
	}
	binary.LittleEndian.PutUint16(record[:], b.sel.nextID)
	b.sel.records = append(b.sel.records, record[:])
	b.sel.added = b.clock
	b.sel.nextID++
	if b.sel.nextID == 0xffff {
		b.sel.nextID = 1
	}
}

// SkipIDs has the next record take a later ID, or any other.
func (b *BMC) SkipIDs(next uint16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sel.nextID = next
}

// ClearSEL removes all records. IDs begin at 1 again.
func (b *BMC) ClearSEL() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sel = eventLog{nextID: 1, added: b.sel.added, erased: b.clock}
}

// DeleteSEL removes the record of that ID, if there is one.
func (b *BMC) DeleteSEL(id uint16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if index := findRecord(b.sel.records, id); index >= 0 {
		b.sel.records = slices.Delete(b.sel.records, index, index+1)
		b.sel.erased = b.clock
		b.sel.reservation = 0
	}
}

func (b *BMC) selInfo() (uint8, []byte) {
	const clearable = 0x0a
	operations := byte(clearable)
	if b.sel.overflow {
		operations |= 0x80
	}
	free := min(16*(b.config.SELCapacity-len(b.sel.records)), 0xffff)
	info := []byte{0x51}
	info = binary.LittleEndian.AppendUint16(info, uint16(len(b.sel.records)))
	info = binary.LittleEndian.AppendUint16(info, uint16(free))
	info = binary.LittleEndian.AppendUint32(info, b.sel.added)
	info = binary.LittleEndian.AppendUint32(info, b.sel.erased)
	return ok, append(info, operations)
}

func (b *BMC) getSELEntry(data []byte) (uint8, []byte) {
	isPartial := len(data) == 6 && (data[4] > 0 || data[5] != 0xff) // section 31.5
	return getRecord(b.sel.records, b.sel.reservation, isPartial, b.config.MaxSELRead, data)
}

// SetSEL replaces the SEL: its records with their IDs, when it was last erased, and whether
// records were lost as there was no space.
func (b *BMC) SetSEL(records [][16]byte, erased uint32, overflow bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sel = eventLog{nextID: 1, erased: erased, overflow: overflow}
	for _, r := range records {
		b.sel.records = append(b.sel.records, r[:])
		b.sel.nextID = binary.LittleEndian.Uint16(r[:]) + 1
		b.sel.added = binary.LittleEndian.Uint32(r[3:])
	}
}
