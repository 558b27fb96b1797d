package bmc

// ChassisFault is a fault that the chassis status shows (IPMI 2.0, section 28.2).
type ChassisFault struct {
	index int
	bit   uint8
}

// Faults of the chassis.
var (
	PowerOverload     = ChassisFault{0, 1 << 1}
	MainPowerFault    = ChassisFault{0, 1 << 3}
	PowerControlFault = ChassisFault{0, 1 << 4}
	Intrusion         = ChassisFault{2, 1 << 0}
	DriveFault        = ChassisFault{2, 1 << 2}
	CoolingFault      = ChassisFault{2, 1 << 3}
)

const powerOn = 1 << 0

// SetFault makes a fault of the chassis appear, or disappear.
func (b *BMC) SetFault(fault ChassisFault, present bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setChassis(fault.index, fault.bit, present)
}

// SetPower switches the machine on or off.
func (b *BMC) SetPower(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.setChassis(0, powerOn, on)
}

// SetRestartCause sets why the system was last started (table 28-11).
func (b *BMC) SetRestartCause(cause uint8) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restart = cause
}

func (b *BMC) setChassis(index int, bit uint8, set bool) {
	b.chassis[index] &^= bit
	if set {
		b.chassis[index] |= bit
	}
}
