package drives

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// transport sends a command to a disk that is spoken to as to one of SCSI, and returns what it
// answers, and its sense data if there are any.
type transport func(command []byte, answer []byte) (sense []byte, err error)

// sgHeader is struct sg_io_hdr of scsi/sg.h.
type sgHeader struct {
	interfaceID   int32
	direction     int32
	commandLength uint8
	senseLength   uint8
	_             uint16
	length        uint32
	answer        unsafe.Pointer
	command       unsafe.Pointer
	sense         unsafe.Pointer
	timeout       uint32 // in ms
	_             uint32
	_             int32
	_             unsafe.Pointer
	status        uint8
	_             [2]uint8
	senseGot      uint8
	hostStatus    uint16
	_             uint16
	_             int32
	_             [2]uint32
}

const (
	sgIO           = 0x2285
	fromDisk, none = -3, -1
	// commandTimeout is in ms.
	commandTimeout = 20_000
	good           = 0x00
	checkCondition = 0x02
)

// sgio speaks to the disk of an open file.
func sgio(fd int) transport {
	return func(command, answer []byte) ([]byte, error) {
		sense := make([]byte, 64)
		header := sgHeader{
			interfaceID: 'S', direction: none, commandLength: uint8(len(command)), senseLength: uint8(len(sense)), timeout: commandTimeout,
			command: unsafe.Pointer(&command[0]), sense: unsafe.Pointer(&sense[0]),
		}
		var pin runtime.Pinner
		defer pin.Unpin()
		pin.Pin(&command[0])
		pin.Pin(&sense[0])
		if len(answer) > 0 {
			pin.Pin(&answer[0])
			header.direction, header.length, header.answer = fromDisk, uint32(len(answer)), unsafe.Pointer(&answer[0])
		}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), sgIO, uintptr(unsafe.Pointer(&header))); errno != 0 {
			return nil, fmt.Errorf("asking the disk: %w", errno)
		}
		if header.hostStatus != 0 {
			return nil, fmt.Errorf("the disk does not answer: the driver says 0x%02x (DID_… of Linux)", header.hostStatus)
		}
		if header.status != good && header.status != checkCondition {
			return nil, fmt.Errorf("the disk answers with SCSI status 0x%02x", header.status)
		}
		return sense[:header.senseGot], nil
	}
}

// verdict is what sense data say (SPC-4, 4.5).
type verdict struct{ key, code, qualifier byte }

// errSense is the error of a disk that refuses a command.
type errSense verdict

func (e errSense) Error() string {
	return fmt.Sprintf("the disk refuses to tell its health, with SCSI sense %x/%02x/%02x", e.key, e.code, e.qualifier)
}

// read takes sense data apart, in either of their two forms; all is 0 if there are none.
func read(sense []byte) (v verdict) {
	if len(sense) < 8 {
		return verdict{}
	}
	switch sense[0] & 0x7f {
	case 0x72, 0x73:
		return verdict{sense[1] & 0xf, sense[2], sense[3]}
	case 0x70, 0x71:
		v.key = sense[2] & 0xf
		if len(sense) >= 14 {
			v.code, v.qualifier = sense[12], sense[13]
		}
	}
	return v
}

// The sense keys, SPC-4, 4.5.6.
const (
	noSense        = 0x0
	recovered      = 0x1
	notReady       = 0x2
	illegalRequest = 0x5
	unitAttention  = 0x6
	aborted        = 0xb
)

// again repeats a command that a disk has not executed, since it had something to tell first,
// such as that it was reset.
func again(send transport) transport {
	const attempts = 4
	return func(command, answer []byte) (sense []byte, err error) {
		for range attempts {
			if sense, err = send(command, answer); err != nil || read(sense).key != unitAttention {
				break
			}
		}
		return sense, err
	}
}
