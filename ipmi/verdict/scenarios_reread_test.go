package verdict_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// Where a record is deleted, or the BMC has lost the time of the last deletion, a source
// reads the whole SEL once more. There may not be the time for that in one look.
func TestALogThatIsReadOnceMoreTellsOnlyWhatIsNew(t *testing.T) {
	const (
		unsure  = "cannotTell | EventLogUnreadable"
		failing = unsure + " | DIMM_A1 uncorrectable ECC?"
		acked   = "healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)"
		history = "healthy | HardwareHealthy | [DIMM_A1 uncorrectable ECC]"
	)
	many := func(b *bmc) {
		for range 60 {
			b.after(time.Hour).log(event(systemBoot, 0, 1))
		}
	}
	partly := func(n int) func(*bmc) { return func(b *bmc) { b.readsAtMost = n } }
	deletes := func(at int) func(*bmc) {
		return func(b *bmc) {
			b.after(time.Hour)
			b.sel = append(b.sel[:at:at], b.sel[at+1:]...)
			b.erased += 5
		}
	}
	long := together(logs(uncorrectable()), many)
	wraps := func(b *bmc) { many(b); many(b); b.sel = b.sel[61:] }
	parts := func(first moment, whole string) []moment {
		return []moment{first, {partly(40), first.want}, {partly(0), whole}}
	}
	playAfter(t, []scenario{
		{"the failure's own record is deleted", "the module is as broken as before", slices.Concat(
			[]moment{{long, lostData}},
			parts(moment{together(deletes(0), partly(20)), failing}, lostData),
		)},
		{"another record is deleted", "the module is as broken as before", slices.Concat(
			[]moment{{long, lostData}},
			parts(moment{together(deletes(30), partly(20)), failing}, lostData),
		)},
		{"two are deleted, the second one while the SEL is read", "the module is as broken as before", []moment{
			{long, lostData},
			{together(deletes(0), partly(20)), failing}, {deletes(3), failing}, {partly(40), failing}, {partly(0), lostData},
		}},
		{"two are deleted, and then there is time", "the module is as broken as before", []moment{
			{long, lostData},
			{together(deletes(0), partly(20)), failing}, {together(deletes(3), partly(0)), lostData},
		}},
		{"a record is deleted after an acknowledgement", "a person has decided", slices.Concat(
			[]moment{{long, lostData}, {acknowledges, acked}},
			parts(moment{together(deletes(30), partly(20)), unsure + " | (DIMM_A1 uncorrectable ECC)"}, acked),
		)},
		{"acknowledged while the SEL is read", "a person has decided", slices.Concat(
			[]moment{{long, lostData}},
			parts(moment{together(deletes(30), partly(20)), failing}, lostData)[:2],
			[]moment{
				{func(b *bmc) { b.acknowledge(61) }, unsure + " | (DIMM_A1 uncorrectable ECC)"},
				{partly(0), acked},
			},
		)},
		{"a record of before the first look is deleted", "it has worked since", slices.Concat(
			[]moment{{func(b *bmc) { old(b, long); b.forget() }, history}},
			parts(moment{together(deletes(30), partly(20)), unsure + " | [DIMM_A1 uncorrectable ECC]"}, history),
		)},
		{"the erase time is lost, as by a reset of the BMC", "it has worked since", slices.Concat(
			[]moment{{func(b *bmc) { old(b, long); b.forget() }, history}},
			parts(moment{together(func(b *bmc) { b.erased = 0 }, partly(20)), unsure + " | [DIMM_A1 uncorrectable ECC]"}, history),
		)},
		{"a record is deleted, and something else has failed", "it is new", slices.Concat(
			[]moment{{func(b *bmc) { old(b, long); b.forget() }, history}},
			parts(moment{together(deletes(30), logs(supplyFailed(), named("DIMM_B1", event(memory, 0x14, 1))), partly(20)), unsure + " | [DIMM_A1 uncorrectable ECC]"},
				"failed | MemoryFailure | DIMM_B1 uncorrectable ECC | [DIMM_A1 uncorrectable ECC]"),
		)},
		{"cleared, and long again", "it was cleared; what came since is read once that is known", []moment{
			{long, lostData},
			{together(clears, many, logs(named("DIMM_B1", event(memory, 0x14, 1))), partly(20)), failing},
			{partly(40), failing},
			{func(b *bmc) { partly(0)(b); b.once(unsure) }, "failed | MemoryFailure | DIMM_B1 uncorrectable ECC"},
		}},
		{"cleared, as only a record tells, and long again", "it was cleared", []moment{
			{long, lostData},
			{together(clears, func(b *bmc) { b.erased = 1000 }, logs(event(logging, 0x41, 2)), many, partly(20)), failing},
			{func(b *bmc) { partly(0)(b); b.once(unsure) }, healthy},
		}},
		{"it has wrapped", "a wrap releases nothing", []moment{
			{long, lostData},
			{together(wraps, partly(20)), failing},
			{func(b *bmc) { partly(0)(b); b.once(unsure + " | DIMM_A1 uncorrectable ECC?") }, lostData},
		}},
	}, func(b *bmc, _ *scenario) {
		b.anew = true
		b.expect(healthy)
	})
}

