package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

func TestAHealthyServerIsHealthy(t *testing.T) {
	newBMC(t).expect(healthy)
}

func TestThePresentStateBeatsTheLog(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(*bmc)
		want    string
	}{
		"asserted in the SEL, not in the sensor": {
			func(b *bmc) { b.log(supplyFailed()) },
			healthy,
		},
		"in the sensor, not in the SEL": {
			func(b *bmc) { b.sensor("PSU1 Status").States = 1 | 1<<1 },
			"failed | PowerSupplyFailure | PSU1 failure detected",
		},
		"in the sensor, deasserted in the SEL": {
			func(b *bmc) {
				b.log(supplyFailed(), ended(supplyFailed()))
				b.sensor("PSU1 Status").States = 1 | 1<<1
			},
			"failed | PowerSupplyFailure | PSU1 failure detected",
		},
		"in both": {
			func(b *bmc) {
				b.log(supplyFailed())
				b.sensor("PSU1 Status").States = 1 | 1<<1
			},
			"failed | PowerSupplyFailure | PSU1 failure detected",
		},
		"the sensor can't be read now": {
			func(b *bmc) {
				b.unavailable("CPU0 Temp")
				b.log(of(ipmi.Threshold, event(temperature, 1, 9)))
			},
			"cannotTell | FailureUnconfirmed | CPU0 Temp at or above upper critical?",
		},
		"no such sensor, asserted": {
			func(b *bmc) { b.log(event(drive, 0x55, 1)) },
			"failed | DriveFailure | Drive Slot / Bay #0x55 drive fault",
		},
		"no such sensor, deasserted": {
			func(b *bmc) { b.log(event(drive, 0x55, 1), ended(event(drive, 0x55, 1))) },
			healthy,
		},
		"the same number, but another type": {
			func(b *bmc) { b.log(event(drive, 3, 1)) },
			"failed | DriveFailure | Drive Slot / Bay #0x03 drive fault",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			tc.arrange(b)
			b.expect(tc.want)
		})
	}
}

func TestAssertionsArePairedWithDeassertionsInTheOrderOfTheRecords(t *testing.T) {
	fault := event(drive, 0x55, 1)
	at := func(e ipmi.Event, timestamp uint32) ipmi.Event {
		e.Timestamp = timestamp
		if timestamp > 0x20000000 {
			e.Time = time.Unix(int64(timestamp), 0)
		}
		return e
	}
	const broken = "failed | DriveFailure | Drive Slot / Bay #0x55 drive fault"
	for name, tc := range map[string]struct {
		events []ipmi.Event
		want   string
	}{
		"another state ends":            {[]ipmi.Event{fault, ended(event(drive, 0x55, 2))}, broken},
		"another sensor's ends":         {[]ipmi.Event{fault, ended(event(drive, 0x56, 1))}, broken},
		"ended and back":                {[]ipmi.Event{fault, ended(fault), fault}, broken},
		"asserted twice, ended once":    {[]ipmi.Event{fault, fault, ended(fault)}, healthy},
		"ended before it was asserted":  {[]ipmi.Event{ended(fault), fault}, broken},
		"time runs backwards":           {[]ipmi.Event{at(fault, 1764000000), at(ended(fault), 1763000000)}, healthy},
		"time runs backwards, the same": {[]ipmi.Event{at(ended(fault), 1764000000), at(fault, 1763000000)}, broken},
		"the clock was set in between":  {[]ipmi.Event{at(fault, 1783), at(ended(fault), 1764000000)}, healthy},
		"the clock was lost in between": {[]ipmi.Event{at(fault, 1764000000), at(ended(fault), 12)}, healthy},
		"without a clock":               {[]ipmi.Event{at(fault, 1396), at(ended(fault), 1783)}, healthy},
		"an OEM record looks like one":  {[]ipmi.Event{fault, {RecordType: 0xc0, SensorType: drive, SensorNumber: 0x55, EventType: ipmi.SensorSpecific, Offset: 1}}, broken},
		"IDs with gaps": {
			[]ipmi.Event{{ID: 0x10, Timestamp: 5, RecordType: 2, SensorType: drive, SensorNumber: 0x55, EventType: ipmi.SensorSpecific, Offset: 1, Asserted: true}, ended(at(fault, 6))},
			healthy,
		},
		"removed": {[]ipmi.Event{fault, ended(event(drive, 0x55, 0))}, healthy},
		"a generic state excludes the others": {
			[]ipmi.Event{of(redundancy, event(fan, 0x60, 5)), of(redundancy, event(fan, 0x60, 0))},
			healthy,
		},
		"a generic state": {
			[]ipmi.Event{of(redundancy, event(fan, 0x60, 0)), of(redundancy, event(fan, 0x60, 5))},
			"failed | FanFailure | Fan #0x60 non-redundant: insufficient resources",
		},
	} {
		for _, together := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				b := newBMC(t)
				b.judge()
				for _, e := range tc.events {
					b.log(e)
					if !together {
						b.after(5 * time.Minute).judge()
					}
				}
				b.expect(tc.want)
			})
		}
	}
}

