package bmc

import (
	"encoding/binary"
	"slices"
	"sync"
)

// Completion codes that the BMC answers with by itself.
const (
	ok                 = 0x00
	noParameter        = 0x80
	invalidCommand     = 0xc1
	invalidForLUN      = 0xc2
	lostReservation    = 0xc5
	invalidLength      = 0xc7
	parameterRange     = 0xc9
	cannotReturnLength = 0xca
	notPresent         = 0xcb
	invalidField       = 0xcc
	illegalForSensor   = 0xcd
)

// Command names a command by its network function and number.
type Command struct{ NetFn, Number uint8 }

// The commands that the BMC knows.
var (
	GetChassisStatus    = Command{0x00, 0x01}
	GetRestartCause     = Command{0x00, 0x07}
	GetDeviceSDRInfo    = Command{0x04, 0x20}
	GetDeviceSDR        = Command{0x04, 0x21}
	ReserveDeviceSDR    = Command{0x04, 0x22}
	GetReadingFactors   = Command{0x04, 0x23}
	GetSensorThresholds = Command{0x04, 0x27}
	GetSensorReading    = Command{0x04, 0x2d}
	GetDeviceID         = Command{0x06, 0x01}
	GetSystemGUID       = Command{0x06, 0x37}
	GetChannelInfo      = Command{0x06, 0x42}
	GetSDRInfo          = Command{0x0a, 0x20}
	ReserveSDR          = Command{0x0a, 0x22}
	GetSDR              = Command{0x0a, 0x23}
	GetSELInfo          = Command{0x0a, 0x40}
	ReserveSEL          = Command{0x0a, 0x42}
	GetSELEntry         = Command{0x0a, 0x43}
	GetSELTime          = Command{0x0a, 0x48}
	GetLANParameter     = Command{0x0c, 0x02}
)

// Config is what does not change of a BMC.
type Config struct {
	Name string // in its own SDR; none if empty
	// DeviceSDRs keeps the SDRs with the sensors, as of a BMC without a repository.
	DeviceSDRs bool
	// MaxSDRRead is how many bytes of an SDR the BMC returns at once; 0: any number.
	MaxSDRRead int
	// MaxSELRead is the same for the SEL. Whole records have 16 bytes.
	MaxSELRead int
	// SELCapacity is how many records the SEL has space for; 0: 65535.
	SELCapacity int
	// Circular is whether a full SEL forgets its oldest record rather than the
	// new one.
	Circular bool
	// Manufacturer is an IANA enterprise number, and Product a number of its own; 0: some.
	Manufacturer uint32
	Product      uint16
	// GUID is the System GUID; nil: it is not told, as by ipmi_sim on this side.
	GUID []byte
}

// BMC is a BMC. It is safe for concurrent use.
type BMC struct {
	config Config

	mu          sync.Mutex
	clock       uint32
	sensors     []*Sensor
	sdrs        repository
	sel         eventLog
	chassis     [3]byte
	restart     uint8
	channels    map[uint8]Channel
	hook        Hook
	counts      map[Command]int
	reservation uint16 // the last one given
}

// New returns a BMC of a machine that is switched on.
func New(config Config) *BMC {
	if config.SELCapacity == 0 {
		config.SELCapacity = 0xffff
	}
	if config.Manufacturer == 0 {
		const intel = 343
		config.Manufacturer, config.Product = intel, 0x1234
	}
	b := &BMC{config: config, clock: 1, counts: map[Command]int{}}
	b.chassis[0] = powerOn
	b.sel.nextID = 1
	if config.Name != "" {
		b.addSDR(mcLocator(config.Name))
	}
	return b
}

// SetMaker sets who has made the BMC, and what.
func (b *BMC) SetMaker(manufacturer uint32, product uint16) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.config.Manufacturer, b.config.Product = manufacturer, product
}

// SetClock sets the clock by which the BMC stamps what happens: seconds since 1970, or
// at most 0x20000000 for seconds since its start. It begins at 1 and stands still.
func (b *BMC) SetClock(seconds uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clock = seconds
}

// Handle executes a command, and returns its answer with the completion code first.
func (b *BMC) Handle(netfn, lun, number uint8, data []byte) []byte {
	b.mu.Lock()
	command := Command{netfn, number}
	b.counts[command]++
	hook := b.hook
	b.mu.Unlock()

	if hook != nil {
		if answer := hook(command, data); answer != nil {
			return answer
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	code, answer := b.execute(command, lun, data)
	return slices.Concat([]byte{code}, answer)
}

func (b *BMC) execute(command Command, lun uint8, data []byte) (code uint8, answer []byte) {
	switch command {
	case GetSensorReading, GetSensorThresholds, GetReadingFactors:
		return b.sensorCommand(command, lun, data)
	}
	if lun != 0 {
		return invalidForLUN, nil
	}
	if b.config.DeviceSDRs {
		switch command {
		case GetSDRInfo, ReserveSDR, GetSDR:
			return invalidCommand, nil
		case ReserveDeviceSDR:
			command = ReserveSDR
		case GetDeviceSDR:
			command = GetSDR
		case GetDeviceSDRInfo:
			return b.deviceSDRInfo()
		}
	}
	switch command {
	case GetDeviceID:
		return b.deviceID()
	case GetSystemGUID:
		if b.config.GUID == nil {
			return invalidCommand, nil
		}
		return ok, b.config.GUID
	case GetChannelInfo:
		return b.channelInfo(data)
	case GetLANParameter:
		return b.lanParameter(data)
	case GetChassisStatus:
		return ok, b.chassis[:]
	case GetRestartCause:
		return ok, []byte{b.restart, 0}
	case GetSDRInfo:
		return b.sdrInfo()
	case ReserveSDR:
		return b.reserve(&b.sdrs.reservation)
	case GetSDR:
		return b.getSDR(data)
	case GetSELInfo:
		return b.selInfo()
	case ReserveSEL:
		return b.reserve(&b.sel.reservation)
	case GetSELEntry:
		return b.getSELEntry(data)
	case GetSELTime:
		return ok, binary.LittleEndian.AppendUint32(nil, b.clock)
	default:
		return invalidCommand, nil
	}
}

func (b *BMC) deviceID() (uint8, []byte) {
	const providesDeviceSDRs, repository, rest = 0x80, 0x02, 0xbd
	revision, support := byte(1), byte(repository|rest)
	if b.config.DeviceSDRs {
		revision, support = revision|providesDeviceSDRs, rest
	}
	id := []byte{0x20, revision, 2, 0x14, 0x02, support}
	id = append(id, byte(b.config.Manufacturer), byte(b.config.Manufacturer>>8), byte(b.config.Manufacturer>>16))
	return ok, binary.LittleEndian.AppendUint16(id, b.config.Product)
}

// reserve gives a reservation, which ends the one before.
func (b *BMC) reserve(reservation *uint16) (uint8, []byte) {
	b.reservation++
	*reservation = b.reservation
	return ok, binary.LittleEndian.AppendUint16(nil, b.reservation)
}