// The deletion of a record releases nothing, although no record has a time.
func TestADeletionIsToldFromAClearByRecordsWithoutATime(t *testing.T) {
	timeless := func(e ipmi.Event) ipmi.Event { e.Timestamp = 0xffffffff; return e }
	boot := timeless(event(systemBoot, 0, 1))
	fails := logs(slices.Concat([]ipmi.Event{timeless(uncorrectable())}, slices.Repeat([]ipmi.Event{boot}, 30))...)
	deletes := func(at int) func(*bmc) {
		return func(b *bmc) {
			if at < 0 {
				at += len(b.sel)
			}
			b.sel = append(b.sel[:at:at], b.sel[at+1:]...)
			b.erased += 5
		}
	}
	const acked = "healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)"
	playAfter(t, []scenario{
		{"its record is deleted", "the module is as broken as before", []moment{{fails, lostData}, {deletes(0), lostData}}},
		{"the newest one is deleted", "the module is as broken as before", []moment{{fails, lostData}, {deletes(-1), lostData}}},
		{"one newest after the other is deleted", "the module is as broken as before", []moment{
			{fails, lostData}, {deletes(-1), lostData}, {deletes(-1), lostData}, {deletes(-1), lostData},
		}},
		{"one is deleted after an acknowledgement", "a person has decided", []moment{
			{fails, lostData}, {acknowledges, acked}, {deletes(5), acked}, {logs(timeless(uncorrectable())), lostData},
		}},
		{"one is deleted of a series of years ago", "nobody knows when they came", []moment{
			{func(b *bmc) {
				logs(slices.Repeat([]ipmi.Event{timeless(correctable())}, 30)...)(b)
				b.forget()
			}, "healthy | HardwareHealthy | [DIMM_A1 correctable ECC, 10 times within 24h]"},
			{deletes(5), "healthy | HardwareHealthy | [DIMM_A1 correctable ECC, 10 times within 24h]"},
			{deletes(-1), "healthy | HardwareHealthy | [DIMM_A1 correctable ECC, 10 times within 24h]"},
		}},
		{"it is cleared", "it was exchanged", []moment{{fails, lostData}, {clears, healthy}}},
		{"it is cleared, and begins with the same records", "it was exchanged", []moment{
			{logs(boot, boot, timeless(uncorrectable())), lostData},
			{together(clears, logs(boot)), healthy},
		}},
		{"a SEL of two records is cleared, and begins with the same one", "it was exchanged", []moment{
			{logs(boot, timeless(uncorrectable())), lostData},
			{together(clears, logs(boot)), healthy},
		}},
		{"the same failure again after a clear", "it is another one", []moment{
			{logs(timeless(uncorrectable())), lostData},
			{acknowledges, acked},
			{together(clears, logs(timeless(uncorrectable()))), lostData},
		}},
	}, func(b *bmc, _ *scenario) {
		b.anew = true
		b.expect(healthy)
	})
}
