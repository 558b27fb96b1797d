package hardware_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/nodemend/nodemend/checks/hardware"
	"github.com/nodemend/nodemend/ipmi"
	"github.com/nodemend/nodemend/ipmi/device"
	"github.com/nodemend/nodemend/ipmi/verdict"
	"github.com/nodemend/nodemend/test/bmc"
)

// liar is a transport that changes answers as the script says. It takes note of whether
// what it was asked about a witness was told truly.
type liar struct {
	device.Transport

	script []byte
	// truths are the answers that are true before the next lie, if they are counted.
	truths   int
	counting bool
	// answers are those that were given, to be given again.
	answers [][]byte
	// asks reports whether a request is about what has failed.
	asks func(command bmc.Command, data []byte) bool
	// asked and lied are whether it was asked that in this look, and has changed an answer to
	// it; liedForGood is the latter of a record, which is read once.
	asked, lied, liedForGood bool
	commands                 int
}

// mostCommands is more than any reading takes.
const mostCommands = 20_000

func (l *liar) SendRecv(ctx context.Context, netfn, cmd uint8, data []byte) ([]byte, error) {
	l.commands++
	if l.commands > mostCommands {
		return nil, os.ErrDeadlineExceeded
	}
	truth, err := l.Transport.SendRecv(ctx, netfn, cmd, data)
	if err != nil {
		return nil, err
	}
	told, answered := l.change(slices.Clone(truth))
	if command := (bmc.Command{NetFn: netfn, Number: cmd}); l.asks(command, data) {
		isLie := !answered || !slices.Equal(told, truth)
		l.asked, l.lied = true, l.lied || isLie
		l.liedForGood = l.liedForGood || isLie && command == bmc.GetSDR
	}
	if !answered {
		return nil, os.ErrDeadlineExceeded
	}
	l.answers = append(l.answers, told)
	return told, nil
}

// next takes a byte from the script; 0, which changes nothing, after its end.
func (l *liar) next() int {
	if len(l.script) == 0 {
		return 0
	}
	b := l.script[0]
	l.script = l.script[1:]
	return int(b)
}

// change returns what is told instead of an answer; false is none at all. Before each lie the
// script says how many answers are true.
func (l *liar) change(answer []byte) (told []byte, ok bool) {
	if !l.counting {
		l.truths, l.counting = l.next(), true
	}
	if l.truths > 0 || len(l.script) == 0 {
		l.truths--
		return answer, true
	}
	l.counting = false
	switch l.next() % 10 {
	case 0, 1: // another completion code
		return []byte{byte(l.next())}, true
	case 2: // cut
		return answer[:l.next()%len(answer)], true
	case 3, 4, 5: // a byte is another
		answer[l.next()%len(answer)] ^= byte(l.next())
		return answer, true
	case 6: // two are
		answer[l.next()%len(answer)] = byte(l.next())
		answer[l.next()%len(answer)] = byte(l.next())
		return answer, true
	case 7: // longer
		return append(answer, byte(l.next()), byte(l.next())), true
	case 8: // an earlier answer
		if len(l.answers) > 0 {
			return slices.Clone(l.answers[len(l.answers)-1-l.next()%len(l.answers)]), true
		}
		return answer, true
	case 9:
		return nil, false
	default:
		return answer, true
	}
}

// hurried is a clock whose pauses are short.
type hurried struct{ clock.RealClock }

func (hurried) NewTimer(time.Duration) clock.Timer { return clock.RealClock{}.NewTimer(0) }

