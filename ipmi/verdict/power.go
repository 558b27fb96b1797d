package verdict

import (
	"github.com/nodemend/nodemend/ipmi"
)

// Seconds of the clock of the SEL.
const (
	// unpluggedFor is how long a server has to be without any power for an
	// exchange of its parts to be believed: longer than a switched feed, and than the
	// self-test at whose end many BIOSes log their first record.
	unpluggedFor = 30 * 60
	// lastGasp is how long a BMC goes on to log while its power fails.
	lastGasp = 60
)

// outage is a time without standby power, of which the SEL has told the begin.
type outage struct {
	since uint32
	// before has what was asserted before it, and not again since.
	before map[key]bool
}

// losesPower reports whether e says that the chassis has no power, not even standby power
// (IPMI 2.0, table 42-3): Power Unit "AC lost", System ACPI Power State "G3:
// mechanical off".
func losesPower(e ipmi.Event) bool {
	if !e.OfSensor() || e.EventType != ipmi.SensorSpecific || !e.Asserted {
		return false
	}
	return e.SensorType == 0x09 && e.Offset == 4 || e.SensorType == 0x22 && e.Offset == 7
}

// hasPower reports whether e says that the chassis is running, or has power again
// (table 42-3): "AC lost" is over, S0, a boot, the watchdog timer.
func hasPower(e ipmi.Event) bool {
	if !e.OfSensor() || e.EventType != ipmi.SensorSpecific {
		return false
	}
	switch e.SensorType {
	case 0x09:
		return e.Offset == 4 && !e.Asserted
	case 0x22:
		return e.Offset == 0 && e.Asserted
	case 0x1d, 0x23:
		return true
	default:
		return false
	}
}

// setsClock reports whether e is a System Event "Timestamp Clock Sync" (table 42-3).
func setsClock(e ipmi.Event) bool {
	return e.OfSensor() && e.EventType == ipmi.SensorSpecific && e.SensorType == 0x12 && e.Offset == 5
}

// watchPower releases what was asserted before a long outage that e ends. Its length is
// that between two records, both with a time: a BMC without power logs nothing. fresh
// has the states whose assertion was read just now, before e.
func (j *judgement) watchPower(e ipmi.Event, fresh map[key]bool) {
	boot := j.in.BootID
	if boot == "" || boot == j.memory.LogBoot {
		return // one kernel was running all the time
	}
	if losesPower(e) {
		j.outage = j.begin(e, fresh)
		return
	}
	o := j.outage
	switch {
	case o == nil:
		return
	case plain(e.Time).IsZero() || e.Timestamp < o.since || setsClock(e): // its length is not known
		j.outage = nil
		return
	case e.Timestamp-o.since <= lastGasp && !hasPower(e):
		return
	}
	if e.Timestamp-o.since >= unpluggedFor {
		j.releaseUnless(func(p *point) bool { return !o.before[p.key] })
	}
	j.outage = nil
}

// begin returns the outage that begins with e; nil if it has no time.
func (j *judgement) begin(e ipmi.Event, fresh map[key]bool) *outage {
	if plain(e.Time).IsZero() {
		return nil
	}
	before := make(map[key]bool)
	for k, p := range j.points {
		if fresh[k] || j.earlierBoot(p) {
			before[k] = true
		}
	}
	return &outage{since: e.Timestamp, before: before}
}

// earlierBoot reports whether p is known to have been asserted last in another boot
// than the present one.
func (j *judgement) earlierBoot(p *point) bool {
	return p.Boot != "" && p.Boot != j.in.BootID
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
