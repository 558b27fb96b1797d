package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

func TestNothingIsAbsentOnFirstSight(t *testing.T) {
	b := newBMC(t)
	b.sensor("PSU2 Status").States = 0
	b.unavailable("FAN1")
	b.expect(healthy)
	b.after(time.Hour).expect(healthy)
}

func TestAComponentThatWasThereIsMissed(t *testing.T) {
	const (
		pulled  = "failed | PowerSupplyFailure | PSU2 absent"
		missing = "cannotTell | ComponentMissing"
	)
	for name, tc := range map[string]struct {
		then        func(*bmc)
		first, next string // at once, and five minutes later
	}{
		"its sensor says so":        {func(b *bmc) { b.sensor("PSU2 Status").States = 0 }, missing, pulled},
		"its sensor has no reading": {func(b *bmc) { b.unavailable("PSU2 Status") }, missing, missing},
		"its sensor is not there":   {func(b *bmc) { b.in.Sensors = b.in.Sensors[:6] }, missing, missing},
		"a drive":                   {func(b *bmc) { b.sensor("Disk0").States = 0 }, missing, "failed | DriveFailure | Disk0 absent"},
		"a fan without a reading":   {func(b *bmc) { b.unavailable("FAN1") }, missing, missing},
		"a temperature is none":     {func(b *bmc) { b.unavailable("CPU0 Temp") }, healthy, healthy},
		"a module that never said so is none": {
			func(b *bmc) { b.unavailable("DIMM_A1") }, healthy, healthy,
		},
		"another number for the same name is none": {
			func(b *bmc) { b.sensor("PSU2 Status").Number = 0x77 }, healthy, healthy,
		},
		"another name for the same number is none": {
			func(b *bmc) { b.sensor("PSU2 Status").Name = "PS2" }, healthy, healthy,
		},
		"nothing while the chassis is off": {
			func(b *bmc) { b.in.Chassis.PowerOn = false; b.sensor("PSU2 Status").States = 0; b.unavailable("FAN1") },
			"cannotTell | ChassisPoweredOff", "cannotTell | ChassisPoweredOff",
		},
		"nothing while the BMC restarts": {
			func(b *bmc) {
				for _, s := range b.in.Sensors {
					b.unavailable(s.Name)
				}
			}, "cannotTell | SensorsUnavailable", "cannotTell | SensorsUnavailable",
		},
		"nothing while the BMC has no sensors": {
			func(b *bmc) { b.in.Sensors = nil }, "cannotTell | SensorsUnavailable", "cannotTell | SensorsUnavailable",
		},
		"nothing while the chassis can't be asked": {
			func(b *bmc) { b.in.ChassisError = errBMC; b.sensor("PSU2 Status").States = 0 },
			"cannotTell | ChassisUnreadable", "cannotTell | ChassisUnreadable",
		},
		"the SEL says so, and the sensor": {
			func(b *bmc) {
				b.log(ended(named("PSU2 Status", event(supply, 7, 0))))
				b.sensor("PSU2 Status").States = 0
			}, pulled, pulled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.expect(healthy)
			tc.then(b.after(5 * time.Minute))
			b.expect(tc.first)
			b.after(5 * time.Minute).expect(tc.next)
		})
	}
}

func TestAnAbsenceEndsWithTheReturnOrAnAcknowledgement(t *testing.T) {
	const pulled = "failed | PowerSupplyFailure | PSU2 absent"
	b := newBMC(t)
	b.expect(healthy)
	psu2 := b.sensor("PSU2 Status")
	b.pull("PSU2 Status")
	b.expect(pulled)
	b.log(harmless())
	b.clear()
	b.boot(ipmi.RestartPowerButton).expect(pulled)
	b.in.SensorsError = errBMC
	b.expect("cannotTell | SensorsUnreadable | PSU2 absent?")
	b.in.SensorsError = nil
	psu2.States = 1
	b.expect(healthy)

	b.pull("PSU2 Status")
	b.expect(pulled)
	b.acknowledge(7)
	b.expect(pulled) // it has no record
	b.acknowledge(verdict.All)
	b.expect("healthy | HardwareHealthy | (PSU2 absent)")
	b.after(time.Hour).expect("healthy | HardwareHealthy | (PSU2 absent)")
	psu2.States = 1
	b.expect(healthy)
	b.pull("PSU2 Status")
	b.expect(pulled)
}

func TestAComponentThatIsMissingMayBeAcknowledged(t *testing.T) {
	b := newBMC(t)
	b.expect(healthy)
	b.unavailable("FAN1")
	b.expect("cannotTell | ComponentMissing")
	b.acknowledge(verdict.All)
	b.expect(healthy)
	b.after(time.Hour).expect(healthy)
}

func TestAComponentWithoutAReadingForAMomentIsNotAbsent(t *testing.T) {
	b := newBMC(t)
	b.expect(healthy)
	fan1 := *b.sensor("FAN1")
	for range 3 {
		b.unavailable("FAN1")
		b.after(time.Minute).expect("cannotTell | ComponentMissing")
		b.after(time.Minute).expect("cannotTell | ComponentMissing")
		*b.sensor("FAN1") = fan1
		b.after(time.Minute).expect(healthy)
	}
	b.sensor("PSU2 Status").States = 0
	b.expect("cannotTell | ComponentMissing")
	b.after(-24 * time.Hour).expect("cannotTell | ComponentMissing") // the clock was set
	b.after(4 * time.Minute).expect("failed | PowerSupplyFailure | PSU2 absent")
	b.after(-24 * time.Hour).expect("failed | PowerSupplyFailure | PSU2 absent")
}
