package ipmi

import (
	"fmt"
	"math/bits"
	"strings"
)

// Manufacturers of BMCs, by their IANA enterprise number.
const (
	intel         = 343
	dell          = 674
	supermicro    = 10876
	supermicroToo = 47488 // of some of its boards, as ipmitool and FreeIPMI know
	lenovo        = 19046
	lenovoSystemX = 20301 // IBM's, before Lenovo
)

const (
	typeMemory    SensorType = 0x0c
	typeDrive     SensorType = 0x0d
	typeInterrupt SensorType = 0x13

	// Offsets of memory events (table 42-3).
	uncorrectableECC, memoryParity = 1, 2

	// intelSMI is the software ID of the BIOS's SMI handler on Intel's boards.
	intelSMI = 0x33
)

// Part names which of a sensor's parts an event is about, as the board is labelled:
// "DIMM_A1", "Slot 3", "PCI 3b:00.0". What makers put into event data is not part of the
// standard; the sources are named with each. If several parts fit, it names them all:
// "one of DIMM_A1, DIMM_A2". Of a maker that is not known here it is "module 0x05" by table
// 42-3, or "data 0x80", which at least tells modules apart. It is empty if the event is
// about the sensor as such.
//
// bmc may be zero. A board that has a sensor for each module needs no such name: with a
// controller's own sensor only what is decoded counts.
func Part(bmc DeviceID, e Event) string {
	var names []string
	switch {
	case e.Path != "":
		return ""
	case e.Message != "":
		return OfLog
	case e.SensorType == typeMemory && bmc.Manufacturer == intel:
		names = intelModules(bmc.Product, e)
	case e.SensorType == typeMemory && bmc.Manufacturer == dell:
		names = dellModules(e)
	case e.SensorType == typeMemory && (bmc.Manufacturer == supermicro || bmc.Manufacturer == supermicroToo):
		names = supermicroModules(e)
	case e.SensorType == typeDrive && (bmc.Manufacturer == lenovo || bmc.Manufacturer == lenovoSystemX):
		return lenovoBay(e)
	case e.SensorType == typeInterrupt && bmc.Manufacturer == intel:
		return intelDevice(e)
	case e.SensorType == typeInterrupt && bmc.Manufacturer == dell:
		return dellDevice(e)
	}
	switch len(names) {
	case 0:
		return anyModule(e)
	case 1:
		return names[0]
	default:
		return "one of " + strings.Join(names, ", ")
	}
}

// anyModule tells the modules of a BIOS's memory events apart.
func anyModule(e Event) string {
	if e.SensorType != typeMemory || e.Owner&1 == 0 {
		return ""
	}
	return PartByData(e)
}

// PartByData tells the parts apart that share the sensor of an event, by a byte whose meaning
// is not known: "data 0x80", or "module 0x05" as table 42-3 has it. It is empty if there is none.
func PartByData(e Event) string {
	if e.EventType != SensorSpecific {
		return ""
	}
	switch holds, value := e.Data.third(); {
	case value == 0xff:
		return ""
	case holds == dataExtension:
		return fmt.Sprintf("module 0x%02x", value)
	case holds == dataOEM:
		return fmt.Sprintf("data 0x%02x", value)
	default:
		return ""
	}
}

// bothOEM reports whether the second and the third byte are of the maker's.
func (d EventData) bothOEM() bool {
	second, _ := d.second()
	third, _ := d.third()
	return second == dataOEM && third == dataOEM
}

// intelModules decodes memory errors by Intel's "System Event Log Troubleshooting Guide"
// for S5500 (G74211, tables 60 to 63) and for Xeon E5 boards (G90620, tables 63 to 66):
// the third byte has socket, channel and module. Boards of Xeon Scalable have it otherwise.
// The products are those of FreeIPMI's list.
func intelModules(product uint16, e Event) []string {
	const s5500WB, s2600JF, s2600KP, s2600WT = 62, 77, 111, 112
	var channels []string // their letters, by socket
	switch product {
	case s5500WB:
		channels = []string{"ABC", "DEF"}
	case s2600JF, s2600KP, s2600WT:
		channels = []string{"ABCD", "EFGH", "JKLM", "NPRT"}
	}
	_, second := e.Data.second()
	_, third := e.Data.third()
	socket, channel, module := int(third>>5), int(third>>3&3), int(third&7)
	if e.Owner != intelSMI || e.EventType != SensorSpecific || !e.Data.bothOEM() || socket >= len(channels) || channel >= len(channels[socket]) {
		return nil
	}
	const modulesOfChannel = 3
	letter := channels[socket][channel]
	switch {
	case e.Offset == memoryParity && second>>4&1 == 0: // not even the channel is valid
		return nil
	case e.Offset == memoryParity && second>>3&1 == 0:
		return []string{fmt.Sprintf("DIMM_%c1", letter), fmt.Sprintf("DIMM_%c2", letter), fmt.Sprintf("DIMM_%c3", letter)}
	case e.Offset > memoryParity || module >= modulesOfChannel:
		return nil
	default:
		return []string{fmt.Sprintf("DIMM_%c%d", letter, module+1)}
	}
}

