package verdict_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// old is a server that is looked at for the first time after this.
func old(b *bmc, does ...func(*bmc)) {
	b.after(-3 * 365 * 24 * time.Hour)
	together(does...)(b)
	b.in.Now = start
}

// On the first day what is failing now counts. What only the log tells of the time before is
// listed: nobody drains a fleet for what is three years old.
func TestWhatOnlyTheLogTellsFromBeforeTheFirstLookIsListed(t *testing.T) {
	const (
		lostOnce = "healthy | HardwareHealthy | [DIMM_A1 uncorrectable ECC]"
		psu      = "failed | PowerSupplyFailure | PSU1 failure detected"
	)
	noClock := uncorrectable()
	noClock.Timestamp = 1783
	partly := func(n int) func(*bmc) { return func(b *bmc) { b.readsAtMost = n } }
	playAfter(t, []scenario{
		{"data lost three years ago", "it has worked since", []moment{
			{logs(uncorrectable()), lostOnce},
			{passes(240 * time.Hour), lostOnce},
			{clears, healthy},
		}},
		{"data lost three years ago, and now", "it does it again", []moment{
			{logs(uncorrectable()), lostOnce},
			{logs(uncorrectable()), lostData},
			{passes(240 * time.Hour), lostData},
		}},
		{"another module lost data three years ago", "only this one does now", []moment{
			{logs(uncorrectable()), lostOnce},
			{logs(named("DIMM_B1", event(memory, 0x14, 1))), "failed | MemoryFailure | DIMM_B1 uncorrectable ECC | [DIMM_A1 uncorrectable ECC]"},
		}},
		{"data lost three years ago, by a SEL without a clock", "nobody knows when", []moment{
			{logs(noClock), lostOnce},
		}},
		{"a series of correctable errors three years ago, and one now", "one is no series", []moment{
			{func(b *bmc) {
				for range 12 {
					b.after(time.Minute).log(correctable())
				}
			}, "healthy | HardwareHealthy | [DIMM_A1 correctable ECC, 10 times within 24h]"},
			{logs(correctable()), healthy},
			{func(b *bmc) {
				for range 9 {
					b.after(time.Minute).log(correctable())
				}
			}, "failed | MemoryFailure | DIMM_A1 correctable ECC, 10 times within 24h"},
		}},
		{"a series of correctable errors three years ago, and the sensor shows one", "a bit that is lit is no series", []moment{
			{func(b *bmc) {
				for range 12 {
					b.after(time.Minute).log(correctable())
				}
				shows("DIMM_A1", 1)(b)
			}, healthy},
			{shows("DIMM_A1", 0), healthy},
			{passes(48 * time.Hour), healthy},
			{shows("DIMM_A1", 1), healthy},
			{func(b *bmc) {
				for range 9 {
					b.after(time.Minute).log(correctable())
				}
			}, healthy},
			{together(passes(time.Minute), logs(correctable())), "failed | MemoryFailure | DIMM_A1 correctable ECC, 10 times within 24h"},
		}},
		{"a series of correctable errors three years ago, and the sensor shows one much later", "a bit that is lit is no series", []moment{
			{func(b *bmc) {
				for range 12 {
					b.after(time.Minute).log(correctable())
				}
			}, "healthy | HardwareHealthy | [DIMM_A1 correctable ECC, 10 times within 24h]"},
			{together(passes(100*24*time.Hour), shows("DIMM_A1", 1)), healthy},
		}},
		{"a series of one of several modules three years ago, and their sensor shows one", "a bit that is lit is no series", []moment{
			{func(b *bmc) {
				for range 12 {
					b.after(time.Minute).log(with(ipmi.EventData{0x20, 0xff, 7}, correctable()))
				}
				shows("DIMM_A1", 1)(b)
			}, healthy},
			{shows("DIMM_A1", 0), healthy},
		}},
		{"a series of three years ago that is read after the sensor has shown one", "a bit that is lit is no series", []moment{
			{together(partly(1), logs(harmless()), shows("DIMM_A1", 1), func(b *bmc) {
				for range 12 {
					b.after(time.Minute).log(correctable())
				}
			}), "cannotTell | EventLogUnreadable"},
			{partly(0), healthy},
			{shows("DIMM_A1", 0), healthy},
		}},
		{"a fan that stopped again and again, and stands still once", "it turns again", []moment{
			{func(b *bmc) {
				for range 12 {
					b.after(time.Minute).log(of(ipmi.Threshold, named("FAN1", event(fan, 2, 2))))
				}
			}, "healthy | HardwareHealthy | [FAN1 at or below lower critical, 10 times within 24h]"},
			{shows("FAN1", ipmi.LowerCritical), "failed | FanFailure | FAN1 5400 RPM, at or below lower critical"},
			{shows("FAN1", 0), healthy},
		}},
		{"a fan that stopped again and again", "it turns today", []moment{
			{func(b *bmc) {
				for range 12 {
					b.after(time.Minute).log(of(ipmi.Threshold, named("FAN1", event(fan, 2, 2))))
				}
			}, "healthy | HardwareHealthy | [FAN1 at or below lower critical, 10 times within 24h]"},
			{watches(25 * time.Hour), healthy},
		}},
		{"a supply that failed three years ago, and has", "its sensor shows it", []moment{
			{together(logs(supplyFailed()), shows("PSU1 Status", 1|1<<1)), psu},
			{shows("PSU1 Status", 1), healthy},
		}},
		{"a supply that failed three years ago, and works", "the sensor beats the SEL", []moment{
			{logs(supplyFailed()), healthy},
		}},
		{"a processor that stopped three years ago, and shows it", "it is failing now, and what was proved stays", []moment{
			{together(logs(named("CPU0 Status", event(processor, 6, 0))), shows("CPU0 Status", 1<<7|1)), "failed | ProcessorFailure | CPU0 IERR"},
			{shows("CPU0 Status", 1<<7), "failed | ProcessorFailure | CPU0 IERR"},
		}},
		{"a drive that failed three years ago, without a sensor", "it may have been exchanged", []moment{
			{logs(event(drive, 0x70, 1)), "healthy | HardwareHealthy | [Drive Slot / Bay #0x70 drive fault]"},
			{logs(ended(event(drive, 0x70, 1))), healthy},
		}},
		{"a feed that was lost three years ago, without its end", "that explains nothing of today", []moment{
			{
				together(logs(event(supply, 0x70, 3)), adds(ipmi.Sensor{Name: "PSU Redundancy", Number: 0x71, Type: powerUnit, EventType: redundancy, Available: true, States: 1 << 5})),
				"failed | PowerSupplyFailure | PSU Redundancy non-redundant: insufficient resources | [Power Supply #0x70 power supply AC lost]",
			},
		}},
		{"a SEL that takes several looks to be read", "all of it is from before", []moment{
			{together(partly(2), logs(harmless(), harmless(), harmless(), uncorrectable(), harmless())), "cannotTell | EventLogUnreadable"},
			{partly(4), "cannotTell | EventLogUnreadable | [DIMM_A1 uncorrectable ECC]"},
			{partly(0), lostOnce},
			{logs(uncorrectable()), lostData},
		}},
		{"a fleet is acknowledged", "then it is not even listed as new", []moment{
			{logs(uncorrectable()), lostOnce},
			{acknowledges, "healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)"},
			{logs(uncorrectable()), lostData},
		}},
	}, func(b *bmc, s *scenario) {
		old(b, s.moments[0].does)
		s.moments[0].does = func(*bmc) {}
	})
}

func TestWhatIsNewAtTheFirstLookCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		before time.Duration
		want   string
	}{
		"an hour":              {time.Hour, lostData},
		"a day":                {24 * time.Hour, lostData},
		"more than a day":      {25 * time.Hour, "healthy | HardwareHealthy | [DIMM_A1 uncorrectable ECC]"},
		"in an hour, by clock": {-time.Hour, lostData},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.after(-tc.before).log(uncorrectable())
			b.in.Now = start
			b.expect(tc.want)
			b.after(240 * time.Hour).expect(tc.want)
		})
	}
}

func TestAnEmptySELAtTheFirstLookIsALook(t *testing.T) {
	b := newBMC(t)
	b.in.BootID = ""
	b.expect(healthy)
	e := uncorrectable()
	e.Timestamp = 1783 // without a clock
	b.log(e)
	b.expect(lostData)
}

// Whether what the SEL has from before was known to count, or not to, nobody knows then: the
// server is neither given back nor taken out.
func TestAServerWhoseMemoryIsLostIsNotSeenForTheFirstTime(t *testing.T) {
	const (
		unsure = "cannotTell | FailureUnconfirmed | DIMM_A1 uncorrectable ECC?"
		acked  = "healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)"
		series = "DIMM_A1 correctable ECC, 10 times within 24h"
	)
	playAfter(t, []scenario{
		{"acknowledged", "a person knows", []moment{
			{func(b *bmc) { old(b, logs(uncorrectable())) }, unsure},
			{passes(240 * time.Hour), unsure}, {boots(ipmi.RestartSoftReset), unsure},
			{acknowledges, acked}, {logs(uncorrectable()), lostData},
		}},
		{"it happens again", "that is known", []moment{
			{func(b *bmc) { old(b, logs(uncorrectable())) }, unsure}, {logs(uncorrectable()), lostData},
		}},
		{"the sensor shows it", "that is known", []moment{
			{func(b *bmc) { old(b, logs(uncorrectable())); shows("DIMM_A1", 2)(b) }, lostData}, {shows("DIMM_A1", 0), lostData},
		}},
		{"without power for long", "that is a repair", []moment{
			{func(b *bmc) { old(b, logs(uncorrectable())) }, unsure}, {unplugged(time.Hour), healthy},
		}},
		{"cleared", "nothing is left of it", []moment{{func(b *bmc) { old(b, logs(uncorrectable())) }, unsure}, {clears, healthy}}},
		{"it is of today", "it counts at any first look", []moment{{logs(uncorrectable()), lostData}}},
		{"something else has failed", "that is known", []moment{
			{func(b *bmc) { old(b, logs(uncorrectable())); shows("PSU1 Status", 3)(b) }, "failed | PowerSupplyFailure | PSU1 failure detected | DIMM_A1 uncorrectable ECC?"},
		}},
		{"a series", "nobody knows whether the module was exchanged", []moment{
			{func(b *bmc) {
				old(b, func(b *bmc) {
					for range 12 {
						b.after(time.Minute).log(correctable())
					}
				})
			}, "cannotTell | FailureUnconfirmed | " + series + "?"},
			{logs(correctable()), healthy},
		}},
		{"a warning", "it takes no server out", []moment{
			{func(b *bmc) { old(b, logs(event(0x12, 0x40, 2))) }, "healthy | HardwareHealthy | warning System Event #0x40 undetermined system hardware failure"},
		}},
		{"the SEL takes several looks", "all of it is from before", []moment{
			{func(b *bmc) {
				old(b, logs(harmless(), uncorrectable(), harmless()))
				b.readsAtMost = 1
			}, "cannotTell | EventLogUnreadable"},
			{func(b *bmc) { b.readsAtMost = 0 }, unsure},
		}},
	}, func(b *bmc, _ *scenario) {
		b.save(verdict.Forgotten())
		b.in.LogError = errBMC
		b.expect("cannotTell | EventLogUnreadable")
		b.in.LogError = nil
	})
}

func TestTheMessageSaysThatTheMemoryIsLost(t *testing.T) {
	b := newBMC(t)
	b.save(verdict.Forgotten())
	old(b, logs(uncorrectable()))
	v := b.judge()
	want := "what was remembered of this server is lost, so that old records may count or not: acknowledge them, or clear the SEL" +
		"; in the log from before that: DIMM_A1: uncorrectable ECC (SEL 0x01, 2023-11-2"
	if !strings.HasPrefix(v.Message, want) {
		t.Errorf("got %s", v.Message)
	}
}

func TestTheMessageTellsWhatIsFromBefore(t *testing.T) {
	b := newBMC(t)
	old(b, logs(uncorrectable()))
	v := b.judge()
	if want := "; in the log from before the first look: DIMM_A1: uncorrectable ECC (SEL 0x01, 2023-11-2"; !strings.Contains(v.Message, want) {
		t.Errorf("got %s", v.Message)
	}
	if !slices.ContainsFunc(v.Failures, func(f verdict.Failure) bool { return f.History }) {
		t.Errorf("got %+v", v.Failures)
	}
}
