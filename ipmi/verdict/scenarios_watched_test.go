package verdict_test

import (
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
)

// A time during which nobody has looked, or that only the clock of the node tells of, proves
// nothing.
func TestOnlyTimeCountsDuringWhichTheServerWasWatched(t *testing.T) {
	const (
		missing = "cannotTell | ComponentMissing"
		pulled  = "failed | PowerSupplyFailure | PSU2 absent"
		hot     = "failed | TemperatureFailure | CPU0 Temp at or above upper critical"
		unsure  = "cannotTell | FailureUnconfirmed | CPU0 Temp at or above upper critical?"
		often   = "failed | FanFailure | FAN1 at or below lower critical, 10 times within 24h"
		year    = 365 * 24 * time.Hour
		minute  = time.Minute
	)
	tooHot := of(ipmi.Threshold, named("CPU0 Temp", event(temperature, 1, 9)))
	blank, back := shows("PSU2 Status", 0), shows("PSU2 Status", 1)
	reboots := boots(ipmi.RestartAlwaysRestore)
	stops := func(b *bmc) {
		for range 12 {
			b.after(minute).log(of(ipmi.Threshold, named("FAN1", event(fan, 2, 2))))
		}
	}
	// sets sets the clock, of which only the detector knows that a minute has passed.
	sets := func(d time.Duration) func(*bmc) {
		return func(b *bmc) {
			b.after(d).in.Watched = minute
			b.judge()
			b.in.Watched = 0
		}
	}
	play(t, []scenario{
		{"blank before a reboot and after it", "the BMC has not looked at it yet", []moment{
			{blank, missing}, {together(passes(minute), back, reboots, blank), missing},
			{passes(minute), missing}, {passes(2 * minute), pulled},
		}},
		{"blank for a minute after a boot, while the clock is set", "it was years back for a minute", []moment{
			{together(passes(-26*year), reboots, blank), missing},
			{passes(26*year + minute), missing}, {passes(minute), missing}, {passes(2 * minute), pulled},
		}},
		{"blank, and the clock is set by four minutes", "it was blank for a minute", []moment{
			{blank, missing}, {sets(4 * minute), missing}, {sets(-4 * minute), missing}, {passes(minute), pulled},
		}},
		{"blank before nobody looked for an hour, and after", "it may have been reset twice", []moment{
			{blank, missing}, {passes(time.Hour), missing}, {passes(3 * minute), pulled},
		}},
		{"a sensor that reads nothing, before a reboot and after it", "it may read again", []moment{
			{together(silences("CPU0 Temp"), logs(tooHot)), unsure},
			{together(passes(6*minute), reboots), unsure}, {passes(9 * minute), unsure}, {passes(minute), hot},
		}},
		{"a sensor that never reads, after a reboot", "that is known", []moment{
			{together(silences("CPU0 Temp"), logs(tooHot)), unsure},
			{passes(10 * minute), hot}, {reboots, hot}, {passes(24 * time.Hour), hot}, {passes(-26 * year), hot},
		}},
		{"a SEL that has shrunk, and a reboot", "the BMC may have restarted, too", []moment{
			{logs(harmless(), harmless()), healthy},
			{func(b *bmc) { b.sel = nil }, "cannotTell | EventLogDoubtful"},
			{together(passes(9*minute), reboots), "cannotTell | EventLogDoubtful"},
			{passes(10 * minute), healthy},
		}},
		{"a worn fan, and a clock of forty years ahead", "it has to turn well for a day", []moment{
			{together(stops, passes(40*year)), often},
			{passes(-40*year + 30*24*time.Hour), often},
			{watches(25 * time.Hour), healthy},
		}},
		{"a worn fan, and the clock is set ahead", "it has to turn well for a day", []moment{
			{stops, often}, {sets(year), often}, {sets(-year), often}, {reboots, often},
			{together(passes(year), reboots), often},
			{watches(25 * time.Hour), healthy},
		}},
	})
}