func TestEventsOfThresholdsArePairedByLimit(t *testing.T) {
	at := func(offset uint8) ipmi.Event {
		return of(ipmi.Threshold, named("INLET", event(temperature, 0x50, offset)))
	}
	const hot = "failed | TemperatureFailure | INLET at or above upper critical"
	for name, tc := range map[string]struct {
		events []ipmi.Event
		want   string
	}{
		"upper critical going high":                    {[]ipmi.Event{at(9)}, hot},
		"and not any more":                             {[]ipmi.Event{at(9), ended(at(9))}, healthy},
		"and going low":                                {[]ipmi.Event{at(9), at(8)}, healthy},
		"and going low not any more":                   {[]ipmi.Event{at(9), ended(at(8))}, hot},
		"another limit is over":                        {[]ipmi.Event{at(7), at(9), ended(at(7))}, hot},
		"the most extreme limit is shown":              {[]ipmi.Event{at(7), at(9), at(11)}, "failed | TemperatureFailure | INLET at or above upper non-recoverable"},
		"lower critical of a temperature is a warning": {[]ipmi.Event{at(2)}, "healthy | HardwareHealthy | warning INLET at or below lower critical"},
		"lower non-recoverable is passed going low": {
			[]ipmi.Event{of(ipmi.Threshold, event(fan, 0x51, 4))}, "failed | FanFailure | Fan #0x51 at or below lower non-recoverable",
		},
		"and not going high": {[]ipmi.Event{of(ipmi.Threshold, event(fan, 0x51, 5))}, healthy},
		"no such limit":      {[]ipmi.Event{at(12), at(15)}, healthy},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.log(tc.events...)
			b.expect(tc.want)
		})
	}
}

func TestAThresholdIsReportedWhileTheReadingIsBeyondIt(t *testing.T) {
	b := newBMC(t)
	b.expect(healthy)
	fan1 := b.sensor("FAN1")
	*fan1.Reading, fan1.States = 0, ipmi.LowerNonCritical|ipmi.LowerCritical|ipmi.LowerNonRecoverable
	b.after(5 * time.Minute).expect("failed | FanFailure | FAN1 0 RPM, at or below lower non-recoverable")
	*fan1.Reading, fan1.States = 900, ipmi.LowerNonCritical
	b.after(5 * time.Minute).expect("healthy | HardwareHealthy | warning FAN1 900 RPM, at or below lower non-critical")
	*fan1.Reading, fan1.States = 5400, 0
	b.after(5 * time.Minute).expect(healthy)
}

func TestSinceIsWhenTheFailureBegan(t *testing.T) {
	b := newBMC(t)
	b.log(supplyFailed())
	b.after(time.Minute)
	b.sensor("PSU1 Status").States = 1 | 1<<1
	b.sensor("Disk0").States = 1 | 1<<1
	for range 3 {
		v := b.judge()
		if f := v.Failures[0]; f.Component != "PSU1" || !f.Since.Equal(start) || f.Source != "SEL 0x01" {
			t.Errorf("of a record: got %+v", f)
		}
		if f := v.Failures[1]; f.Component != "Disk0" || !f.Since.Equal(start.Add(time.Minute)) || f.Source != "sensor Disk0" {
			t.Errorf("of a sensor: got %+v", f)
		}
		b.after(time.Hour)
	}
}

