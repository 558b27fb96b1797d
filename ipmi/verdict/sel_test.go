package verdict_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

// harmless is an event without a rule.
func harmless() ipmi.Event { return event(0x1f, 0x40, 1) }

func TestAClearedLogIsToldFromOneThatHasWrapped(t *testing.T) {
	many := func(b *bmc, n int) {
		for range n {
			b.after(time.Second).log(harmless())
		}
	}
	for name, tc := range map[string]struct {
		then func(*bmc)
		want string
	}{
		"cleared":                               {func(b *bmc) { b.clear() }, healthy},
		"cleared, and new records":              {func(b *bmc) { b.clear(); many(b, 3) }, healthy},
		"cleared, and more records than before": {func(b *bmc) { b.clear(); many(b, 300) }, healthy},
		"cleared, with a record of that": {
			func(b *bmc) { b.clear(); b.erased = 1000; b.log(event(logging, 0x41, 2)); many(b, 300) }, healthy,
		},
		"cleared for the first time, and more records than before": {
			func(b *bmc) { b.clear(); many(b, 300) }, healthy,
		},
		"an older record deleted, after which the source begins anew": {
			func(b *bmc) { b.sel = append(b.sel[:50:50], b.sel[51:]...); b.erased++; b.anew = true }, lostData,
		},
		"the failure's own record deleted": {
			func(b *bmc) { b.sel = b.sel[1:]; b.erased++; b.anew = true }, lostData,
		},
		"cleared, and no erase time":               {func(b *bmc) { b.clear(); b.erased = 0; many(b, 3) }, lostData},
		"cleared, and the erase time stands still": {func(b *bmc) { b.clear(); b.erased = 1000; many(b, 3) }, lostData},
		"cleared, and failed again":                {func(b *bmc) { b.clear(); b.log(uncorrectable()) }, lostData},
		"wrapped":                                  {func(b *bmc) { many(b, 200); b.sel = b.sel[101:] }, lostData},
		"wrapped, and no erase time":               {func(b *bmc) { b.erased = 0; many(b, 200); b.sel = b.sel[101:] }, lostData},
		"wrapped, which sets the erase time and the overflow flag": {
			func(b *bmc) { many(b, 200); b.sel = b.sel[101:]; b.erased++; b.full = true },
			lostData + " | warning SEL log full",
		},
		"wrapped, and smaller since a block of it was dropped": {
			func(b *bmc) { many(b, 200); b.sel = b.sel[150:]; b.full = true },
			lostData + " | warning SEL log full",
		},
		"the last record deleted": {func(b *bmc) { b.sel = b.sel[:len(b.sel)-1]; b.erased++ }, lostData},
		"all but some deleted":    {func(b *bmc) { b.sel = b.sel[90:99]; b.erased++ }, lostData},
		"an unreadable log":       {func(b *bmc) { b.in.LogError = errBMC }, lostData},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			if strings.Contains(name, "for the first time") {
				b.erased = 0
			}
			b.log(uncorrectable())
			many(b, 99)
			b.expect(lostData)
			b.after(time.Minute)
			tc.then(b)
			b.expect(tc.want)
			b.after(time.Minute).expect(tc.want)
		})
	}
}

func TestARecordThatIsReadAgainIsNotANewOne(t *testing.T) {
	b := failed(t)
	b.log(harmless())
	b.expect(lostData)
	b.acknowledge(verdict.All)
	b.sel, b.erased = b.sel[:len(b.sel)-1], b.erased+1 // the record of the cursor: all others are read again
	b.expect("healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)")

	b = failed(t)
	unplugged(time.Hour)(b)
	b.log(harmless(), harmless())
	b.expect(healthy)
	b.sel, b.erased = b.sel[:len(b.sel)-1], b.erased+1
	b.expect(healthy)
}

func TestALogWithoutAnyTimesIsRead(t *testing.T) {
	b := newBMC(t)
	e := uncorrectable()
	e.Timestamp = 0xffffffff
	b.expect(healthy)
	b.log(e, e)
	b.expect(lostData)
	b.acknowledge(verdict.All)
	b.expect("healthy | HardwareHealthy | (DIMM_A1 uncorrectable ECC)")
	b.log(e)
	b.expect(lostData)
	b.acknowledge(verdict.All)
	b.clear()
	b.log(e) // looks like the first one
	b.expect(lostData)
	b.clear()
	b.expect(healthy)
}

func TestThousandsOfRecordsAreJudgedAtOnce(t *testing.T) {
	b := newBMC(t)
	for i := range 20000 {
		b.log(event(drive, uint8(i/7), uint8(i%3)), acLost())
		b.after(time.Hour).log(bootByPower())
	}
	b.log(uncorrectable())
	b.expect(lostData)
	if size := len(b.saved); size > 10_000 {
		t.Errorf("the state has %d bytes", size)
	}
}

func TestAFullLogIsAWarningUntilItIsCleared(t *testing.T) {
	b := newBMC(t)
	b.log(harmless())
	b.full = true
	b.expect("healthy | HardwareHealthy | warning SEL log full")
	b.clear()
	b.expect(healthy)
}
