package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

const lostData = "failed | MemoryFailure | DIMM_A1 uncorrectable ECC"

// failed returns a BMC after an uncorrectable memory error that was seen in the
// boot in which it came.
func failed(t testing.TB) *bmc {
	b := newBMC(t)
	b.expect(healthy)
	b.after(time.Minute).log(uncorrectable())
	b.expect(lostData)
	return b
}

func TestWhatReleasesAMomentaryFailure(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(*bmc)
		want string
	}{
		"nothing":              {func(*bmc) {}, lostData},
		"a year":               {func(b *bmc) { b.after(365 * 24 * time.Hour) }, lostData},
		"a deassertion":        {func(b *bmc) { b.log(ended(uncorrectable())) }, lostData},
		"the module's removal": {func(b *bmc) { b.log(ended(named("DIMM_A1", event(memory, 4, 6)))) }, lostData},

		"a warm reset":                     {func(b *bmc) { b.boot(ipmi.RestartSoftReset) }, lostData},
		"the reset button":                 {func(b *bmc) { b.boot(ipmi.RestartResetButton) }, lostData},
		"a reset by the watchdog":          {func(b *bmc) { b.boot(ipmi.RestartWatchdog).log(event(watchdog, 0x70, 1)) }, lostData},
		"a panic, of unknown cause":        {func(b *bmc) { b.boot(ipmi.RestartUnknown) }, lostData},
		"a reset by PEF":                   {func(b *bmc) { b.boot(ipmi.RestartPEFReset) }, lostData},
		"an OEM's cause":                   {func(b *bmc) { b.boot(ipmi.RestartOEM) }, lostData},
		"chassis control, whatever it was": {func(b *bmc) { b.boot(ipmi.RestartChassisControl) }, lostData},

		"the power button":        {func(b *bmc) { b.boot(ipmi.RestartPowerButton) }, lostData},
		"the clock":               {func(b *bmc) { b.boot(ipmi.RestartRTC) }, lostData},
		"half an hour without AC": {unplugged(30 * time.Minute), healthy},
		"half an hour without AC, with a chassis that can't be asked": {
			func(b *bmc) {
				unplugged(30 * time.Minute)(b)
				b.in.ChassisError = errBMC
				b.judge()
				b.in.ChassisError = nil
			}, healthy,
		},
		"a failed input of one power supply": {
			func(b *bmc) { b.log(event(supply, 7, 3)); b.boot(ipmi.RestartUnknown) }, lostData,
		},

		"Power off in the SEL while the same kernel runs": {
			func(b *bmc) { b.log(event(powerUnit, 0x71, 0)) }, lostData,
		},
		"another one and Power off while the same kernel runs": {
			func(b *bmc) { b.log(uncorrectable(), event(powerUnit, 0x71, 0)) }, lostData,
		},
		"another one and Power off, and no boot ID": {
			func(b *bmc) { b.log(uncorrectable(), event(powerUnit, 0x71, 0)); b.in.BootID = "" }, lostData,
		},
		"the same, and then a warm reset": {
			func(b *bmc) { b.log(event(powerUnit, 0x71, 0)); b.judge(); b.boot(ipmi.RestartSoftReset) }, lostData,
		},
		"half an hour without AC, with an unreadable SEL": {
			func(b *bmc) { unplugged(30 * time.Minute)(b); b.in.LogError = errBMC }, lostData,
		},
		"a power cycle by the watchdog timer": {
			func(b *bmc) {
				b.log(event(watchdog, 0x70, 3), event(powerUnit, 0x71, 1))
				b.boot(ipmi.RestartWatchdog).log(event(systemBoot, 0, 0))
			}, lostData,
		},
		"half an hour without AC, and no boot ID": {
			func(b *bmc) { unplugged(30 * time.Minute)(b); b.in.BootID = "" }, lostData,
		},
		"the SEL cleared":    {func(b *bmc) { b.clear() }, healthy},
		"an acknowledgement": {func(b *bmc) { b.acknowledge(verdict.All) }, "healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)"},
		"an acknowledgement and another one": {
			func(b *bmc) { b.acknowledge(verdict.All); b.log(uncorrectable()) }, lostData,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := failed(t)
			tc.then(b.after(time.Minute))
			b.expect(tc.want)
			b.in.LogError = nil
			if tc.want != lostData {
				b.after(time.Hour).expect(tc.want)
			}
		})
	}
}

