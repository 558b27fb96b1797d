package verdict_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// A SEL that is not what it was, without having been cleared, is doubted and releases
// nothing.
func TestALogThatShrinksWithoutAClearIsDoubted(t *testing.T) {
	const doubtful = "cannotTell | EventLogDoubtful"
	many := logs(slices.Repeat([]ipmi.Event{harmless()}, 40)...)
	lost := moment{together(logs(uncorrectable()), many), lostData}
	var whole []ipmi.Event
	keep := func(does func(*bmc)) func(*bmc) {
		return func(b *bmc) { whole = slices.Clone(b.sel); does(b) }
	}
	empty := keep(func(b *bmc) { b.sel = nil })
	cut := keep(func(b *bmc) { b.sel = b.sel[:5] })
	back := func(b *bmc) { b.sel, b.erased = whole, 1000 }

	play(t, []scenario{
		{"empty for one poll", "nobody has cleared it", []moment{
			lost, {empty, lostData}, {back, lostData},
		}},
		{"empty for one poll of a healthy server", "what it may hold is not known", []moment{
			{many, healthy}, {empty, doubtful}, {back, healthy},
		}},
		{"empty and full for one poll", "that can't be", []moment{
			{many, healthy}, {together(empty, func(b *bmc) { b.full = true }), doubtful}, {together(back, func(b *bmc) { b.full = false }), healthy},
		}},
		{"cut for one poll", "its newest records are missing", []moment{
			lost, {cut, lostData}, {back, lostData},
		}},
		{"cut for one poll of a healthy server", "what it may hold is not known", []moment{
			{many, healthy}, {cut, doubtful}, {back, healthy},
		}},
		{"cut, with the record of an old clear", "that clear is known", []moment{
			{together(logs(event(logging, 0x41, 2), uncorrectable()), many), lostData},
			{cut, lostData},
			{back, lostData},
		}},
		{"an error while it is cut", "it counts once it can be read", []moment{
			{many, healthy},
			{cut, doubtful},
			{together(back, logs(uncorrectable())), lostData},
		}},
		{"empty for good, and no clear is told", "some BMCs tell none: the list is taken as it is, and releases nothing", []moment{
			{many, healthy},
			{empty, doubtful},
			{passes(9 * time.Minute), doubtful},
			{passes(time.Minute), healthy},
			{logs(uncorrectable()), lostData},
		}},
		{"failed, empty for good, and no clear is told", "a person has to acknowledge it", []moment{
			lost, {empty, lostData}, {watches(time.Hour), lostData},
			{acknowledges, "healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)"},
		}},
		{"empty, and the clock is set back", "the doubt must end", []moment{
			{many, healthy}, {empty, doubtful},
			{passes(-24 * time.Hour), doubtful},
			{passes(10 * time.Minute), healthy},
		}},
		{"cleared", "the erase time tells", []moment{lost, {clears, healthy}}},
		{"cleared, as it seemed, and back", "the records are read again", []moment{
			lost,
			{keep(clears), healthy},
			{back, lostData},
		}},
		{"an old record deleted", "a deletion releases nothing", []moment{
			lost, {func(b *bmc) { b.sel = append(b.sel[:3:3], b.sel[4:]...); b.erased++ }, lostData},
		}},
		{"the newest records deleted", "the erase time tells, and a deletion releases nothing", []moment{
			lost, {func(b *bmc) { b.sel = b.sel[:30]; b.erased++ }, lostData},
		}},
	})
}
