package verdict_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

func TestAnAcknowledgementCoversTheRecordsUpToTheWatermark(t *testing.T) {
	of := func(id uint16, module uint8) ipmi.Event {
		e := event(memory, module, 1)
		e.ID = id
		return e
	}
	for name, tc := range map[string]struct {
		ids   [2]uint16
		until uint16
		want  [2]bool // acknowledged
	}{
		"none":                  {[2]uint16{5, 9}, 4, [2]bool{false, false}},
		"the first":             {[2]uint16{5, 9}, 5, [2]bool{true, false}},
		"in between":            {[2]uint16{5, 9}, 7, [2]bool{true, false}},
		"both":                  {[2]uint16{5, 9}, 9, [2]bool{true, true}},
		"all":                   {[2]uint16{5, 9}, verdict.All, [2]bool{true, true}},
		"IDs started over":      {[2]uint16{0xfffe, 3}, 0xfffe, [2]bool{true, false}},
		"IDs started over, 2nd": {[2]uint16{0xfffe, 3}, 3, [2]bool{true, true}},
		"IDs far apart":         {[2]uint16{0x10, 0xf000}, 0xe000, [2]bool{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.log(of(tc.ids[0], 0x21), of(tc.ids[1], 0x22))
			b.judge()
			b.acknowledge(tc.until)
			got := map[string]bool{}
			for _, f := range b.judge().Failures {
				got[f.Component] = f.Acknowledged != nil
			}
			if got["Memory #0x21"] != tc.want[0] || got["Memory #0x22"] != tc.want[1] {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestAnAcknowledgementEndsWithWhatItCovers(t *testing.T) {
	const (
		broken = "failed | PowerSupplyFailure | PSU1 failure detected"
		known  = "healthy | HardwareHealthy | (PSU1 failure detected)"
	)
	b := newBMC(t)
	psu1 := b.sensor("PSU1 Status")
	b.log(supplyFailed())
	psu1.States = 1 | 1<<1
	b.expect(broken)
	b.acknowledge(verdict.All)
	b.expect(known)
	b.boot(ipmi.RestartPowerButton).expect(known) // still the same one
	b.log(harmless())
	b.judge()
	b.clear()
	b.expect(known)
	psu1.States = 1
	b.expect(healthy)
	psu1.States = 1 | 1<<1
	b.expect(broken)
	b.acknowledge(verdict.All)
	b.log(supplyFailed())
	b.expect(broken) // a new record
	b.acknowledge(verdict.All)
	b.log(supplyFailed())
	b.judge()
	b.clear()
	b.expect(broken) // it was the earlier record that was acknowledged
}

func TestAMomentaryFailureThatASensorShowsAnewNeedsAnotherAcknowledgement(t *testing.T) {
	b := newBMC(t)
	cpu := b.sensor("CPU0 Status")
	cpu.States = 1<<7 | 1<<0
	b.expect("failed | ProcessorFailure | CPU0 IERR")
	b.acknowledge(verdict.All)
	b.expect("healthy | HardwareHealthy | (CPU0 IERR)")
	cpu.States = 1 << 7
	b.expect("healthy | HardwareHealthy | (CPU0 IERR)")
	cpu.States = 1<<7 | 1<<0
	b.expect("failed | ProcessorFailure | CPU0 IERR")
}

func TestAFlagOfTheChassisIsAcknowledgedUntilItIsSetAnew(t *testing.T) {
	b := newBMC(t)
	b.rules = flagRules("Cooling/Fan Fault")
	b.in.Chassis.CoolingFault = true
	b.expect("failed | FanFailure | Chassis cooling/fan fault")
	b.acknowledge(verdict.All)
	b.expect("healthy | HardwareHealthy | (Chassis cooling/fan fault)")
	b.in.Chassis.CoolingFault = false
	b.expect(healthy)
	b.in.Chassis.CoolingFault = true
	b.expect("failed | FanFailure | Chassis cooling/fan fault")
}

func TestWhoHasAcknowledgedAndWhyIsListed(t *testing.T) {
	b := failed(t)
	b.save(b.state().Acknowledge(verdict.All, "replaced on\nMonday", "alïce", start))
	b.acknowledge(verdict.All) // the first one counts
	v := b.judge()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if want := `"acknowledged":{"by":"al?ce","reason":"replaced on Monday","at":"2026-11-21T05:48:33Z"}`; !strings.Contains(string(data), want) {
		t.Errorf("got %s", data)
	}
	if want := "acknowledged by al?ce: DIMM_A1: uncorrectable ECC (SEL 0x01, 2026-11-21T05:49Z)"; !strings.Contains(v.Message, want) {
		t.Errorf("got %s", v.Message)
	}
}

func TestAnAcknowledgementDoesNotChangeTheStateItWasGivenFor(t *testing.T) {
	b := failed(t)
	b.sensor("PSU2 Status").States = 0
	b.judge()
	before := b.state()
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	before.Acknowledge(verdict.All, "known", "alice", start)
	if after, err := json.Marshal(before); err != nil || !bytes.Equal(after, text) {
		t.Errorf("got %s, %v; want %s", after, err, text)
	}
}

// idOf returns the ID of the only failure of a component that is known and not acknowledged.
func (b *bmc) idOf(component string) string {
	b.t.Helper()
	var ids []string
	for _, f := range b.state().Known(b.rules, nil) {
		if f.Component == component {
			ids = append(ids, f.ID)
		}
	}
	if len(ids) != 1 || len(ids[0]) != 8 {
		b.t.Fatalf("%s has the IDs %q", component, ids)
	}
	return ids[0]
}

func (b *bmc) acknowledgeOnly(ids ...string) {
	b.save(b.state().AcknowledgeOnly(ids, verdict.All, "known", "alice", b.in.Now))
}

func TestOneFailureIsAcknowledgedWithoutTheOthers(t *testing.T) {
	b := newBMC(t)
	b.judge() // PSU2 is there
	b.log(uncorrectable(), supplyFailed())
	b.sensor("PSU1 Status").States = 1 | 1<<1
	b.sensor("PSU2 Status").States = 0
	b.watch(10 * time.Minute)
	b.expect("failed | MultipleFailures | DIMM_A1 uncorrectable ECC | PSU1 failure detected | PSU2 absent")
	for _, f := range b.judge().Failures {
		if f.ID != b.idOf(f.Component) {
			t.Errorf("%s has the ID %s, and is known as %s", f.Component, f.ID, b.idOf(f.Component))
		}
	}
	absent := b.idOf("PSU2")
	b.acknowledgeOnly(b.idOf("PSU1"), "00000000")
	b.expect("failed | MultipleFailures | DIMM_A1 uncorrectable ECC | PSU2 absent | (PSU1 failure detected)")
	b.acknowledgeOnly(absent)
	b.expect("failed | MemoryFailure | DIMM_A1 uncorrectable ECC | (PSU1 failure detected) | (PSU2 absent)")
	if left := b.state().Known(b.rules, nil); len(left) != 1 || left[0].Component != "DIMM_A1" {
		t.Errorf("left is %+v", left)
	}
}

func TestWhatHasComeSinceItWasShownIsNotAcknowledged(t *testing.T) {
	b := failed(t)
	seen := b.idOf("DIMM_A1")
	b.log(uncorrectable())
	b.judge()
	b.acknowledgeOnly(seen)
	b.expect("failed | MemoryFailure | DIMM_A1 uncorrectable ECC")
	b.acknowledgeOnly(b.idOf("DIMM_A1"))
	b.expect("healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)")
}

func TestTheLimitsOnTheWayToTheOneThatIsShownAreAcknowledgedWithIt(t *testing.T) {
	b := newBMC(t)
	b.judge()
	*b.sensor("FAN1").Reading = 0
	b.sensor("FAN1").States = ipmi.LowerNonCritical | ipmi.LowerCritical | ipmi.LowerNonRecoverable
	b.expect("failed | FanFailure | FAN1 0 RPM, at or below lower non-recoverable")
	b.acknowledgeOnly(b.idOf("FAN1"))
	b.expect("healthy | HardwareHealthy | (FAN1 0 RPM, at or below lower non-recoverable)")
}

func TestAComponentInDoubtCanBeAcknowledged(t *testing.T) {
	b := newBMC(t)
	b.judge()
	b.unavailable("PSU2 Status")
	b.watch(10 * time.Minute)
	b.expect("cannotTell | ComponentMissing")
	b.acknowledgeOnly(b.idOf("PSU2"))
	b.expect(healthy)
}

// Of two states after one the later one lacks what people have acknowledged in the other.
func TestAnAcknowledgementIsCarriedIntoALaterState(t *testing.T) {
	judged := func(b *bmc, s verdict.State) verdict.State { b.save(s); b.judge(); return b.state() }
	t.Run("the same failure", func(t *testing.T) {
		b := failed(t)
		known := b.state()
		stored := known.Acknowledge(verdict.All, "known", "alice", b.in.Now)
		b.save(judged(b, known).WithAcknowledgements(stored, known))
		b.expect("healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)")
	})
	t.Run("not of what has come since", func(t *testing.T) {
		b := failed(t)
		known := b.state()
		stored := known.Acknowledge(verdict.All, "known", "alice", b.in.Now)
		b.sensor("PSU1 Status").States = 1 | 1<<1
		b.log(uncorrectable())
		b.save(judged(b, known).WithAcknowledgements(stored, known))
		b.expect("failed | MultipleFailures | DIMM_A1 uncorrectable ECC | PSU1 failure detected")
	})
	t.Run("not an old one that has ended", func(t *testing.T) {
		b := newBMC(t)
		cpu := b.sensor("CPU0 Status")
		cpu.States = 1<<7 | 1<<0
		b.judge()
		known := b.state().Acknowledge(verdict.All, "known", "alice", b.in.Now)
		cpu.States = 1 << 7
		later := judged(b, known)
		cpu.States = 1<<7 | 1<<0
		b.save(judged(b, later).WithAcknowledgements(known, known))
		b.expect("failed | ProcessorFailure | CPU0 IERR")
	})
	t.Run("an absent component", func(t *testing.T) {
		b := newBMC(t)
		b.judge()
		b.pull("PSU2 Status")
		b.expect("failed | PowerSupplyFailure | PSU2 absent")
		known := b.state()
		stored := known.Acknowledge(verdict.All, "known", "alice", b.in.Now)
		b.save(judged(b, known).WithAcknowledgements(stored, known))
		b.expect("healthy | HardwareHealthy | (PSU2 absent)")
	})
	t.Run("what was counted", func(t *testing.T) {
		b := newBMC(t)
		b.rules = verdict.Rules{{
			Name: "often", Match: verdict.Match{SensorType: "Memory", Event: "Correctable ECC"}, Severity: verdict.SeverityFailure,
			Rate: &verdict.Rate{Count: 2, Per: time.Hour},
		}}
		b.judge()
		correctable := func() { b.after(time.Minute).log(named("DIMM_A1", event(memory, 4, 0))) }
		correctable()
		correctable()
		b.judge()
		known := b.state()
		stored := known.Acknowledge(verdict.All, "known", "alice", b.in.Now)
		b.save(judged(b, known).WithAcknowledgements(stored, known))
		b.expect("healthy | HardwareHealthy | (DIMM_A1 correctable ECC, 2 times within 1h)")
		correctable()
		b.expect("healthy | HardwareHealthy | (DIMM_A1 correctable ECC, 2 times within 1h)")
		correctable()
		b.expect("failed | MemoryFailure | DIMM_A1 correctable ECC, 2 times within 1h")
	})
}
