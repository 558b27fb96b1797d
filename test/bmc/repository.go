package bmc

import (
	"encoding/binary"
	"slices"
)

// repository holds the SDRs.
type repository struct {
	records     [][]byte
	added       uint32
	reservation uint16 // 0 if cancelled
}

// AddSDR adds a record of any kind: its type, and what follows the header.
func (b *BMC) AddSDR(recordType uint8, body []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addSDR(recordType, body)
}

func (b *BMC) addSDR(recordType uint8, body []byte) {
	id := uint16(len(b.sdrs.records) + 1)
	header := []byte{byte(id), byte(id >> 8), 0x51, recordType, byte(len(body))}
	b.sdrs.records = append(b.sdrs.records, slices.Concat(header, body))
	b.sdrs.added = b.clock
	b.sdrs.reservation = 0
}

// ResetSDRs removes all SDRs, and with them the sensors.
func (b *BMC) ResetSDRs() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sdrs = repository{added: b.clock}
	b.sensors = nil
}

func (b *BMC) sdrInfo() (uint8, []byte) {
	info := []byte{0x51}
	info = binary.LittleEndian.AppendUint16(info, uint16(len(b.sdrs.records)))
	info = binary.LittleEndian.AppendUint16(info, 0xffff) // free space: unspecified
	info = binary.LittleEndian.AppendUint32(info, b.sdrs.added)
	info = binary.LittleEndian.AppendUint32(info, 0)
	return ok, append(info, 0x02)
}

func (b *BMC) deviceSDRInfo() (uint8, []byte) {
	const lun0 = 1
	return ok, []byte{byte(len(b.sdrs.records)), lun0}
}

func (b *BMC) getSDR(data []byte) (uint8, []byte) {
	isPartial := len(data) == 6 && data[4] > 0 // section 33.12: only with an offset
	return getRecord(b.sdrs.records, b.sdrs.reservation, isPartial, b.config.MaxSDRRead, data)
}

// getRecord executes Get SDR and Get SEL Entry, which are alike but for when they need
// the reservation. Records begin with their ID.
func getRecord(records [][]byte, reservation uint16, isPartial bool, maxRead int, request []byte) (uint8, []byte) {
	if len(request) != 6 {
		return invalidLength, nil
	}
	index := findRecord(records, binary.LittleEndian.Uint16(request[2:]))
	if index < 0 {
		return notPresent, nil
	}
	record, offset, length := records[index], int(request[4]), int(request[5])
	whole := length == 0xff
	if whole {
		length = len(record) - offset
	}
	switch {
	case offset > len(record) || offset+length > len(record):
		return parameterRange, nil
	case maxRead > 0 && length > maxRead:
		return cannotReturnLength, nil
	case isPartial && binary.LittleEndian.Uint16(request) != reservation:
		return lostReservation, nil
	}
	next := []byte{0xff, 0xff}
	if index+1 < len(records) {
		next = records[index+1][:2]
	}
	return ok, slices.Concat(next, record[offset:offset+length])
}

func findRecord(records [][]byte, id uint16) int {
	switch {
	case len(records) == 0:
		return -1
	case id == 0x0000:
		return 0
	case id == 0xffff:
		return len(records) - 1
	}
	return slices.IndexFunc(records, func(record []byte) bool {
		return binary.LittleEndian.Uint16(record) == id
	})
}

// mcLocator is the record in which the BMC names itself.
func mcLocator(name string) (recordType uint8, body []byte) {
	return 0x12, slices.Concat([]byte{0x20, 0, 0, 0xbf, 0, 0, 0, 7, 1, 0}, nameField(name))
}

// nameField encodes a name as 8-bit characters.
func nameField(name string) []byte {
	return append([]byte{0xc0 | byte(len(name)&0x1f)}, name...)
}
