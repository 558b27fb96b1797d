package drives

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// adminCommand is struct nvme_admin_cmd of linux/nvme_ioctl.h.
type adminCommand struct {
	opcode    uint8
	_         [3]uint8
	namespace uint32
	_         [2]uint32
	_         uint64 // where metadata are
	address   uint64
	_         uint32 // how long they are
	size      uint32
	cdw       [6]uint32 // 10 to 15
	timeout   uint32    // in ms
	_         uint32
}

const (
	// adminIOCTL is NVME_IOCTL_ADMIN_CMD: _IOWR('N', 0x41, struct nvme_admin_cmd).
	adminIOCTL = 3<<30 | unsafe.Sizeof(adminCommand{})<<16 | 'N'<<8 | 0x41
	// The NVM Express Base Specification 2.0, 5.16 and 5.16.1.3.
	getLogPage    = 0x02
	healthLog     = 0x02
	healthLogSize = 512
	// wholeDrive stands for all namespaces.
	wholeDrive = 0xffffffff
	// adminTimeout is in ms. The kernel resets a controller that takes longer.
	adminTimeout = 60_000
)

// errStatus is the status with which a drive refuses a command: its type, and its code
// (4.2.3 of the specification).
type errStatus uint16

func (e errStatus) Error() string {
	return fmt.Sprintf("the drive refuses to tell its health, with NVMe status 0x%x", uint16(e))
}

// unsupported is whether the drive does not know the command.
func (e errStatus) unsupported() bool {
	switch e & 0x7ff {
	case 0x001, 0x002, 0x109: // invalid opcode, invalid field, invalid log page
		return true
	}
	return false
}

// askNVMe asks an NVMe controller.
func askNVMe(fd int) (health, error) {
	log := make([]byte, healthLogSize)
	var pin runtime.Pinner
	pin.Pin(&log[0])
	defer pin.Unpin()
	command := adminCommand{
		opcode: getLogPage, namespace: wholeDrive, address: uint64(uintptr(unsafe.Pointer(&log[0]))), size: healthLogSize,
		cdw: [6]uint32{healthLog | (healthLogSize/4-1)<<16}, timeout: adminTimeout,
	}
	status, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), adminIOCTL, uintptr(unsafe.Pointer(&command)))
	switch {
	case errno != 0:
		return health{}, fmt.Errorf("reading the health log: %w", errno)
	case status != 0:
		return refused(errStatus(status))
	}
	return decodeNVMe(log), nil
}

func refused(err error) (health, error) {
	var status errStatus
	if errors.As(err, &status) && status.unsupported() {
		return health{none: true}, nil
	}
	return health{}, err
}

// decodeNVMe decodes a health log.
func decodeNVMe(log []byte) (h health) {
	const celsius = 273
	warning, spare, least := log[0], log[3], log[4]
	temperature := int(binary.LittleEndian.Uint16(log[1:])) - celsius
	if warning&(1<<3) != 0 {
		h.add(ReasonReadOnly, "it lets nobody write any more")
	}
	if warning&(1<<2) != 0 {
		h.add(ReasonFailing, "it says that it is not reliable any more")
	}
	if warning&(1<<0) != 0 {
		h.add(ReasonSpare, "spare %d %%, and at least %d %% should be left", spare, least)
	}
	if warning&(1<<4) != 0 {
		h.add(ReasonCache, "its cache is not kept any more when the power is lost")
	}
	if warning&(1<<5) != 0 {
		h.add(ReasonReadOnly, "its persistent memory can't be written any more, or is not reliable")
	}
	if warning&(1<<1) != 0 {
		h.add(ReasonHot, "%d °C, which its maker does not allow", temperature)
	}
	h.used, h.media, h.counted = int(log[5]), large(log[160:]), true
	if spare > 0 || least > 0 { // virtual ones have none
		h.notes = append(h.notes, fmt.Sprintf("spare %d %%", spare))
	}
	return h
}

// large is a number of 16 bytes.
func large(data []byte) uint64 {
	if binary.LittleEndian.Uint64(data[8:]) != 0 {
		return math.MaxUint64
	}
	return binary.LittleEndian.Uint64(data)
}
