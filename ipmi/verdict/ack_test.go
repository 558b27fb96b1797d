package verdict_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

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