func TestWithoutAClockAFailureIsSinceItWasFirstSeen(t *testing.T) {
	b := newBMC(t)
	e := uncorrectable()
	e.Timestamp = 1396
	b.log(e)
	for range 2 {
		if f := b.judge().Failures[0]; !f.Since.Equal(start) {
			t.Errorf("got %s", f.Since)
		}
		b.after(time.Hour)
	}
}

func TestASensorThatTheBMCDoesNotHaveAnyMoreReleasesOnlyByAnOutage(t *testing.T) {
	const hot = "failed | TemperatureFailure | CPU0 Temp at or above upper critical"
	b := newBMC(t)
	b.sensor("CPU0 Temp").States = ipmi.UpperCritical
	b.judge()
	b.in.Sensors = b.in.Sensors[1:]
	b.expect(hot)
	b.boot(ipmi.RestartPowerButton).expect(hot)
	unplugged(time.Hour)(b)
	b.expect(healthy)

	b = newBMC(t)
	b.sensor("CPU0 Temp").States = ipmi.UpperCritical
	b.judge()
	b.in.Sensors = b.in.Sensors[1:] // with the part that it was on
	unplugged(time.Hour)(b)
	b.expect(healthy)
}

func TestFlagsOfTheChassisAreReportedWhileTheyAreSet(t *testing.T) {
	b := newBMC(t)
	b.rules = flagRules("Drive Fault")
	b.in.Chassis.DriveFault = true
	b.expect("failed | DriveFailure | Chassis drive fault")
	b.in.Chassis.DriveFault, b.in.Chassis.Intrusion = false, true
	b.expect("healthy | HardwareHealthy | warning Chassis chassis intrusion")
	b.in.Chassis.Intrusion = false
	b.expect(healthy)
}

// inputRules weigh a lost input as it is weighed by those who ask for it.
func inputRules() verdict.Rules {
	return verdict.Rules{{
		Name: "ours", Match: verdict.Match{SensorType: "Power Supply", Event: "Power Supply AC lost"},
		Severity: verdict.SeverityFailure, WhileRedundant: verdict.SeverityWarning,
	}}
}

func TestALostInputCanBeWeighedByTheRedundancyThatIsLeft(t *testing.T) {
	const (
		lost   = "failed | PowerSupplyFailure | PSU1 power supply AC lost"
		backed = "healthy | HardwareHealthy | warning PSU1 power supply AC lost"
	)
	sensor := func(states uint16) ipmi.Sensor {
		return ipmi.Sensor{Name: "PS Redundancy", Number: 9, Type: powerUnit, EventType: redundancy, Available: true, States: states}
	}
	third := ipmi.Sensor{Name: "PSU3 Status", Number: 8, Type: supply, EventType: ipmi.SensorSpecific, Available: true, States: 1}
	for name, tc := range map[string]struct {
		more []ipmi.Sensor
		want string
	}{
		"one other, no sensor of redundancy":   {nil, lost},
		"two others, no sensor of redundancy":  {[]ipmi.Sensor{third}, backed},
		"fully redundant":                      {[]ipmi.Sensor{sensor(1 << 0)}, backed},
		"redundancy degraded":                  {[]ipmi.Sensor{sensor(1 << 2)}, backed + " | warning PS Redundancy redundancy degraded"},
		"redundancy lost, in spite of a third": {[]ipmi.Sensor{third, sensor(1 << 1)}, lost + " | warning PS Redundancy redundancy lost"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.rules = inputRules()
			b.in.Sensors = append(b.in.Sensors, tc.more...)
			b.sensor("PSU1 Status").States = 1 | 1<<3
			b.expect(tc.want)
		})
	}
}
