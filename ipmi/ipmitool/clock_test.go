package ipmitool

import (
	"testing"
	"time"
)

func TestTimestampsAreThoseOfTheBMC(t *testing.T) {
	november := uint32(time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC).Unix())
	for _, test := range []struct {
		day, clock string
		want       uint32
	}{
		{"Pre-Init", "0000001783", 1783},
		{"Pre-Init", "0536870911", 0x1fffffff},
		{"11/21/26", "05:48:33 UTC", november},
		{"11/21/2026", "05:48:33", november}, // ipmitool 1.8.18
		{"01/06/87", "00:00:00 UTC", 536889600},
		{"02/07/06", "06:28:14 UTC", 1139293694},
		{"Unspecified", "Unspecified", noTime},
		{"S+ 70/002", "S+ 70/002", 0}, // of a verbose record: not used
	} {
		got, err := parseTimestamp(test.day, test.clock)
		if (err != nil) != (test.want == 0) || got != test.want {
			t.Errorf("%q %q: got %d, %v, want %d", test.day, test.clock, got, err, test.want)
		}
	}
}

func TestTimesOfTheSELItself(t *testing.T) {
	for _, test := range []struct {
		text string
		want uint32
	}{
		{"Not Available", 0},
		{"11/21/26 05:48:33 UTC", 1795240113},
		{"S+ 01:27:52", 5272},
		{"S+ 70/003 00:00:05", 2*86400 + 5},
		{"S+ 87/005 18:48:32", preInit},
	} {
		got, err := infoTime(test.text)
		if err != nil || got != test.want {
			t.Errorf("%q: got %d, %v, want %d", test.text, got, err, test.want)
		}
	}
}

func TestWhatIsNoTimeIsAnError(t *testing.T) {
	for _, test := range []struct{ day, clock string }{
		{"", ""},
		{"Pre-Init", ""},
		{"Pre-Init", "4294967296"},
		{"13/21/26", "05:48:33 UTC"},
		{"02/30/26", "05:48:33 UTC"},
		{"11/21/26", "25:00:00 UTC"},
		{"11/21/26", "05:48:33 CET"},
		{"11/21/9999", "05:48:33 UTC"},
		{"21.11.26", "05:48:33 UTC"},
		{"S+ 99/002", "05:48:33 UTC"},
	} {
		if got, err := parseTimestamp(test.day, test.clock); err == nil {
			t.Errorf("%q %q is %d", test.day, test.clock, got)
		}
	}
}

func TestOnlyAClockThatWasSetTellsTheTime(t *testing.T) {
	for _, stamp := range []uint32{0, 1783, preInit, noTime} {
		if got := selTime(stamp); !got.IsZero() {
			t.Errorf("%d is %s", stamp, got)
		}
	}
	if got, want := selTime(1795240113), time.Date(2026, 11, 21, 5, 48, 33, 0, time.UTC); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
