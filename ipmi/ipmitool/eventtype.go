package ipmitool

import (
	"slices"

	"github.com/nodemend/nodemend/ipmi"
)

// eventType returns the event/reading type that has all the words for states and events
// of a discrete sensor, or 0.
func (b sensorBlock) eventType(t ipmi.SensorType) ipmi.EventType {
	return findEventType(t, slices.Concat(
		b.lists["States Asserted"],
		b.lists["Assertion Events"], b.lists["Deassertion Events"],
		b.lists["Assertions Enabled"], b.lists["Deassertions Enabled"],
	))
}

// findEventType returns the first discrete type that has all the words, that of the
// sensor's own type before the generic ones; 0 if none has, or without a word.
func findEventType(t ipmi.SensorType, words []string) ipmi.EventType {
	if len(words) == 0 {
		return 0
	}
	has := func(e ipmi.EventType) bool {
		for _, word := range words {
			if _, ok := ipmi.FindState(t, e, word); !ok {
				return false
			}
		}
		return true
	}
	if has(ipmi.SensorSpecific) {
		return ipmi.SensorSpecific
	}
	return findGenericType(has)
}

// findGenericType returns the first generic type that has what is looked for, or 0.
func findGenericType(has func(ipmi.EventType) bool) ipmi.EventType {
	const first, last = 0x02, 0x0c // IPMI 2.0, table 42-2
	for e := ipmi.EventType(first); e <= last; e++ {
		if has(e) {
			return e
		}
	}
	return 0
}
