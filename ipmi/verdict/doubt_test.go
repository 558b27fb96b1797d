package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

func TestWhatCannotBeReadIsNeitherHealthyNorReleased(t *testing.T) {
	unreachable := func(b *bmc) { b.in.SensorsError, b.in.LogError, b.in.ChassisError = errBMC, errBMC, errBMC }
	arrangements := map[string]func(*bmc){
		"well":    func(*bmc) {},
		"latched": func(b *bmc) { b.log(uncorrectable()) },
		"present": func(b *bmc) { b.sensor("PSU1 Status").States = 1 | 1<<1 },
		"flagged": func(b *bmc) { b.rules = flagRules("Main Power Fault"); b.in.Chassis.MainPowerFault = true },
	}
	for name, tc := range map[string]struct {
		then func(*bmc)
		want map[string]string
	}{
		"the BMC": {unreachable, map[string]string{
			"well":    "cannotTell | BMCUnreachable",
			"latched": "cannotTell | BMCUnreachable | DIMM_A1 uncorrectable ECC?",
			"present": "cannotTell | BMCUnreachable | PSU1 failure detected?",
			"flagged": "cannotTell | BMCUnreachable | Chassis main power fault?",
		}},
		"the sensors": {func(b *bmc) { b.in.SensorsError = errBMC }, map[string]string{
			"well":    "cannotTell | SensorsUnreadable",
			"latched": lostData,
			"present": "cannotTell | SensorsUnreadable | PSU1 failure detected?",
			"flagged": "failed | PowerSupplyFailure | Chassis main power fault",
		}},
		"the SEL": {func(b *bmc) { b.in.LogError = errBMC }, map[string]string{
			"well":    "cannotTell | EventLogUnreadable",
			"latched": lostData,
			"present": "failed | PowerSupplyFailure | PSU1 failure detected",
			"flagged": "failed | PowerSupplyFailure | Chassis main power fault",
		}},
		"the chassis": {func(b *bmc) { b.in.ChassisError = errBMC }, map[string]string{
			"well":    "cannotTell | ChassisUnreadable",
			"latched": lostData,
			"present": "failed | PowerSupplyFailure | PSU1 failure detected",
			"flagged": "cannotTell | ChassisUnreadable | Chassis main power fault?",
		}},
		"anything, as the chassis is off": {
			func(b *bmc) {
				b.in.Chassis.PowerOn = false
				for i := range b.in.Sensors { // what a fan and a voltage read then
					b.in.Sensors[i].States = 0
				}
				b.sensor("FAN1").States = ipmi.LowerCritical
			}, map[string]string{
				"well":    "cannotTell | ChassisPoweredOff",
				"latched": "cannotTell | ChassisPoweredOff | DIMM_A1 uncorrectable ECC?",
				"present": "cannotTell | ChassisPoweredOff | PSU1 failure detected?",
				"flagged": "cannotTell | ChassisPoweredOff | Chassis main power fault?",
			},
		},
		"any sensor, as none is available": {
			func(b *bmc) {
				for _, s := range b.in.Sensors {
					b.unavailable(s.Name)
				}
			}, map[string]string{
				"well":    "cannotTell | SensorsUnavailable",
				"latched": lostData,
				"present": "cannotTell | SensorsUnavailable | PSU1 failure detected?",
				"flagged": "failed | PowerSupplyFailure | Chassis main power fault",
			},
		},
		"the failed one": {func(b *bmc) { b.unavailable("DIMM_A1") }, map[string]string{
			"well":    healthy,
			"latched": lostData,
		}},
	} {
		for state, want := range tc.want {
			t.Run(name+", "+state, func(t *testing.T) {
				b := newBMC(t)
				b.expect(healthy)
				arrangements[state](b)
				before := outline(b.judge())
				in := b.in
				in.Sensors = append([]ipmi.Sensor(nil), b.in.Sensors...)
				tc.then(b.after(time.Minute))
				b.expect(want)
				b.after(24 * time.Hour).expect(want)
				b.in = in // it comes back, and nothing was released
				b.expect(before)
			})
		}
	}
}

func TestAPowerOffThatIsSeenWithUnreadableSensorsReleasesNothingThatTheyShowed(t *testing.T) {
	b := newBMC(t)
	b.sensor("PSU1 Status").States = 1 | 1<<1
	b.log(supplyFailed())
	b.expect("failed | PowerSupplyFailure | PSU1 failure detected")
	b.in.SensorsError = errBMC
	b.log(event(powerUnit, 0x71, 0))
	b.boot(ipmi.RestartPowerButton).expect("cannotTell | SensorsUnreadable | PSU1 failure detected?")
	b.clear()
	b.expect("cannotTell | SensorsUnreadable | PSU1 failure detected?")
	b.in.SensorsError = nil
	b.expect("failed | PowerSupplyFailure | PSU1 failure detected")
	b.sensor("PSU1 Status").States = 1
	b.expect(healthy)
}

func TestTheRedundancyThatWasLastSeenCountsWhileTheSensorsAreUnreadable(t *testing.T) {
	b := newBMC(t)
	b.rules = inputRules()
	b.in.Sensors = append(b.in.Sensors, ipmi.Sensor{Name: "PS Redundancy", Number: 9, Type: powerUnit, EventType: redundancy, Available: true, States: 1})
	b.sensor("PSU1 Status").States = 1 | 1<<3
	b.expect("healthy | HardwareHealthy | warning PSU1 power supply AC lost")
	b.in.SensorsError = errBMC
	b.expect("cannotTell | SensorsUnreadable | warning PSU1 power supply AC lost")
}
