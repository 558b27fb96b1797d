package verdict_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

const tooMany = "failed | MemoryFailure | DIMM_A1 correctable ECC, 3 times within 1h"

func ratedRules(latch verdict.Latch) verdict.Rules {
	return verdict.Rules{{
		Name: "ours", Match: verdict.Match{SensorType: "memory", Event: "correctable ecc"},
		Severity: verdict.SeverityFailure, Rate: &verdict.Rate{Count: 3, Per: time.Hour}, Latch: latch,
	}}
}

func TestARateIsReachedWithinASlidingWindow(t *testing.T) {
	at := func(minutes int) ipmi.Event {
		e := correctable()
		e.Time = start.Add(time.Duration(minutes) * time.Minute)
		e.Timestamp = uint32(e.Time.Unix())
		return e
	}
	noClock := func(seconds uint32) ipmi.Event {
		e := correctable()
		e.Timestamp = seconds
		return e
	}
	other := named("DIMM_B1", event(memory, 0x14, 0))
	again := at(1)
	again.ID = 0x50
	for name, tc := range map[string]struct {
		events []ipmi.Event
		want   string
	}{
		"two":                             {[]ipmi.Event{at(0), at(1)}, healthy},
		"three":                           {[]ipmi.Event{at(0), at(30), at(60)}, tooMany},
		"three in more than an hour":      {[]ipmi.Event{at(0), at(30), at(61)}, healthy},
		"three of four":                   {[]ipmi.Event{at(0), at(61), at(62), at(63)}, tooMany},
		"three, then one later":           {[]ipmi.Event{at(0), at(1), at(2), at(600)}, tooMany},
		"one record several times":        {[]ipmi.Event{again, again, again}, healthy},
		"of two modules":                  {[]ipmi.Event{at(0), other, at(1), other}, healthy},
		"unsorted":                        {[]ipmi.Event{at(50), at(0), at(30)}, tooMany},
		"with a clock that jumps an hour": {[]ipmi.Event{at(50), at(55), at(0)}, tooMany},
		"with a clock that jumps a year":  {[]ipmi.Event{at(0), at(1), at(-525600)}, healthy},
		"without a clock":                 {[]ipmi.Event{noClock(100), noClock(200), noClock(300)}, tooMany},
		"without a clock, far apart":      {[]ipmi.Event{noClock(100), noClock(200), noClock(4000)}, healthy},
		"deasserted in between":           {[]ipmi.Event{at(0), ended(at(0)), at(1), ended(at(1)), at(2), ended(at(2))}, tooMany},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.rules = ratedRules("")
			b.expect(healthy)
			b.log(tc.events...)
			b.expect(tc.want)
			b.expect(tc.want)
		})
	}
}

func TestWithoutAClockARateIsMeasuredByWhenEventsAreSeen(t *testing.T) {
	for hours, want := range map[int]string{0: tooMany, 1: healthy} {
		t.Run(fmt.Sprint(hours), func(t *testing.T) {
			b := newBMC(t)
			b.rules = ratedRules("")
			b.expect(healthy)
			for i := range uint32(3) {
				e := correctable()
				e.Timestamp = 100 + i // the BMC was restarted, or not
				b.log(e)
				b.judge()
				b.after(time.Duration(hours) * time.Hour)
			}
			b.expect(want)
		})
	}
}

func TestARateLatchesAsItsRuleSays(t *testing.T) {
	for latch, want := range map[verdict.Latch][]string{
		verdict.LatchMomentary: {tooMany, healthy},
		verdict.LatchPresent:   {healthy, healthy},
		verdict.LatchManual:    {tooMany, tooMany},
	} {
		t.Run(string(latch), func(t *testing.T) {
			b := newBMC(t)
			b.rules = ratedRules(latch)
			b.log(correctable(), correctable(), correctable())
			b.expect(tooMany)
			b.watch(59 * time.Minute).expect(tooMany)
			b.watch(2 * time.Minute).expect(want[0])
			b.expect(want[0])
			b.log(correctable(), correctable())
			b.expect(want[0]) // counted anew
			unplugged(time.Hour)(b)
			b.expect(want[1])
			b.log(correctable(), correctable())
			b.expect(want[1])
		})
	}
}

