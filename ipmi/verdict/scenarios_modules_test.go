package verdict_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// Who logs events: a BIOS of Intel's boards (SMI handler), of others (SWID 0, BIOS POST,
// IPMI 2.0, table 5-4), Dell's, and a satellite controller.
const (
	biosSMI   = 0x33
	biosPOST  = 0x01
	biosDell  = 0xb1
	satellite = 0x2c
)

// made has a BMC of that maker.
func made(manufacturer uint32, product uint16) func(*bmc) {
	return func(b *bmc) { b.in.BMC = &ipmi.DeviceID{Manufacturer: manufacturer, Product: product} }
}

// ecc is an error of memory with event data, logged by a BIOS by a sensor that has the number
// of the BMC's DIMM_A1.
func ecc(owner, offset, second, third uint8) ipmi.Event {
	return from(owner, with(ipmi.EventData{0xa0 | offset, second, third}, event(memory, 4, 0)))
}

// The right module is named, and none for another one's errors.
func TestEventsAreOfThePartThatTheyAreAbout(t *testing.T) {
	const (
		lost    = " uncorrectable ECC"
		tooMany = " correctable ECC, 10 times within 24h"
		failed  = "failed | MemoryFailure | "

		intel, s2600WT, s5500WB, scalable = 343, 112, 62, 123
		dell, supermicro, other           = 674, 10876, 0
	)
	// errors are so many, of one module after the other, in different seconds.
	errors := func(count int, of ...ipmi.Event) func(*bmc) {
		var all []ipmi.Event
		for i := range count {
			all = append(all, of[i%len(of)])
		}
		return func(b *bmc) {
			for _, e := range all {
				b.after(time.Minute).log(e)
			}
		}
	}
	scenarios := []scenario{
		{"a BIOS's sensor has the number of the BMC's", "DIMM_A1 is well: an exchange of it mends nothing", []moment{
			{logs(from(biosPOST, event(memory, 4, 1))), failed + "Memory #0x04" + lost},
			{logs(uncorrectable()), failed + "Memory #0x04" + lost + " | DIMM_A1" + lost},
		}},
		{"a BIOS says that its own is over, by the number of the BMC's", "the BMC's drive has still failed", []moment{
			{together(logs(named("Disk0", event(drive, 5, 1))), silences("Disk0")), "cannotTell | ComponentMissing | Disk0 drive fault?"},
			{logs(from(biosPOST, ended(event(drive, 5, 1)))), "cannotTell | ComponentMissing | Disk0 drive fault?"},
		}},
		{"a BIOS's failure that the BMC's sensor of that number does not show", "the BMC's sensor tells nothing of it", []moment{
			{logs(from(biosPOST, event(memory, 4, 4))), failed + "Memory #0x04 memory device disabled"},
			{shows("DIMM_A1", 0), failed + "Memory #0x04 memory device disabled"},
		}},
		{"another controller's sensor has the number of the BMC's", "PSU1 works", []moment{
			{logs(from(satellite, event(supply, 3, 1))), "failed | PowerSupplyFailure | Power Supply #0x03 failure detected"},
		}},
		{"another controller's sensor, which can be read", "it tells of its own supply", []moment{
			{adds(ipmi.Sensor{Name: "Chassis PSU", Owner: satellite, Number: 3, Type: supply, EventType: ipmi.SensorSpecific, Available: true, States: 1}), healthy},
			{logs(from(satellite, event(supply, 3, 1))), healthy}, // it is over
			{shows("Chassis PSU", 1|1<<1), "failed | PowerSupplyFailure | Chassis PSU failure detected"},
		}},
		{"another LUN has a sensor of that number", "PSU1 works", []moment{
			{adds(ipmi.Sensor{Name: "PSU1 Fan", Owner: ipmi.BMCAddress, LUN: 1, Number: 3, Type: supply, EventType: ipmi.SensorSpecific}), healthy},
			{func(b *bmc) { e := event(supply, 3, 1); e.LUN = 1; logs(e)(b) }, "cannotTell | FailureUnconfirmed | PSU1 Fan failure detected?"},
		}},
		{"the BMC's own address", "that is the sensor", []moment{
			{logs(from(ipmi.BMCAddress, event(supply, 3, 1))), healthy}, // PSU1 does not show it
		}},

		{"one error each of twelve modules", "single errors are cosmic rays", []moment{
			{func(b *bmc) {
				for module := range uint8(12) {
					b.after(time.Minute).log(ecc(biosPOST, 0, 0xff, module))
				}
			}, healthy},
		}},
		{"twelve errors of one among others' errors", "that one wears out", []moment{
			{errors(24, ecc(biosPOST, 0, 0xff, 7), ecc(biosPOST, 0, 0xff, 8), ecc(biosPOST, 0, 0xff, 7), ecc(biosPOST, 0, 0xff, 9)), failed + "Memory #0x04 data 0x07" + tooMany},
		}},
		{"two modules lose data", "both have to be exchanged", []moment{
			{logs(ecc(biosPOST, 1, 0xff, 7), ecc(biosPOST, 1, 0xff, 9)), failed + "Memory #0x04 data 0x07" + lost + " | Memory #0x04 data 0x09" + lost},
			{unplugged(time.Hour), healthy},
		}},
		{"the module by the standard's own byte", "IPMI 2.0, table 42-3", []moment{
			{logs(from(biosPOST, with(ipmi.EventData{0x31, 0xff, 0x05}, event(memory, 4, 1)))), failed + "Memory #0x04 module 0x05" + lost},
		}},
		{"an unspecified byte is no module", "0xff means that", []moment{
			{errors(12, ecc(biosPOST, 0, 0xff, 0xff)), failed + "Memory #0x04" + tooMany},
		}},
		{"a counter in the second byte", "one module, as Quanta's QSSC-S4R specification has it", []moment{
			{func(b *bmc) {
				for count := range uint8(12) {
					b.after(time.Minute).log(ecc(biosPOST, 0, count<<2, 0x21))
				}
			}, failed + "Memory #0x04 data 0x21" + tooMany},
		}},
		{"event data of a sensor that is the module's own", "its name tells", []moment{
			{logs(with(ipmi.EventData{0xa1, 0x01, 0x02}, uncorrectable())), lostData},
		}},
		{"a module of a BIOS's is not the one before it", "the acknowledged one was exchanged, the other not", []moment{
			{logs(ecc(biosPOST, 1, 0xff, 7)), failed + "Memory #0x04 data 0x07" + lost},
			{acknowledges, "healthy | HardwareHealthy | (Memory #0x04 data 0x07" + lost + ")"},
			{logs(ecc(biosPOST, 1, 0xff, 9)), failed + "Memory #0x04 data 0x09" + lost + " | (Memory #0x04 data 0x07" + lost + ")"},
		}},
		{"the maker is known later", "what is known stays, and what comes has its name", []moment{
			{logs(ecc(biosSMI, 1, 0x00, 0x00)), failed + "Memory #0x04 data 0x00" + lost},
			{together(made(intel, s2600WT), logs(ecc(biosSMI, 1, 0x00, 0x09))), failed + "Memory #0x04 data 0x00" + lost + " | DIMM_B2" + lost},
		}},
		{"a shared sensor that shows what a record tells of a module", "that is one failure, and is over with the sensor", []moment{
			{together(made(dell, 0x100), adds(ipmi.Sensor{Name: "Mem Over Temp", Owner: ipmi.BMCAddress, Number: 0x31, Type: memory, EventType: ipmi.SensorSpecific, Available: true})), healthy},
			{together(
				logs(named("Mem Over Temp", with(ipmi.EventData{0xaa, 0xa0, 0x01}, event(memory, 0x31, 0)))), shows("Mem Over Temp", 1<<10),
			), failed + "DIMM_A1 critical overtemperature"},
			{shows("Mem Over Temp", 0), healthy},
		}},
	}
	for _, row := range []struct {
		name, why     string
		manufacturer  uint32
		product       uint16
		owner         uint8
		second, third uint8
		offset        uint8 // 0: uncorrectable ECC
		label         string
	}{
		{name: "Intel, first processor", why: "G90620, table 63", manufacturer: intel, product: s2600WT, owner: biosSMI, second: 1, third: 0x0a, label: "DIMM_B3"},
		{name: "Intel, second processor", why: "G90620, table 63", manufacturer: intel, product: s2600WT, owner: biosSMI, third: 0x38, label: "DIMM_H1"},
		{name: "Intel, fourth processor", why: "G90620, table 63: the letters skip some", manufacturer: intel, product: s2600WT, owner: biosSMI, third: 0x71, label: "DIMM_R2"},
		{name: "Intel, three channels", why: "G74211, table 60", manufacturer: intel, product: s5500WB, owner: biosSMI, third: 0x21, label: "DIMM_D2"},
		{name: "Intel, no such channel", why: "the bytes mean something else", manufacturer: intel, product: s5500WB, owner: biosSMI, third: 0x18, label: "Memory #0x04 data 0x18"},
		{name: "Intel, Xeon Scalable", why: "FreeIPMI has another layout for these", manufacturer: intel, product: scalable, owner: biosSMI, third: 0x09, label: "Memory #0x04 data 0x09"},
		{name: "Intel, not by the SMI handler", why: "the guide is about that one", manufacturer: intel, product: s2600WT, owner: biosPOST, third: 0x09, label: "Memory #0x04 data 0x09"},
		{name: "Intel, parity of a module", why: "G90620, table 65", manufacturer: intel, product: s2600WT, owner: biosSMI, second: 0x1a, third: 0x09, offset: 2, label: "DIMM_B2"},
		{name: "Intel, parity of a channel", why: "G90620, table 65: bit 3 says that the module is not known", manufacturer: intel, product: s2600WT, owner: biosSMI, second: 0x12, third: 0x09, offset: 2, label: "one of DIMM_B1, DIMM_B2, DIMM_B3"},
		{name: "Intel, parity of nothing known", why: "G90620, table 65", manufacturer: intel, product: s2600WT, owner: biosSMI, second: 0x02, third: 0x09, offset: 2, label: "Memory #0x04 data 0x09"},
		{name: "Dell, six modules a processor", why: "ipmitool, ipmi_sel_delloem.c", manufacturer: dell, owner: biosDell, second: 0x90, third: 0x80, label: "DIMM_B2"},
		{name: "Dell, twelve modules a processor", why: "ipmitool, ipmi_sel_delloem.c", manufacturer: dell, owner: biosDell, second: 0xc1, third: 0x10, label: "DIMM_B1"},
		{name: "Dell, more bits", why: "ipmitool lists them all", manufacturer: dell, owner: biosDell, second: 0x80, third: 0x03, label: "one of DIMM_A1, DIMM_A2"},
		{name: "Dell, no card", why: "FreeIPMI, ipmi-sel-string-dell-poweredge.c", manufacturer: dell, owner: biosDell, second: 0xf1, third: 0x01, label: "DIMM 9"},
		{name: "Dell, a card", why: "ipmitool says card B, FreeIPMI 1", manufacturer: dell, owner: biosDell, second: 0x10, third: 0x02, label: "DIMM 2 of card 1 (B)"},
		{name: "Dell, by the BMC", why: "the data tell as much", manufacturer: dell, owner: ipmi.BMCAddress, second: 0xa0, third: 0x04, label: "DIMM_A3"},
		{name: "Dell, no bit", why: "no module is named", manufacturer: dell, owner: biosDell, second: 0xa0, third: 0x00, label: "Memory #0x04 data 0x00"},
		{name: "Supermicro, first processor", why: "ipmiutil: 2A 80 is P1_DIMMB1", manufacturer: supermicro, owner: biosPOST, second: 0x2a, third: 0x80, label: "P1-DIMMB1"},
		{name: "Supermicro, second processor", why: "ipmitool has three ways to go on, by board", manufacturer: supermicro, owner: biosPOST, second: 0x2b, third: 0x81, label: "one of P2-DIMMB2, P2-DIMME2, P2-DIMMF2"},
		{name: "Supermicro, no module", why: "0x29 would be module 0", manufacturer: supermicro, owner: biosPOST, second: 0x29, third: 0x80, label: "Memory #0x04 data 0x80"},
		{name: "unknown, as of a Supermicro", why: "its maker is not known", manufacturer: other, owner: biosPOST, second: 0x2a, third: 0x80, label: "Memory #0x04 data 0x80"},
	} {
		what := " uncorrectable ECC"
		if row.offset == 2 {
			what = " parity"
		}
		scenarios = append(scenarios, scenario{row.name, row.why, []moment{
			{together(made(row.manufacturer, row.product), logs(ecc(row.owner, max(row.offset, 1), row.second, row.third))), failed + row.label + what},
		}})
	}
	for _, row := range []struct {
		name, why     string
		manufacturer  uint32
		owner         uint8
		second, third uint8
		label         string
	}{
		{"Intel, a PCI device", "G90620, table 69: bus, then device and function", intel, biosSMI, 0x3b, 0x09, "PCI 3b:01.1"},
		{"Dell, a PCI device", "FreeIPMI: device and function, then bus", dell, biosDell, 0x09, 0x3b, "PCI 3b:01.1"},
		{"Dell, a slot", "FreeIPMI: bit 7 of the third byte", dell, biosDell, 0x00, 0x83, "Slot 3"},
		{"Dell, neither", "FreeIPMI: both are 0xff", dell, biosDell, 0xff, 0xff, "Critical Interrupt #0x04"},
		{"a PCI device by an unknown BIOS", "its bytes are not known", other, biosPOST, 0x09, 0x3b, "Critical Interrupt #0x04"},
	} {
		e := from(row.owner, with(ipmi.EventData{0xa5, row.second, row.third}, event(interrupt, 4, 5)))
		scenarios = append(scenarios, scenario{row.name, row.why, []moment{
			{together(made(row.manufacturer, 0), logs(e)), "failed | BusFailure | " + row.label + " PCI SERR"},
		}})
	}
	for _, row := range []struct {
		name, why    string
		manufacturer uint32
		data         ipmi.EventData
		label        string
	}{
		{"Lenovo, a drive", "pyghmi, ipmi/oem/lenovo/handler.py: the bay is in the second byte", 19046, ipmi.EventData{0x81, 0x03, 0xff}, "Bay 3"},
		{"IBM's System x, a drive", "pyghmi takes both for Lenovo", 20301, ipmi.EventData{0x81, 0xc4, 0xff}, "Bay 4"},
		{"Lenovo, a drive without a bay", "the first byte says that there is none", 19046, ipmi.EventData{0x01, 0x03, 0xff}, "Drive Slot / Bay #0x70"},
		{"a drive of another maker", "its bytes are not known", other, ipmi.EventData{0x81, 0x03, 0xff}, "Drive Slot / Bay #0x70"},
	} {
		scenarios = append(scenarios, scenario{row.name, row.why, []moment{
			{together(made(row.manufacturer, 0), logs(with(row.data, event(drive, 0x70, 1)))), "failed | DriveFailure | " + row.label + " drive fault"},
		}})
	}
	const huawei, hpe = 2011, 47196
	shared := func(maker uint32, sensor string, slots ...string) func(*bmc) {
		return together(made(maker, 0), finds(slots...), adds(ipmi.Sensor{Name: sensor, Number: 0x41, Type: memory, EventType: ipmi.SensorSpecific, Available: true}))
	}
	lostBy := func(sensor string, data ipmi.EventData) func(*bmc) {
		return logs(named(sensor, with(data, event(memory, 0x41, 1))))
	}
	const cpu1, status = "CPU1 Memory", "Memory Status"
	slots := []string{"DIMM000 J5", "S-11", "DIMM001 J6", "", "DIMM010 J8", "S-22", "DIMM100 J17", "S-33"}
	var all []string
	for i := range 12 {
		all = append(all, fmt.Sprintf("PROC 1 DIMM %d", i+1), fmt.Sprintf("S-1%d", i))
	}
	scenarios = append(scenarios, []scenario{
		{"Huawei, modules of a processor", "nothing public tells which: one of those that it has", []moment{
			{shared(huawei, cpu1, slots...), healthy},
			{lostBy(cpu1, ipmi.EventData{1, 0xff, 0xff}), failed + "one of DIMM000 J5, DIMM010 J8" + lost},
		}},
		{"Huawei, with data that are not public", "they tell modules apart", []moment{
			{shared(huawei, cpu1, slots...), healthy},
			{lostBy(cpu1, ipmi.EventData{0xa1, 0xff, 3}), failed + "one of DIMM000 J5, DIMM010 J8 (data 0x03)" + lost},
		}},
		{"Huawei, the only module of a processor", "it is that one", []moment{
			{shared(huawei, "CPU2 Memory", slots...), healthy},
			{lostBy("CPU2 Memory", ipmi.EventData{1, 0xff, 0xff}), failed + "DIMM100 J17" + lost},
		}},
		{"Huawei, one error each of twelve modules", "single errors are cosmic rays", []moment{
			{shared(huawei, cpu1, slots...), healthy},
			{func(b *bmc) {
				for module := range uint8(12) {
					b.after(time.Minute).log(named(cpu1, with(ipmi.EventData{0xa0, 0xff, module}, event(memory, 0x41, 0))))
				}
			}, healthy},
		}},
		{"HPE, few modules", "nothing public tells which: one of those that there are", []moment{
			{shared(hpe, status, "PROC 1 DIMM 1", "S-11", "PROC 2 DIMM 5", "S-22", "PROC 2 DIMM 6", ""), healthy},
			{lostBy(status, ipmi.EventData{1, 0xff, 0xff}), failed + "one of PROC 1 DIMM 1, PROC 2 DIMM 5" + lost},
		}},
		{"HPE, many modules", "a list that is too long tells nobody anything", []moment{
			{shared(hpe, status, all...), healthy},
			{lostBy(status, ipmi.EventData{1, 0xff, 0xff}), failed + "Memory" + lost},
		}},
		{"a memory sensor of that name of another maker", "it is not known what it is about", []moment{
			{shared(dell, cpu1, slots...), healthy},
			{lostBy(cpu1, ipmi.EventData{1, 0xff, 0xff}), failed + cpu1 + lost},
		}},
	}...)
	play(t, scenarios)
}

func TestAStateFromBeforeOwnersWereToldIsGoneOnWith(t *testing.T) {
	b := newBMC(t)
	b.saved = []byte(`{"version":1,"cursor":{"id":1,"timestamp":1795239000,"read":true},"total":1,` +
		`"points":[{"type":12,"number":4,"eventType":111,"state":1,"name":"DIMM_A1","latched":true,"since":"2026-11-21T05:00:00Z",` +
		`"record":{"id":1,"timestamp":1795239000,"time":"2026-11-21T05:30:00Z"}}]}`)
	b.erased = 0
	b.log(uncorrectable())
	b.sel[0].Timestamp = 1795239000
	for i := range b.in.Sensors {
		b.in.Sensors[i].Owner = ipmi.BMCAddress
	}
	b.expect(lostData)
	b.log(from(ipmi.BMCAddress, uncorrectable()))
	b.expect(lostData)
	if failures := b.judge().Failures; len(failures) != 1 || !slices.ContainsFunc(b.sel, func(e ipmi.Event) bool { return e.ID == failures[0].Record }) {
		t.Errorf("got %+v", failures)
	}
}
