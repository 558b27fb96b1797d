package drives

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The commands of ACS-3 that are used, and what is written to the disk's registers for SMART.
const (
	checkPowerMode   = 0xe5
	smart            = 0xb0
	smartReadData    = 0xd0
	smartReadLimits  = 0xd1
	smartStatus      = 0xda
	smartMid         = 0x4f
	smartHigh        = 0xc2
	smartFailingMid  = 0xf4
	smartFailingHigh = 0x2c
	smartDataSize    = 512
)

// registers are those of an ATA disk after a command.
type registers struct{ count, mid, high byte }

// errNoRegisters says that what is between us and the disk does not pass its registers on.
var errNoRegisters = errors.New("the disk's controller does not pass on what the disk answers")

// passThrough sends an ATA command (SAT-3, 12.2.2), and returns the registers if there is no
// answer to read.
func passThrough(send transport, command, feature byte, answer []byte) (registers, error) {
	const ataPassThrough16, nonData, pioIn, checkRegisters, readBlocks = 0x85, 3 << 1, 4 << 1, 0x20, 0x0e
	c := []byte{0: ataPassThrough16, 1: nonData, 2: checkRegisters, 4: feature, 14: command, 15: 0}
	if len(answer) > 0 {
		c[1], c[2], c[6] = pioIn, readBlocks, 1
	}
	if command == smart {
		c[10], c[12] = smartMid, smartHigh
	}
	sense, err := send(c, answer)
	if err != nil {
		return registers{}, err
	}
	v := read(sense)
	if v.key != noSense && v.key != recovered {
		return registers{}, errSense(v)
	}
	if len(answer) > 0 {
		return registers{}, nil
	}
	return registersOf(sense)
}

// registersOf finds the registers in sense data (SAT-3, 12.2.2.7).
func registersOf(sense []byte) (registers, error) {
	const descriptor = 0x09
	switch {
	case len(sense) >= 22 && sense[0]&0x7f == 0x72 && sense[8] == descriptor:
		return registers{count: sense[13], mid: sense[17], high: sense[19]}, nil
	case len(sense) >= 18 && sense[0]&0x7f == 0x70 && sense[12] == 0x00 && sense[13] == 0x1d:
		return registers{count: sense[6], mid: sense[10], high: sense[11]}, nil
	}
	return registers{}, errNoRegisters
}

// askATA asks a disk of SATA, unless it sleeps.
func askATA(send transport) (health, error) {
	const standby, standbyToo = 0x00, 0x01
	power, err := passThrough(send, checkPowerMode, 0, nil)
	switch {
	case unknownToDisk(err): // it never sleeps, or does not tell: then it is not asked, lest it wakes up
		return health{none: true}, nil
	case err != nil:
		return health{}, err
	case power.count == standby || power.count == standbyToo:
		return health{asleep: true}, nil
	}
	status, err := passThrough(send, smart, smartStatus, nil)
	if unknownToDisk(err) {
		return health{none: true}, nil
	}
	if err != nil {
		return health{}, err
	}
	data := make([]byte, smartDataSize)
	if _, err := passThrough(send, smart, smartReadData, data); err != nil && !unknownToDisk(err) {
		return health{}, err
	}
	h := decodeATA(data)
	if status.mid == smartFailingMid && status.high == smartFailingHigh {
		limits := make([]byte, smartDataSize)
		if _, err := passThrough(send, smart, smartReadLimits, limits); err != nil && !unknownToDisk(err) {
			return health{}, err
		}
		h.add(ReasonFailing, "it says that it will fail soon (SMART)%s", exceeded(data, limits))
	}
	return h, nil
}

// unknownToDisk is whether a disk, or its controller, does not know a command.
func unknownToDisk(err error) bool {
	var sense errSense
	return errors.Is(err, errNoRegisters) || errors.As(err, &sense) && (sense.key == illegalRequest || sense.key == aborted)
}

// The attributes of SMART that count blocks that could not be read: in all, and, of disks that do
// not tell that, now, which comes and goes. Moved blocks (5) are none of them: disks of flash move
// some all their life.
const (
	unread  = 187
	pending = 197
)

// attributes calls f with each attribute of SMART data: a table of 30, of 12 bytes each, after
// 2 of a version. It was in ATA-3, and makers have kept to it.
func attributes(data []byte, f func(id byte, entry []byte)) {
	for at := 2; at+12 <= 362; at += 12 {
		if id := data[at]; id != 0 {
			f(id, data[at:at+12])
		}
	}
}

// decodeATA decodes SMART data. Of the raw values the lower four bytes are what all count in.
func decodeATA(data []byte) (h health) {
	inAll := false
	attributes(data, func(id byte, entry []byte) {
		if id == unread || id == pending && !inAll {
			h.media, h.counted = uint64(binary.LittleEndian.Uint32(entry[5:])), true
			inAll = inAll || id == unread
		}
	})
	return h
}

// exceeded tells which attributes are beyond the limit at which the disk says that it fails.
func exceeded(data, limits []byte) (text string) {
	limit := map[byte]byte{}
	attributes(limits, func(id byte, entry []byte) { limit[id] = entry[1] })
	attributes(data, func(id byte, entry []byte) {
		const foretells = 1
		if value := entry[3]; entry[1]&foretells != 0 && limit[id] > 0 && value <= limit[id] {
			text += fmt.Sprintf(", attribute %d is %d, and has to be above %d", id, value, limit[id])
		}
	})
	return text
}
