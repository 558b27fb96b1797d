package verdict_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/verdict"
)

func TestTheMessageIsForPeopleInTheDatacentre(t *testing.T) {
	for name, tc := range map[string]struct {
		arrange func(*bmc)
		want    string
	}{
		"healthy": {func(b *bmc) { b.log(harmless()) }, "no hardware failure: 7 of 7 sensors available, 1 SEL records"},
		"two failures, the gravest first": {
			func(b *bmc) {
				b.sensor("PSU1 Status").States = 1 | 1<<1
				b.log(harmless(), uncorrectable())
			},
			"DIMM_A1: uncorrectable ECC (SEL 0x02, 2026-11-21T05:48Z); PSU1: failure detected",
		},
		"no clock": {
			func(b *bmc) {
				e := uncorrectable()
				e.Timestamp = 1396
				b.judge() // else it is from before the first look
				b.log(e)
			},
			"DIMM_A1: uncorrectable ECC (SEL 0x01)",
		},
		"another time zone": {
			func(b *bmc) { b.in.Now = start.In(time.FixedZone("", 7200)); b.log(uncorrectable()) },
			"DIMM_A1: uncorrectable ECC (SEL 0x01, 2026-11-21T05:48Z)",
		},
		"a reading": {
			func(b *bmc) {
				s := b.sensor("CPU0 Temp")
				*s.Reading, s.States = 98.456, ipmi.UpperNonCritical|ipmi.UpperCritical
			},
			"CPU0 Temp: 98.46 degrees C, at or above upper critical",
		},
		"a failure and what could not be read": {
			func(b *bmc) { b.log(uncorrectable()); b.judge(); b.in.LogError = errBMC },
			"DIMM_A1: uncorrectable ECC (SEL 0x01, 2026-11-21T05:48Z); the SEL can't be read: no answer from the BMC",
		},
		"a failure that is not seen any more": {
			func(b *bmc) {
				b.sensor("PSU1 Status").States = 1 | 1<<1
				b.judge()
				b.in.SensorsError, b.in.LogError, b.in.ChassisError = errBMC, errBMC, errBMC
			},
			"the BMC can't be read: no answer from the BMC; known before: PSU1: failure detected",
		},
		"the last to be named is what is acknowledged": {
			func(b *bmc) {
				b.sensor("PSU1 Status").States = 1 | 1<<1
				b.judge()
				b.acknowledge(verdict.All)
				b.sensor("PSU2 Status").States = 1 | 1<<2
				b.log(uncorrectable())
			},
			"DIMM_A1: uncorrectable ECC (SEL 0x01, 2026-11-21T05:48Z); warning: PSU2: predictive failure; acknowledged by alice: PSU1: failure detected",
		},
		"a name that nobody can read": {
			func(b *bmc) { b.log(named("DIMM\x00_Ä\xff\n1\t", event(drive, 0x55, 1))) },
			"DIMM_?? 1: drive fault (SEL 0x01, 2026-11-21T05:48Z)",
		},
		"an error of many lines": {
			func(b *bmc) { b.in.LogError = errors.New("a\nb " + strings.Repeat("x", 1000)) },
			"the SEL can't be read: a b " + strings.Repeat("x", 193) + "...",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			tc.arrange(b)
			if got := b.judge().Message; got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestWhatDoesNotFitIntoTheMessageIsCounted(t *testing.T) {
	for n := 1; n <= 200; n++ {
		b := newBMC(t)
		for i := range n {
			b.log(named(fmt.Sprintf("DIMM_%03d", i), event(memory, uint8(i), 1)))
		}
		items := strings.Split(b.judge().Message, "; ")
		if size := len(strings.Join(items, "; ")); size > verdict.MaxMessage {
			t.Errorf("%d failures: %d bytes", n, size)
		}
		named := len(items)
		if last := items[len(items)-1]; strings.HasPrefix(last, "and ") {
			more := 0
			if _, err := fmt.Sscanf(last, "and %d more", &more); err != nil {
				t.Errorf("%d failures: got %q", n, last)
			}
			items = items[:len(items)-1]
			named += more - 1
		}
		for _, item := range items {
			if !strings.HasSuffix(item, "2026-11-21T05:48Z)") {
				t.Errorf("%d failures: cut: %q", n, item)
			}
		}
		if named != n {
			t.Errorf("%d failures: %d named or counted", n, named)
		}
	}
}

func TestTheReasonIsOneWord(t *testing.T) {
	for name, tc := range map[string]struct {
		events []ipmi.Event
		want   string
	}{
		"one":                   {[]ipmi.Event{uncorrectable()}, "MemoryFailure"},
		"two of one kind":       {[]ipmi.Event{uncorrectable(), event(memory, 0x30, 2)}, "MemoryFailure"},
		"two kinds":             {[]ipmi.Event{uncorrectable(), event(interrupt, 0, 8)}, "MultipleFailures"},
		"a warning is no kind":  {[]ipmi.Event{uncorrectable(), event(interrupt, 0, 3)}, "MemoryFailure"},
		"a warning alone":       {[]ipmi.Event{event(interrupt, 0, 3)}, "HardwareHealthy"},
		"a kind without a name": {[]ipmi.Event{of(0x07, event(0x12, 0, 6))}, "HardwareFailure"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.log(tc.events...)
			if got := b.judge().Reason; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestTheWordsOfTheHardwareFactsLeadToTheirFailures(t *testing.T) {
	for name, tc := range map[string]struct {
		event ipmi.Event
		want  string
	}{
		"IERR":                   {event(processor, 6, 0), "CPU0: IERR"},
		"machine check":          {event(processor, 0x66, 11), "Processor #0x66: uncorrectable machine check exception"},
		"CATERR":                 {of(digital, named("CPU_CATERR", event(processor, 0x67, 1))), "CPU_CATERR: state asserted"},
		"bus, without a number":  {event(interrupt, 0, 8), "Critical Interrupt: bus uncorrectable error"},
		"fatal bus":              {event(interrupt, 0, 10), "Critical Interrupt: bus fatal error"},
		"a drive, by its status": {named("Disk7 Status", event(drive, 0x57, 1)), "Disk7: drive fault"},
		"a voltage":              {of(ipmi.Threshold, named("P12V", event(voltage, 0x58, 2))), "P12V: at or below lower critical"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.after(time.Minute).log(tc.event)
			v := b.judge()
			if want := tc.want + " (SEL 0x01, 2026-11-21T05:49Z)"; v.Status != verdict.Failed || v.Message != want {
				t.Errorf("got %s %s", v.Status, v.Message)
			}
		})
	}
}
