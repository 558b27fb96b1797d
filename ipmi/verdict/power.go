package verdict

import (
	"slices"

	"github.com/nodemend/nodemend/ipmi"
)

// automatic is how many seconds after a power-off by the watchdog timer records of
// a power-off and power-up are taken for the same one.
const automatic = 600

// poweredUp reports whether the chassis had no power right before the last start.
// RestartChassisControl may have been a reset.
func poweredUp(cause ipmi.RestartCause) bool {
	switch cause {
	case ipmi.RestartPowerButton, ipmi.RestartAlwaysRestore, ipmi.RestartRestorePrevious, ipmi.RestartPEFPowerCycle, ipmi.RestartRTC:
		return true
	default:
		return false
	}
}

// transition is what a record tells of the power of the chassis.
type transition int

const (
	noTransition transition = iota
	powerOff                // it was off, or has just come on
	watchdogOff             // the watchdog timer turns it off
	reset                   // it was started anew with the power on
)

// transitionOf reads e by the tables of the sensor types (IPMI 2.0, table 42-3).
func transitionOf(e ipmi.Event) transition {
	if e.EventType != ipmi.SensorSpecific || !e.Asserted {
		return noTransition
	}
	switch e.SensorType {
	case 0x09: // Power Unit: off, cycle, AC lost
		return at(e.Offset, powerOff, 0, 1, 4)
	case 0x1d: // System Boot Initiated: by a power-up; by resets
		return max(at(e.Offset, powerOff, 0), at(e.Offset, reset, 1, 2, 5, 6))
	case 0x22: // System ACPI Power State: S4, S5/G2, S4/S5, G3, S5 by override, Legacy OFF
		return at(e.Offset, powerOff, 4, 5, 6, 7, 10, 12)
	case 0x23: // Watchdog2: hard reset; power down, power cycle
		return max(at(e.Offset, reset, 1), at(e.Offset, watchdogOff, 2, 3))
	default:
		return noTransition
	}
}

// at returns t if offset is one of those.
func at(offset uint8, t transition, offsets ...uint8) transition {
	if slices.Contains(offsets, offset) {
		return t
	}
	return noTransition
}

// watchPower releases what was asserted before e if e shows that the chassis was
// powered off since. fresh has the states whose assertion was read just now, before e.
func (j *judgement) watchPower(e ipmi.Event, fresh map[key]bool) {
	boot := j.in.BootID
	if boot == "" || boot == j.memory.LogBoot {
		return // one kernel was running all the time
	}
	switch transitionOf(e) {
	case watchdogOff:
		j.memory.Expired = e.Timestamp
	case reset:
		j.memory.ResetBoot = boot
	case powerOff:
		if expired := j.memory.Expired; expired != 0 && e.Timestamp >= expired && e.Timestamp-expired <= automatic {
			return
		}
		j.releaseUnless(func(p *point) bool { return !fresh[p.key] && !j.earlierBoot(p) })
	case noTransition:
	}
}

// readRestartCause releases what was asserted in an earlier boot if the BMC says
// that the present one began with a power-up. The SEL has to be read before, as it
// may tell otherwise.
func (j *judgement) readRestartCause() {
	boot := j.in.BootID
	if j.in.ChassisError != nil || j.memory.LogBoot != boot || j.memory.ResetBoot == boot {
		return
	}
	if poweredUp(j.in.Chassis.RestartCause) {
		j.releaseUnless(func(p *point) bool { return !j.earlierBoot(p) })
	}
}

// earlierBoot reports whether p is known to have been asserted last in another boot
// than the present one.
func (j *judgement) earlierBoot(p *point) bool {
	return j.in.BootID != "" && p.Boot != "" && p.Boot != j.in.BootID
}

// releaseUnless releases all points that keep does not hold back, except those
// that only people release.
func (j *judgement) releaseUnless(keep func(*point) bool) {
	for k, p := range j.points {
		if keep(p) || j.latch(p) == LatchManual {
			continue
		}
		p.release()
		if !p.Shown {
			delete(j.points, k)
		}
	}
}