// dellModules decodes memory errors as ipmitool (lib/ipmi_sel_delloem.c) and FreeIPMI
// (ipmi-sel-string-dell-poweredge.c) do, which say that they have it from Dell: the second
// byte says how the modules are counted, and in its low half which eight of them the bits of the
// third one are about.
func dellModules(e Event) []string {
	_, second := e.Data.second()
	_, third := e.Data.third()
	if !e.Data.bothOEM() || third == 0 || third == 0xff && second == 0xff {
		return nil
	}
	const threeByDataOne, noCard = 0xe, 0xf
	perNode := map[uint8]int{0x8: 4, 0x9: 6, 0xa: 8, 0xb: 9, 0xc: 12, 0xd: 24, threeByDataOne: 3}[second>>4]
	first := int(second&0xf) * 8
	if second&0xf == 0xf {
		return nil
	}
	var names []string
	for ; third != 0; third &= third - 1 {
		n := first + bits.TrailingZeros8(third)
		switch card := second >> 4; {
		case perNode != 0 && n/perNode < 26:
			names = append(names, fmt.Sprintf("DIMM_%c%d", 'A'+n/perNode, n%perNode+1))
		case perNode == 0 && card == noCard:
			names = append(names, fmt.Sprintf("DIMM %d", n+1))
		case perNode == 0: // one counts the cards from 0, the other from A
			names = append(names, fmt.Sprintf("DIMM %d of card %d (%c)", n+1, card, 'A'+card))
		}
	}
	return names
}

// supermicroModules decodes memory errors as ipmitool (lib/ipmi_sel_supermicrooem.c) and
// FreeIPMI (ipmi-sel-string-supermicro-common.c, by ipmiutil) do for boards since the X9:
// the second byte has channel and module, the third one the processor. Whether the letters
// of the second processor's channels begin anew depends on the board.
func supermicroModules(e Event) []string {
	_, second := e.Data.second()
	_, third := e.Data.third()
	channel, module, cpu := int(second>>4), int(second&0xf)-9, int(third&3)
	if e.EventType != SensorSpecific || e.Offset > uncorrectableECC || !e.Data.bothOEM() ||
		channel < 1 || channel > 8 || module < 1 || module > 3 || second == 0xff {
		return nil
	}
	var names []string
	for _, before := range []int{0, 3 * cpu, 4 * cpu} { // channels of the processors before
		name := fmt.Sprintf("P%d-DIMM%c%d", cpu+1, 'A'+before+channel-1, module)
		if len(names) == 0 || names[0] != name {
			names = append(names, name)
		}
	}
	return names
}

// lenovoBay decodes events of drives as pyghmi does (ipmi/oem/lenovo/handler.py), which is
// from Lenovo: the second byte has the bay. Nothing public was found on how events of Lenovo,
// HPE and Huawei tell modules.
func lenovoBay(e Event) string {
	const bay = 0x1f
	holds, value := e.Data.second()
	if e.EventType != SensorSpecific || holds != dataOEM || value == 0xff {
		return ""
	}
	return fmt.Sprintf("Bay %d", value&bay)
}

// intelDevice decodes PCI errors by the guides that intelModules names (tables 64 to 70).
func intelDevice(e Event) string {
	_, bus := e.Data.second()
	_, function := e.Data.third()
	if e.Owner != intelSMI || !e.Data.bothOEM() || bus == 0xff && function == 0xff {
		return ""
	}
	return pci(bus, function)
}

// dellDevice decodes PCI PERR, PCI SERR and fatal bus errors as the sources of dellModules do.
func dellDevice(e Event) string {
	const perr, serr = 4, 5
	_, function := e.Data.second()
	_, bus := e.Data.third()
	switch {
	case e.Offset != perr && e.Offset != serr && e.Offset != busFatal, !e.Data.bothOEM(), bus == 0xff && function == 0xff:
		return ""
	case bus&0x80 != 0:
		return fmt.Sprintf("Slot %d", bus&0x7f)
	default:
		return pci(bus, function)
	}
}

// pci names a device as lspci does, by its device and function number in one byte.
func pci(bus, function uint8) string {
	return fmt.Sprintf("PCI %02x:%02x.%d", bus, function>>3, function&7)
}
