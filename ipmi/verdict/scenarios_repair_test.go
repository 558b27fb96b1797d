package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// A broken part that is still in must not come back into service.
func TestAFailureIsNotReleasedWithoutARepair(t *testing.T) {
	lost := moment{logs(uncorrectable()), lostData}
	play(t, []scenario{
		{"a boot by power-up", "AMI boards log it on every reset", []moment{
			lost,
			{together(boots(ipmi.RestartChassisControl), logs(bootByPower())), lostData},
		}},
		{"an old restart cause", "a BMC keeps that of the last power-up over warm reboots", []moment{
			{func(b *bmc) { b.in.Chassis.RestartCause = ipmi.RestartPowerButton }, healthy},
			lost,
			{boots(ipmi.RestartPowerButton), lostData},
		}},
		{"the power button", "an off and on again exchanges nothing, and a cause has no time", []moment{
			lost,
			{boots(ipmi.RestartPowerButton), lostData},
		}},
		{"AC power came back, as the cause says", "a cause has no time", []moment{
			lost,
			{boots(ipmi.RestartAlwaysRestore), lostData},
		}},
		{"a boot record at the end of the self-test", "the error came in that same self-test", []moment{
			{together(boots(ipmi.RestartPowerButton), logs(uncorrectable(), bootByPower())), lostData},
			{passes(time.Hour), lostData},
		}},
		{"an error between the return of power and the boot record", "the new module is bad, or the wrong one was exchanged", []moment{
			lost,
			{together(logs(acLost()), passes(time.Hour), logs(uncorrectable(), bootByPower()), boots(ipmi.RestartAlwaysRestore)), lostData},
		}},
		{"ten seconds of soft-off", "a power cycle by us must not wipe our own evidence", []moment{
			lost,
			{switchedOff(10 * time.Second), lostData},
		}},
		{"a night of soft-off", "standby power stays on: nobody has opened the server", []moment{
			lost,
			{switchedOff(10 * time.Hour), lostData},
		}},
		{"a power cycle by the chassis", "it exchanges nothing", []moment{
			lost,
			{together(logs(event(powerUnit, 0x71, 1)), boots(ipmi.RestartChassisControl), logs(bootByPower())), lostData},
		}},
		{"a minute without AC", "a feed was switched", []moment{
			lost,
			{unplugged(time.Minute), lostData},
		}},
		{"AC for a minute away, then long off", "the standby rail was back at once", []moment{
			lost,
			{together(logs(acLost()), passes(time.Minute), logs(ended(acLost())), passes(time.Hour), logs(working()), boots(ipmi.RestartPowerButton)), lostData},
		}},
		{"AC lost without a clock", "nobody knows for how long", []moment{
			lost,
			{together(func(b *bmc) { e := acLost(); e.Timestamp = 77; b.log(e) }, passes(time.Hour), logs(bootByPower()), boots(ipmi.RestartAlwaysRestore)), lostData},
		}},
		{"AC lost, and the clock is set", "nobody knows for how long", []moment{
			lost,
			{together(logs(acLost()), passes(20*time.Second), logs(event(0x12, 0x41, 5)), passes(time.Hour), logs(bootByPower()), boots(ipmi.RestartAlwaysRestore)), lostData},
		}},
		{"AC lost, and no record after it", "nobody knows for how long", []moment{
			lost,
			{together(logs(acLost()), passes(time.Hour), boots(ipmi.RestartAlwaysRestore)), lostData},
			{together(passes(time.Hour), logs(harmless())), lostData},
		}},
		{"AC lost while the kernel goes on", "it is of something else", []moment{
			lost,
			{together(logs(acLost()), passes(time.Hour), logs(bootByPower())), lostData},
		}},
		{"one supply without AC for a day", "the server had the other one", []moment{
			lost,
			{together(logs(event(supply, 7, 3)), passes(24*time.Hour), logs(ended(event(supply, 7, 3)), bootByPower()), boots(ipmi.RestartPowerButton)), lostData},
		}},
		{"an hour without AC", "modules are exchanged with the cords drawn", []moment{
			lost,
			{unplugged(time.Hour), healthy},
		}},
		{"an hour in mechanical off", "so does G3 say it", []moment{
			lost,
			{together(logs(event(acpi, 0x72, 7)), passes(time.Hour), logs(working()), boots(ipmi.RestartPowerButton)), healthy},
		}},
		{"an hour without AC, and the error again", "the wrong module was exchanged", []moment{
			lost,
			{unplugged(time.Hour), healthy},
			{together(passes(time.Hour), logs(uncorrectable())), lostData},
		}},
		{"an acknowledgement after a short exchange", "a person says so", []moment{
			lost,
			{switchedOff(5 * time.Minute), lostData},
			{acknowledges, "healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)"},
		}},
		{"a drive fault without a sensor, and a soft-off", "it is still in", []moment{
			{logs(event(drive, 0x55, 1)), "failed | DriveFailure | Drive Slot / Bay #0x55 drive fault"},
			{switchedOff(time.Hour), "failed | DriveFailure | Drive Slot / Bay #0x55 drive fault"},
			{logs(ended(event(drive, 0x55, 1))), healthy},
		}},
	})
}
