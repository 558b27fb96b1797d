package drives

import (
	"encoding/binary"
	"errors"
)

// The commands of SPC-4 and SBC-3 that are used, and pages of logs.
const (
	requestSense  = 0x03
	logSense      = 0x4d
	current       = 1 << 6 // which of the values: those of now
	pageWrite     = 0x02
	pageRead      = 0x03
	pageVerify    = 0x05
	pageEndurance = 0x11
	pageExcepted  = 0x2f
	maxPage       = 512
)

// askSCSI asks a disk of SAS, unless it sleeps.
func askSCSI(send transport) (health, error) {
	answer := make([]byte, 18)
	sense, err := send([]byte{0: requestSense, 4: byte(len(answer)), 5: 0}, answer)
	if err != nil {
		return health{}, err
	}
	for _, v := range []verdict{read(answer), read(sense)} {
		switch {
		case v.sleeps():
			return health{asleep: true}, nil
		case v.key == notReady:
			return health{}, errSense(v)
		}
	}
	var h health
	exceptions, err := page(send, pageExcepted)
	if err != nil {
		return health{}, err
	}
	h.none = exceptions == nil
	if p := exceptions[0]; len(p) >= 2 {
		h.except(p[0], p[1])
	}
	const uncorrected = 6
	for _, of := range []byte{pageRead, pageWrite, pageVerify} {
		counts, err := page(send, of)
		if err != nil {
			return health{}, err
		}
		if value, counted := counts[uncorrected]; counted {
			h.none, h.counted = false, true
			h.media += bigEndian(value)
		}
	}
	endurance, err := page(send, pageEndurance)
	if err != nil {
		return health{}, err
	}
	if p := endurance[1]; len(p) >= 4 {
		h.used = int(p[3])
	}
	return h, nil
}

// sleeps is whether a disk was stopped, or is in one of its states of low power.
func (v verdict) sleeps() bool {
	const notReadyYet, stopped, waitsToSpin, lowPower = 0x04, 0x02, 0x11, 0x5e
	return v.code == lowPower || v.code == notReadyYet && (v.qualifier == stopped || v.qualifier == waitsToSpin)
}

// except takes what the disk says of itself (SPC-4, informational exceptions): a sense code and
// its qualifier.
func (h *health) except(code, qualifier byte) {
	const warning, tooHot, failing = 0x0b, 0x01, 0x5d
	switch {
	case code == failing:
		h.add(ReasonFailing, "it says that it will fail soon (SMART, 5D/%02x)", qualifier)
	case code == warning && qualifier == tooHot:
		h.add(ReasonHot, "it is hotter than its maker allows")
	}
}

// page reads a page of a log (SPC-4, 7.3): values by the codes of their parameters; nil if the
// disk has no such page.
func page(send transport, number byte) (map[uint16][]byte, error) {
	answer := make([]byte, maxPage)
	sense, err := send([]byte{0: logSense, 2: current | number, 7: maxPage >> 8, 8: maxPage & 0xff, 9: 0}, answer)
	if err != nil {
		return nil, err
	}
	switch v := read(sense); v.key {
	case noSense, recovered:
	case illegalRequest:
		return nil, nil
	default:
		return nil, errSense(v)
	}
	if answer[0]&0x3f != number {
		return nil, errors.New("the disk answers with another page of its log")
	}
	values := map[uint16][]byte{}
	rest := answer[4:min(4+int(binary.BigEndian.Uint16(answer[2:])), len(answer))]
	for len(rest) >= 4 {
		code, length := binary.BigEndian.Uint16(rest), int(rest[3])
		rest = rest[4:]
		if length > len(rest) {
			break // the rest of it was not asked for
		}
		values[code] = rest[:length]
		rest = rest[length:]
	}
	return values, nil
}

func bigEndian(data []byte) (n uint64) {
	for _, b := range data {
		n = n<<8 | uint64(b)
	}
	return n
}
