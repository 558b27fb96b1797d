package proof

import (
	"errors"
	"testing"
	"time"

	"github.com/nodemend/nodemend/internal/power"
)

// Each row is read every five seconds, but for what happens at the minute, or instead of one of them.
func TestAMachineThatStaysOffIsProvedToBeOffWhenItWasReadSoForLongEnough(t *testing.T) {
	off := power.Reading{GUID: power.GUID(machine), Power: power.Off}
	for name, test := range map[string]struct {
		at     func(power.Reading) (power.Reading, error) // a minute after the first
		pause  time.Duration
		proved time.Duration
	}{
		"it stays off":             {func(r power.Reading) (power.Reading, error) { return r, nil }, 0, 120 * time.Second},
		"it is on in between":      {func(r power.Reading) (power.Reading, error) { r.Power = power.On; return r, nil }, 0, 185 * time.Second},
		"it does not answer":       {func(power.Reading) (power.Reading, error) { return power.Reading{}, errors.New("no answer") }, 0, 185 * time.Second},
		"it is another machine":    {func(r power.Reading) (power.Reading, error) { r.GUID[5]++; return r, nil }, 0, 185 * time.Second},
		"another program read it":  {func(r power.Reading) (power.Reading, error) { r.Reported = true; return r, nil }, 0, 185 * time.Second},
		"nobody read it for long":  {func(r power.Reading) (power.Reading, error) { return r, nil }, 16 * time.Second, 196 * time.Second},
		"nobody read it for short": {func(r power.Reading) (power.Reading, error) { return r, nil }, 8 * time.Second, 123 * time.Second},
	} {
		plan := (*world)(nil).plan()
		var s Stays
		now, proved := start, time.Duration(0)
		for proved == 0 && now.Sub(start) < time.Hour {
			r, err := off, error(nil)
			if passed := now.Sub(start); passed == time.Minute {
				now = now.Add(test.pause)
				r, err = test.at(r)
			}
			if p, is := s.Read(plan, now, now, r, err); is {
				proved = now.Sub(start)
				if !p.Proves(plan.Node, plan.BootID) || p.Record().Apart < plan.Settled {
					t.Errorf("%s: it proves %+v", name, p.Record())
				}
			}
			now = now.Add(5 * time.Second)
		}
		if proved != test.proved {
			t.Errorf("%s: proved after %s, want %s", name, proved, test.proved)
		}
	}
}
