package ipmi

import "slices"

// translation is a maker's way to tell what the standard has words for.
type translation struct {
	manufacturer uint32
	owner        uint8 // 0: anybody
	sensorType   SensorType
	eventType    EventType
	offset       int // -1: any

	means       SensorType
	meansOffset uint8
}

// Offsets of Critical Interrupt (table 42-3).
const (
	busCorrectable   = 7
	busUncorrectable = 8
	busFatal         = 10
)

// translations are those that public sources tell:
//
//   - Intel's guides G74211 and G90620 (see Part) have PCIe and QPI errors of the BIOS's SMI
//     handler in OEM event types, FreeIPMI (ipmi-event-reading-type-code-oem-intel-*-spec.h)
//     some more. 0x73 is non-fatal on S5500 and fatal later; data were lost with both.
//   - Dell's sensor type 0xc3 is "Fatal IO Error" (FreeIPMI, ipmi-sensor-types-oem-dell-spec.h).
var translations = []translation{
	{intel, intelSMI, typeInterrupt, 0x70, -1, typeInterrupt, busFatal},         // PCIe fatal
	{intel, intelSMI, typeInterrupt, 0x71, -1, typeInterrupt, busCorrectable},   // PCIe correctable
	{intel, intelSMI, typeInterrupt, 0x72, -1, typeInterrupt, busCorrectable},   // QPI correctable
	{intel, intelSMI, typeInterrupt, 0x73, -1, typeInterrupt, busUncorrectable}, // QPI
	{intel, intelSMI, typeInterrupt, 0x74, -1, typeInterrupt, busFatal},         // QPI fatal
	{intel, intelSMI, typeInterrupt, 0x76, -1, typeInterrupt, busFatal},         // PCIe fatal, further offsets
	{dell, 0, 0xc3, SensorSpecific, 1, typeInterrupt, busFatal},
}

// Standard returns what the standard has for an event that a maker tells in a way of its own,
// and e itself if that is not known. Owner, number and data stay.
func Standard(bmc DeviceID, e Event) Event {
	i := slices.IndexFunc(translations, func(t translation) bool {
		return t.manufacturer == bmc.Manufacturer && (t.owner == 0 || t.owner == e.Owner) &&
			t.sensorType == e.SensorType && t.eventType == e.EventType &&
			(t.offset < 0 || t.offset == int(e.Offset))
	})
	if i >= 0 {
		e.SensorType, e.EventType, e.Offset = translations[i].means, SensorSpecific, translations[i].meansOffset
	}
	return e
}
