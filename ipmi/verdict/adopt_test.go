package verdict_test

import (
	"testing"

	"github.com/nodemend/nodemend/ipmi/verdict"
)

const supplyFails = "failed | PowerSupplyFailure | PSU1 failure detected"

func TestWhatWasRememberedOfAnotherControllersSensorGoesOn(t *testing.T) {
	for name, acknowledged := range map[string]bool{"failed": false, "acknowledged": true} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			s := b.sensor("PSU1 Status")
			s.Owner, s.LUN = 0, 0 // as ipmitool's lists had it
			s.States |= 1 << 1
			b.expect(supplyFails)
			want := supplyFails
			if acknowledged {
				b.acknowledge(verdict.All)
				want = "healthy | HardwareHealthy | (PSU1 failure detected)"
				b.expect(want)
			}
			s.Owner, s.LUN = satellite, 1
			b.expect(want)
			b.expect(want)
			s.States = 1 << 0
			b.expect("healthy | HardwareHealthy")
		})
	}
}

func TestWhatIsRememberedOfTheBMCsOwnSensorIsNotTakenForAnothers(t *testing.T) {
	b := newBMC(t)
	b.sensor("PSU1 Status").States |= 1 << 1
	b.expect(supplyFails)
	other := *b.sensor("PSU1 Status")
	other.Owner, other.Name, other.States = satellite, "PSU7 Status", 1<<0
	b.in.Sensors = append(b.in.Sensors, other)
	b.expect(supplyFails)
	b.sensor("PSU1 Status").States = 1 << 0
	b.expect("healthy | HardwareHealthy")
}