func TestAnAcknowledgedRateHasToBeReachedAnew(t *testing.T) {
	const acknowledged = "healthy | HardwareHealthy | (DIMM_A1 correctable ECC, 3 times within 1h)"
	b := newBMC(t)
	b.rules = ratedRules("")
	b.log(correctable(), correctable(), correctable())
	b.expect(tooMany)
	b.acknowledge(3)
	b.expect(acknowledged)
	b.after(time.Minute).log(correctable(), correctable())
	b.expect(acknowledged)
	b.after(time.Minute).log(correctable())
	b.expect(tooMany)
}

func TestAChangedRateIsMeasuredWithWhatIsRemembered(t *testing.T) {
	b := newBMC(t)
	b.rules = ratedRules("")
	b.log(correctable(), correctable(), correctable())
	b.expect(tooMany)
	b.rules[0].Rate = &verdict.Rate{Count: 4, Per: time.Hour}
	b.expect(healthy)
	b.rules[0].Rate = &verdict.Rate{Count: 3, Per: time.Hour}
	b.expect(tooMany)
	b.rules[0].Rate = nil
	b.expect("failed | MemoryFailure | DIMM_A1 correctable ECC")
}

func TestACorrectableErrorThatASensorShowsIsNoRate(t *testing.T) {
	b := newBMC(t)
	b.sensor("DIMM_A1").States = 1
	for range 20 {
		b.after(time.Minute).expect(healthy)
	}
}

func TestWatchdogResetsAreAFailureWhenTheyRepeat(t *testing.T) {
	b := newBMC(t)
	for range 2 {
		b.boot(ipmi.RestartWatchdog).log(event(watchdog, 0x70, 1))
		b.expect(healthy)
	}
	b.boot(ipmi.RestartWatchdog).log(event(watchdog, 0x70, 1))
	b.expect("failed | WatchdogFailure | Watchdog2 #0x70 hard reset, 3 times within 24h")
}

// A state has room for so many points. What takes a server out is the last to be forgotten.
func TestManyCorrectableErrorsDoNotHideAFailure(t *testing.T) {
	module := func(i int) ipmi.Event {
		return from(0x21, with(ipmi.EventData{0x20, 0xff, byte(i)}, event(memory, uint8(i>>8), 0)))
	}
	for name, apart := range map[string]time.Duration{"in a day": time.Minute, "in two years": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := failed(t)
			for i := range 255 {
				b.after(apart).log(module(i))
			}
			b.expect(lostData)
			for i := range 3 {
				b.after(apart).log(module(255 + i))
				b.expect(lostData)
			}
			b.acknowledge(verdict.All)
			for i := range 300 {
				b.after(apart).log(module(1000 + i))
			}
			b.expect("healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)")
		})
	}
}

func TestASeriesCountsAlthoughAClockIsWrong(t *testing.T) {
	const often = "failed | MemoryFailure | DIMM_A1 correctable ECC, 10 times within 24h"
	for name, off := range map[string]time.Duration{"none": 0, "the BMC's, behind": -72 * time.Hour, "the BMC's, ahead": 72 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.expect(healthy)
			for i := range 10 {
				e := correctable()
				e.Time = b.after(time.Hour).in.Now.Add(off)
				e.Timestamp = uint32(e.Time.Unix())
				if i == 5 { // one of another module, with the other clock
					other := named("DIMM_B1", event(memory, 0x14, 0))
					b.log(other)
				}
				b.log(e)
				if i < 9 {
					b.expect(healthy)
				}
			}
			b.expect(often)
		})
	}
}

func TestSingleErrorsAreForgottenAfterTheTimeOfTheRate(t *testing.T) {
	b := newBMC(t)
	for range 9 {
		b.after(time.Minute).log(correctable())
	}
	b.expect(healthy)
	b.after(25 * time.Hour).log(harmless())
	b.expect(healthy)
	if strings.Contains(string(b.saved), "occurrences") {
		t.Errorf("they are still remembered: %s", b.saved)
	}
}
