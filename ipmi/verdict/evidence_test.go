package verdict_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

func TestEvidenceIsForTheTechnician(t *testing.T) {
	b := newBMC(t)
	b.in.Modules = []ipmi.Module{{Locator: "A1", Serial: "S-11", Manufacturer: "Samsung", PartNumber: "M393", Bytes: 32 << 30}, {Locator: "A2"}}
	if lines := b.judge().Evidence(); lines != nil {
		t.Errorf("of a healthy server: %q", lines)
	}
	e := uncorrectable()
	e.Raw = ipmi.SELRecord{1, 0, 2, 0xb1, 0x30, 1, 0x6b, 0x20, 0, 4, 0x0c, 4, 0x6f, 1, 0xff, 0xff}
	b.log(e)
	b.sensor("PSU1 Status").States = 1 | 1<<1
	b.sensor("PSU2 Status").States = 1 | 1<<2 // a warning
	temp := b.sensor("CPU0 Temp")
	*temp.Reading, temp.States = 98, ipmi.UpperNonCritical|ipmi.UpperCritical
	want := []string{
		"DIMM_A1: uncorrectable ECC, since 2026-11-21T05:48:33Z, SEL 0x01, record 010002b130016b2000040c046f01ffff",
		"slot A1: 32 GiB Samsung M393, serial S-11",
		"PSU1: failure detected, since 2026-11-21T05:48:33Z, sensor PSU1 Status, number 0x03, states 0x0003",
		"CPU0 Temp: at or above upper critical, since 2026-11-21T05:48:33Z, sensor CPU0 Temp, number 0x01, states 0x0018",
	}
	if diff := cmp.Diff(want, b.judge().Evidence()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	*temp.Reading = 97.5
	if diff := cmp.Diff(want, b.judge().Evidence()); diff != "" {
		t.Errorf("of another reading, -want +got:\n%s", diff)
	}
	b.in.SensorsError, b.in.LogError, b.in.ChassisError = errBMC, errBMC, errBMC
	v := b.judge()
	if lines := v.Evidence(); v.Status != verdict.CannotTell || len(lines) != len(want) || lines[0] != want[0] || lines[1] != want[1] {
		t.Errorf("of a BMC that answers nothing: %q", lines)
	}
	b.in.SensorsError, b.in.LogError, b.in.ChassisError = nil, nil, nil
	b.acknowledge(verdict.All)
	if lines := b.judge().Evidence(); lines != nil {
		t.Errorf("of what is acknowledged: %q", lines)
	}
}

func TestEvidenceOfAResourceNamesItAndThePart(t *testing.T) {
	b := newBMC(t)
	psu := b.sensor("PSU1 Status")
	psu.Path, psu.Identity = "/redfish/v1/Chassis/1/PowerSubsystem/PowerSupplies/1", &ipmi.Identity{Manufacturer: "Delta", Model: "D1400", Serial: "S-1", Firmware: "1.2"}
	psu.Said = `{"LineInputVoltage":229}`
	psu.States = 1 | 1<<1
	want := []string{
		"PSU1: failure detected, since 2026-11-21T05:48:33Z, sensor PSU1 Status, /redfish/v1/Chassis/1/PowerSubsystem/PowerSupplies/1",
		"part: Delta D1400, serial S-1, firmware 1.2",
	}
	if diff := cmp.Diff(want, b.judge().Evidence()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEvidenceNamesAllModulesThatItMayBe(t *testing.T) {
	b := newBMC(t)
	b.in.BMC = &ipmi.DeviceID{Manufacturer: 343, Product: 112}
	b.in.Modules = modules("A1", "S-33", "B1", "S-11", "B2", "S-22", "B3", "")
	b.judge()
	b.boot(ipmi.RestartWatchdog)
	b.in.Modules = modules("A1", "S-33", "B1", "", "B2", "S-22", "B3", "")
	b.log(ecc(biosSMI, 2, 0x10, 0x08))
	want := []string{
		"one of DIMM_B1, DIMM_B2: parity, since 2026-11-21T05:53:33Z, SEL 0x01",
		"may be slot B1: empty now, as the firmware says; before: serial S-11",
		"may be slot B2: 32 GiB, serial S-22",
	}
	if diff := cmp.Diff(want, b.judge().Evidence()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEvidenceIsBounded(t *testing.T) {
	b := newBMC(t)
	b.in.BMC = &ipmi.DeviceID{Manufacturer: 11}
	for i := range 40 {
		b.in.Modules = append(b.in.Modules, modules(fmt.Sprintf("PROC 1 DIMM %d", i), fmt.Sprintf("\x1b[2J S-%d", i))...)
	}
	b.judge()
	for i := range 40 {
		b.log(named("Memory Status", with(ipmi.EventData{0xa1, 0xff, uint8(i)}, event(memory, 0x48, 1))))
	}
	lines := b.judge().Evidence()
	if last := lines[len(lines)-1]; last != "and 32 more failures" || len(lines) > 100 {
		t.Errorf("%d lines, the last is %q", len(lines), last)
	}
	for _, line := range lines {
		if strings.Contains(line, "\x1b") {
			t.Fatalf("%q", line)
		}
	}
}