func TestAFailureThatTheSensorStillShowsIsNotReleasedByAnOutage(t *testing.T) {
	b := failed(t)
	b.sensor("DIMM_A1").States = 1 << 1
	b.expect(lostData)
	unplugged(time.Hour)(b)
	b.expect(lostData)
	b.sensor("DIMM_A1").States = 0 // which proves nothing: it was there in this boot
	b.expect(lostData)
	b.boot(ipmi.RestartSoftReset).expect(lostData)
	unplugged(time.Hour)(b)
	b.expect(healthy)
}

func TestWhatASensorHasShownForAMomentLatches(t *testing.T) {
	b := newBMC(t)
	b.sensor("CPU0 Status").States = 1<<7 | 1<<0
	b.expect("failed | ProcessorFailure | CPU0 IERR")
	b.sensor("CPU0 Status").States = 1 << 7
	b.boot(ipmi.RestartWatchdog).expect("failed | ProcessorFailure | CPU0 IERR")
	unplugged(time.Hour)(b)
	b.expect(healthy)
}

func TestALogThatIsReadLateDoesNotReleaseWhatASensorHasShownInThisBoot(t *testing.T) {
	b := newBMC(t)
	b.expect(healthy)
	unplugged(time.Hour)(b)
	b.in.LogError = errBMC
	b.sensor("CPU0 Status").States = 1<<7 | 1<<0
	b.expect("failed | ProcessorFailure | CPU0 IERR")
	b.sensor("CPU0 Status").States = 1 << 7
	b.in.LogError = nil
	b.expect("failed | ProcessorFailure | CPU0 IERR")
}

func TestAnOutageInTheFirstReadOfTheLogReleasesWhatCameBefore(t *testing.T) {
	b := newBMC(t)
	b.log(uncorrectable())
	unplugged(time.Hour)(b)
	b.log(named("DIMM_B1", event(memory, 0x14, 1)))
	b.expect("failed | MemoryFailure | DIMM_B1 uncorrectable ECC")
}

func TestTheRestartCauseSaysNothingOfWhatIsFirstSeenInThisBoot(t *testing.T) {
	b := newBMC(t)
	b.in.Chassis.RestartCause = ipmi.RestartPowerButton
	b.log(uncorrectable())
	b.expect(lostData)
	b.expect(lostData)
}

func TestWithoutADefaultRuleALatchIsPresent(t *testing.T) {
	b := newBMC(t)
	b.rules = verdict.Rules{{Name: "ours", Match: verdict.Match{Event: "System Reconfigured"}, Severity: verdict.SeverityFailure}}
	b.log(event(0x12, 0x30, 0))
	b.expect("failed | HardwareFailure | System Event #0x30 system reconfigured")
	b.log(ended(event(0x12, 0x30, 0)))
	b.expect(healthy)
}

func TestALatchCanBeChosen(t *testing.T) {
	rule := func(latch verdict.Latch) verdict.Rules {
		return verdict.Rules{{
			Name: "ours", Match: verdict.Match{SensorType: "Memory", Event: "Uncorrectable ECC"},
			Severity: verdict.SeverityFailure, Latch: latch,
		}}
	}
	steps := map[string]func(*bmc){
		"present":     func(*bmc) {},
		"ended":       func(b *bmc) { b.log(ended(uncorrectable())) },
		"powered off": unplugged(time.Hour),
		"cleared":     func(b *bmc) { b.clear() },
		"known":       func(b *bmc) { b.acknowledge(verdict.All) },
	}
	const acknowledged = "healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)"
	for latch, want := range map[verdict.Latch]map[string]string{
		"":                     {"ended": lostData, "powered off": healthy, "cleared": healthy, "known": acknowledged},
		verdict.LatchMomentary: {"ended": lostData, "powered off": healthy, "cleared": healthy, "known": acknowledged},
		verdict.LatchManual:    {"ended": lostData, "powered off": lostData, "cleared": lostData, "known": acknowledged},
		verdict.LatchPresent:   {"ended": healthy, "powered off": healthy, "cleared": healthy, "known": acknowledged},
	} {
		for step, expected := range want {
			t.Run(string(latch)+" "+step, func(t *testing.T) {
				b := newBMC(t)
				b.in.Sensors = append(b.in.Sensors[:3], b.in.Sensors[4:]...) // the sensor would have ended it
				b.rules = rule(latch)
				b.log(uncorrectable())
				b.expect(lostData)
				steps[step](b.after(time.Minute))
				b.expect(expected)
			})
		}
	}
}