// witnesses are ways in which a part has failed, told by a sensor or by the SEL alone, and the
// requests whose answers prove it: if
// all that were made are answered truly, no lie about something else makes it healthy.
func witnesses() []struct {
	name string
	fail func(*double)
	asks func(bmc.Command, []byte) bool
} {
	// ofSensor are the requests for a sensor and for its record: the first is the BMC's own, so
	// that of a sensor is at its place in newDouble, plus two.
	ofSensor := func(number uint8, record uint8) func(bmc.Command, []byte) bool {
		return func(command bmc.Command, data []byte) bool {
			switch command {
			case bmc.GetSensorReading, bmc.GetSensorThresholds, bmc.GetReadingFactors:
				return len(data) > 0 && data[0] == number
			case bmc.GetSDR:
				return data[2] == record && data[3] == 0
			default:
				return false
			}
		}
	}
	return []struct {
		name string
		fail func(*double)
		asks func(bmc.Command, []byte) bool
	}{
		{"a failed supply", func(d *double) {
			d.must(d.SetSensor(supply, func(s *bmc.Sensor) { s.States |= 1 << 1 }))
		}, ofSensor(supply, 5)},
		{"a fan that stands still", func(d *double) { d.threshold(fan, 0x04, 0, ipmi.LowerNonCritical|ipmi.LowerCritical, true) }, ofSensor(fan, 3)},
		{"a hot processor", func(d *double) { d.threshold(temp, 0x01, 98, ipmi.UpperNonCritical|ipmi.UpperCritical, true) }, ofSensor(temp, 2)},
		{"lost data", func(d *double) { d.loseData(true); d.loseData(false) }, func(command bmc.Command, _ []byte) bool {
			return command == bmc.GetSELEntry // any may tell of a repair
		}},
	}
}

// told reports whether the answer proves the failure: its last reading was made.
func told(l *liar, in verdict.Input, name string) bool {
	if !l.asked || l.lied || l.liedForGood {
		return false
	}
	if name == "lost data" {
		return slices.ContainsFunc(in.Log.Events, func(e ipmi.Event) bool { return e.SensorNumber == dimm && e.Offset == 1 && e.Asserted })
	}
	number := map[string]uint8{"a failed supply": supply, "a fan that stands still": fan, "a hot processor": temp}[name]
	return slices.ContainsFunc(in.Sensors, func(s ipmi.Sensor) bool {
		return s.Number == number && s.Available && s.States != 0 && s.Owner == ipmi.BMCAddress
	})
}

// FuzzALyingBMC has a BMC whose part has failed lie about something else: whatever it
// says, that ends, and the server is not healthy.
func FuzzALyingBMC(f *testing.F) {
	f.Add(uint8(0), []byte{})
	f.Add(uint8(0), []byte{60, 1, 0xc3, 2, 1, 0xff, 60, 9, 0, 9})
	f.Add(uint8(1), []byte{3, 4, 0xff, 0, 70, 9, 0, 9, 0, 9})
	f.Add(uint8(2), []byte{20, 3, 0, 1, 30, 2, 5, 8, 3})
	f.Add(uint8(3), []byte{40, 6, 1, 0xff, 2, 0xff, 50, 7, 1, 2, 9, 8, 4})
	f.Fuzz(func(t *testing.T, which uint8, script []byte) {
		all := witnesses()
		witness := all[int(which)%len(all)]
		d := newDouble(t)
		l := &liar{Transport: d.Transport(), script: script, asks: witness.asks}
		source := device.New("liar", l, hurried{})
		t.Cleanup(func() { _ = source.Close() })
		var state verdict.State
		look := func() (verdict.Verdict, verdict.Input) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			l.asked, l.lied, l.commands = false, false, 0
			in := hardware.Read(ctx, source, state, "boot", clocktesting.NewFakePassiveClock(start))
			if l.commands > mostCommands {
				t.Fatal("the reading does not end")
			}
			v, next := verdict.Judge(nil, state, in)
			state = next
			return v, in
		}
		witness.fail(d)
		for range 3 {
			v, in := look()
			if len(script) == 0 && v.Status != verdict.Failed {
				t.Fatalf("%s, and the verdict without lies is %s: %s", witness.name, v.Status, v.Message)
			}
			if told(l, in, witness.name) && v.Status == verdict.Healthy {
				t.Fatalf("%s, and the verdict is %s: %s", witness.name, v.Status, v.Message)
			}
		}
		// The truth is believed again, but for what a lie has released.
		l.script = nil
		for range 2 {
			look()
		}
		if v, in := look(); witness.name != "lost data" && told(l, in, witness.name) && v.Status != verdict.Failed {
			t.Fatalf("%s, as is told now, and the verdict is %s: %s", witness.name, v.Status, v.Message)
		}
	})
}