// The clock of the node may be wrong at the first look.
func TestAClockThatIsBehindAtTheFirstLookMakesNoHistoryForEver(t *testing.T) {
	const (
		history = "healthy | HardwareHealthy | [DIMM_A1 uncorrectable ECC]"
		tooMany = "failed | MemoryFailure | DIMM_A1 correctable ECC, 10 times within 24h"
		month   = 30 * 24 * time.Hour
	)
	series := func(b *bmc) {
		for range 12 {
			b.after(time.Minute).log(correctable())
		}
	}
	single := func(b *bmc) { b.log(correctable()) }
	for name, tc := range map[string]struct {
		before        time.Duration
		does          func(*bmc)
		first, second string
	}{
		"data lost an hour ago":                      {time.Hour, logs(uncorrectable()), history, lostData},
		"data lost three years ago":                  {3 * 365 * 24 * time.Hour, logs(uncorrectable()), history, history},
		"data lost two days ago":                     {48 * time.Hour, logs(uncorrectable()), history, history},
		"a series an hour ago":                       {time.Hour, series, "healthy | HardwareHealthy | [DIMM_A1 correctable ECC, 10 times within 24h]", tooMany},
		"a series two days ago, and one an hour ago": {48 * time.Hour, func(b *bmc) { series(b); b.in.Now = start.Add(-time.Hour); single(b) }, "healthy | HardwareHealthy | [DIMM_A1 correctable ECC, 10 times within 24h]", healthy},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			tc.does(b.after(-tc.before))
			b.in.Now = start.Add(-month)
			b.expect(tc.first)
			b.in.Now = start
			b.expect(tc.second)
			b.after(24 * time.Hour).expect(tc.second)
			b.after(-month).expect(tc.second)
			b.after(month).expect(tc.second)
		})
	}
}

func TestNobodyLooksForAMonthAfterTheFirstLook(t *testing.T) {
	b := newBMC(t)
	b.after(-48 * time.Hour).log(uncorrectable())
	b.in.Now = start
	for _, passes := range []time.Duration{0, 30 * 24 * time.Hour, -30 * 24 * time.Hour, time.Hour} {
		b.after(passes).expect("healthy | HardwareHealthy | [DIMM_A1 uncorrectable ECC]")
	}
}

// A state that a version has written that did not know when the server was looked at last.
func TestAStateOfAnEarlierVersionIsUnderstood(t *testing.T) {
	const (
		unwatched = `{"version":1,"cursor":{"id":12,"timestamp":1795240573,"erased":1000,"read":true},"total":12,"logBoot":"boot 1",` +
			`"tail":[{"id":11,"timestamp":1795240513,"type":12,"number":4,"offset":1,"asserted":true},{"id":12,"timestamp":1795240573,"type":31,"number":64,"offset":1,"asserted":true}],` +
			`"began":"2026-11-21T05:48:33Z","points":[` +
			`{"type":12,"number":4,"eventType":111,"state":1,"name":"DIMM_A1","asserted":false,"latched":true,"since":"2026-11-21T05:55:13Z","boot":"boot 1","record":{"id":11,"timestamp":1795240513,"time":"2026-11-21T05:55:13Z"},"live":true}],` +
			`"parts":[{"type":8,"number":3,"eventType":111,"name":"PSU1 Status","entity":{"id":10,"instance":1}},{"type":8,"number":7,"eventType":111,"name":"PSU2 Status","entity":{"id":10,"instance":2},"missing":"2026-11-21T05:48:33Z"}]}`
		absent = "failed | MultipleFailures | DIMM_A1 uncorrectable ECC | PSU2 absent"
	)
	b := newBMC(t)
	b.anew = true
	b.saved = []byte(unwatched)
	b.after(time.Hour)
	for id := range uint16(12) { // of which the first one is deleted
		if e := harmless(); id > 0 {
			e.ID, e.Timestamp = id+1, uint32(1795239913+60*int(id))
			e.Time = time.Unix(int64(e.Timestamp), 0)
			b.sel = append(b.sel, e)
		}
	}
	b.sel[len(b.sel)-1].RecordType = 2
	b.erased += 5
	b.sensor("PSU2 Status").States = 0
	b.once(lostData)
	b.watch(2 * time.Minute).expect(lostData)
	b.watch(time.Minute).expect(absent)
}
