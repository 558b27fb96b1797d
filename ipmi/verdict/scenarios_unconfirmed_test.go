package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// What the SEL proves is believed although its sensor never reads, as Dell's whose status is
// "ns".
func TestAFailureInTheLogIsBelievedIfItsSensorNeverReads(t *testing.T) {
	const (
		hot    = "failed | TemperatureFailure | CPU0 Temp at or above upper critical"
		unsure = "cannotTell | FailureUnconfirmed | CPU0 Temp at or above upper critical?"
	)
	tooHot := of(ipmi.Threshold, named("CPU0 Temp", event(temperature, 1, 9)))
	play(t, []scenario{
		{"it never reads", "nothing speaks against the SEL", []moment{
			{silences("CPU0 Temp"), healthy},
			{logs(tooHot), unsure},
			{passes(9 * time.Minute), unsure},
			{passes(time.Minute), hot},
			{passes(24 * time.Hour), hot},
			{logs(ended(tooHot)), healthy},
		}},
		{"it reads again, and shows nothing", "the sensor beats the SEL", []moment{
			{together(silences("CPU0 Temp"), logs(tooHot)), unsure},
			{watches(time.Hour), hot},
			{shows("CPU0 Temp", 0), healthy},
		}},
		{"it reads now and then", "that is no sensor that never reads", []moment{
			{together(silences("CPU0 Temp"), logs(tooHot)), unsure},
			{passes(8 * time.Minute), unsure},
			{shows("CPU0 Temp", ipmi.UpperCritical), hot},
			{silences("CPU0 Temp"), unsure},
			{passes(8 * time.Minute), unsure},
		}},
		{"only the sensor has shown it", "a missing reading takes no server out", []moment{
			{shows("CPU0 Temp", ipmi.UpperCritical), "failed | TemperatureFailure | CPU0 Temp 45 degrees C, at or above upper critical"},
			{silences("CPU0 Temp"), unsure},
			{passes(24 * time.Hour), unsure},
		}},
		{"the clock is set back", "the doubt must end", []moment{
			{together(silences("CPU0 Temp"), logs(tooHot)), unsure},
			{passes(-24 * time.Hour), unsure},
			{passes(10 * time.Minute), hot},
		}},
		{"while no sensor is available", "the BMC restarts", []moment{
			{together(silences("CPU0 Temp"), logs(tooHot)), unsure},
			{func(b *bmc) { b.in.SensorsError = errBMC; b.after(time.Hour) }, "cannotTell | SensorsUnreadable | CPU0 Temp at or above upper critical?"},
			{func(b *bmc) { b.in.SensorsError = nil }, unsure},
			{passes(10 * time.Minute), hot},
		}},
		{"a supply whose sensor is blank", "the BMC may have restarted", []moment{
			{together(logs(supplyFailed()), shows("PSU1 Status", 1|1<<1)), "failed | PowerSupplyFailure | PSU1 failure detected"},
			{shows("PSU1 Status", 0), "cannotTell | ComponentMissing | PSU1 failure detected?"},
			{passes(2 * time.Minute), "cannotTell | ComponentMissing | PSU1 failure detected?"},
		}},
	})
}

func TestARecordFromBeforeTheFirstLookIsNotBelievedAgainstASensorThatNeverReads(t *testing.T) {
	const unsure = "cannotTell | FailureUnconfirmed | CPU0 Temp at or above upper critical?"
	b := newBMC(t)
	silences("CPU0 Temp")(b)
	b.log(of(ipmi.Threshold, named("CPU0 Temp", event(temperature, 1, 9))))
	b.expect(unsure)
	b.watch(24 * time.Hour).expect(unsure) // history takes no server out
	b.log(of(ipmi.Threshold, named("CPU0 Temp", event(temperature, 1, 9))))
	b.expect("failed | TemperatureFailure | CPU0 Temp at or above upper critical")
}
