package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/internal/power"
)

var start = time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)

// silent is what is known of a node that is to be power cycled.
var silent = Facts{Confirmed: true, BootID: "1", Restore: true}

// play tells a cycle what happens, and keeps the time.
type play struct {
	t *testing.T
	*Cycle
	now time.Time
}

func newPlay(t *testing.T, kept Progress) *play {
	t.Helper()
	c, err := New((*world)(nil).plan(), kept, start)
	if err != nil {
		t.Fatal(err)
	}
	return &play{t, c, start}
}

// expect wants a step next.
func (p *play) expect(want Action, f Facts) {
	p.t.Helper()
	if got := p.Next(p.now, f); got.Do != want {
		p.t.Fatalf("at %s, %s: got %+v, want %s; %+v", p.now.Sub(start), p.Progress().Phase, got, want, p.Progress())
	}
}

// sees is a reading that takes 100 ms.
func (p *play) sees(state power.State) { p.seesOf(power.GUID(machine), state, nil) }

func (p *play) seesOf(guid power.GUID, state power.State, err error) {
	asked := p.now
	p.now = asked.Add(100 * time.Millisecond)
	p.Saw(asked, p.now, power.Reading{GUID: guid, Power: state}, err)
}

// reported is a reading of another program.
func (p *play) reported(state power.State) {
	asked := p.now
	p.now = asked.Add(100 * time.Millisecond)
	p.Saw(asked, p.now, power.Reading{GUID: power.GUID(machine), Power: state, Reported: true}, nil)
}

// staysOff reads off until the cycle has ended, or does something else, and returns what.
func (p *play) staysOff(f Facts) Action {
	p.t.Helper()
	for range 1000 {
		switch step := p.Next(p.now, f); step.Do {
		case Read:
			p.sees(power.Off)
		case Wait:
			p.now = p.now.Add(step.For)
		default:
			return step.Do
		}
	}
	p.t.Fatal("it does not end")
	return ""
}

// staysOffOnce does what is next, of a machine that is off, and returns what it was.
func (p *play) staysOffOnce(f Facts) Action {
	step := p.Next(p.now, f)
	switch step.Do {
	case Read:
		p.sees(power.Off)
	case Wait:
		p.now = p.now.Add(step.For)
	}
	return step.Do
}

// cut brings the cycle to where off was sent, and acknowledged.
func (p *play) cut() {
	p.t.Helper()
	p.expect(Read, silent)
	p.sees(power.On)
	p.expect(SetOff, silent)
	p.Switched(p.now, nil)
}

// givenUp wants that no proof is awaited any more, and that nothing happens as long as it is watched.
func (p *play) givenUp(f Facts) {
	p.t.Helper()
	for p.Progress().Phase == Watching {
		switch step := p.Next(p.now, f); step.Do {
		case Read:
			p.sees(power.On)
		case Wait:
			p.now = p.now.Add(step.For)
		case End:
		default:
			p.t.Fatalf("got %+v", step)
		}
	}
}

func (p *play) ended(want Outcome, says string) {
	p.t.Helper()
	p.expect(End, silent)
	if k := p.Progress(); k.Outcome != want || !strings.Contains(k.Message, says) {
		p.t.Errorf("got %+v, want %s: %s", k, want, says)
	}
}

func TestPowerIsOffWhenItWasReadOffTwice(t *testing.T) {
	p := newPlay(t, Progress{})
	p.cut()
	p.expect(Read, silent)
	p.sees(power.On) // it was acknowledged a moment ago
	p.expect(Wait, silent)
	p.now = p.now.Add(time.Second)
	p.expect(Read, silent)
	p.sees(power.Off)
	p.expect(Wait, silent)
	p.now = p.now.Add(4 * time.Second)
	p.expect(Wait, silent)
	p.sees(power.Off) // nobody has asked for that so early
	p.expect(Wait, silent)
	if p.Progress().Proof != nil {
		t.Fatal("there is a proof already")
	}
	p.now = p.now.Add(5 * time.Second)
	p.expect(Read, silent)
	p.sees(power.Off)

	working := silent
	working.Restore = false
	p.expect(Wait, working) // the work has not moved
	k := p.Progress()
	if k.Phase != ProvedOff || k.Proof == nil || !k.Proof.Proves("node", "1") || k.Proof.Proves("node", "2") || k.Proof.Proves("other", "1") {
		t.Fatalf("got %+v", k)
	}
	if r := k.Proof.Record(); r.Apart < 5*time.Second || r.Reader != "the search" || r.Switch != "a BMC" || r.Second.Time != p.now || r.First.Order != power.RFC4122 {
		t.Errorf("the record is %+v", r)
	}
	for _, part := range []string{"the power of node node was off: a BMC", machine.String(), "said so at 2026-11-26T03:00:01Z", "to the search"} {
		if !strings.Contains(k.Proof.String(), part) {
			t.Errorf("%q is not in %q", part, k.Proof)
		}
	}
	p.expect(SetOn, silent)
	p.Switched(p.now, nil)
	p.expect(Read, silent)
	p.sees(power.On)
	p.ended(PowerCycled, "")
}

// Who switches it on may be about to boot it, and for minutes it does not answer.
func TestWhatSomebodyHasSwitchedOnIsNotCut(t *testing.T) {
	p := newPlay(t, Progress{})
	p.expect(Read, silent)
	p.sees(power.Off)
	p.expect(Wait, silent)
	p.now = p.now.Add(5 * time.Second)
	p.expect(Read, silent)
	p.sees(power.On)
	p.ended(CameOn, "nothing was switched: the power was off, and is on now")

	p = newPlay(t, Progress{})
	p.cut()
	p.expect(Read, silent)
	p.sees(power.Off)
	p.expect(Wait, silent)
	p.now = p.now.Add(5 * time.Second)
	p.expect(Read, silent)
	p.sees(power.On)
	p.expect(Read, silent)
	p.givenUp(silent)
	p.ended(PowerStillOn, "and is on again")
}

func TestAnythingBetweenTwoReadingsOfOffStartsAnew(t *testing.T) {
	other := power.GUID(machine)
	other[0]++
	for name, between := range map[string]func(p *play){
		"changing":             func(p *play) { p.sees(power.Changing) },
		"no answer":            func(p *play) { p.seesOf(power.GUID{}, "", errTimeout) },
		"off, another machine": func(p *play) { p.seesOf(other, power.Off, nil) },
		"off, of no machine":   func(p *play) { p.seesOf(power.GUID{}, power.Off, nil) },
		"off, and an error":    func(p *play) { p.seesOf(power.GUID(machine), power.Off, errTimeout) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, Progress{})
			p.cut()
			p.sees(power.Off)
			p.Next(p.now, silent)
			p.now = p.now.Add(5 * time.Second)
			between(p)
			p.Next(p.now, silent)
			p.now = p.now.Add(5 * time.Second)
			p.sees(power.Off)
			p.Next(p.now, silent)
			if k := p.Progress(); k.Proof != nil || k.Phase != Cutting {
				t.Fatalf("got %+v", k)
			}
			if got := p.staysOff(silent); got != SetOn {
				t.Errorf("got %s, %+v", got, p.Progress())
			}
		})
	}
}

// A BMC that has restarted says off until it has found its host, and takes an off for nothing
// to do. So it has to say off for longer, unless it was there all the time.
func TestABMCThatMayHaveRestartedHasToSayOffForLonger(t *testing.T) {
	for name, test := range map[string]struct {
		kept  Progress
		do    func(p *play)
		after time.Duration
	}{
		"it was there": {Progress{}, (*play).cut, 5 * time.Second},
		"it has not acknowledged": {Progress{}, func(p *play) {
			p.expect(Read, silent)
			p.sees(power.On)
			p.expect(SetOff, silent)
			p.Switched(p.now, errTimeout)
		}, 2 * time.Minute},
		"it was not known to be on": {Progress{Phase: Cutting}, func(p *play) {
			p.sees(power.Changing)
			p.expect(SetOff, silent)
			p.Switched(p.now, nil)
		}, 2 * time.Minute},
		"it did not answer once": {Progress{}, func(p *play) {
			p.cut()
			p.seesOf(power.GUID{}, "", errTimeout)
		}, 2 * time.Minute},
		"it was not asked for long": {Progress{}, func(p *play) {
			p.cut()
			p.sees(power.On)
			p.now = p.now.Add(20 * time.Second)
		}, 2 * time.Minute},
		"another runner has sent the off": {Progress{Phase: Cutting}, func(*play) {}, 2 * time.Minute},
		"it said off when we came":        {Progress{}, func(*play) {}, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, test.kept)
			test.do(p)
			begun := p.now
			p.staysOff(silent)
			passed := p.now.Sub(begun)
			if k := p.Progress(); k.Proof == nil || passed < test.after || passed > test.after+10*time.Second {
				t.Errorf("after %s: %+v", passed, k)
			} else if r := k.Proof.Record(); r.Apart < test.after {
				t.Errorf("the record is %+v", r)
			}
		})
	}
	t.Run("it is asked too seldom", func(t *testing.T) {
		for _, kept := range []Progress{{}, {Phase: Cutting}} {
			p := newPlay(t, kept)
			for range 30 {
				if p.Next(p.now, silent).Do == End || p.Progress().Phase == Watching {
					break
				}
				p.sees(power.Off)
				p.now = p.now.Add(20 * time.Second)
			}
			if kept.Phase == Cutting {
				p.givenUp(silent)
				p.ended(PowerStillOn, "a BMC says Off, but was not read for 2m0s without a break")
				continue
			}
			p.ended(NoAnswer, "a BMC says Off, but was not read for 2m0s without a break")
		}
	})
}

func TestABMCThatSaysOffWhileTheNodeAnswersProvesNothing(t *testing.T) {
	alive := silent
	alive.Answers = true
	p := newPlay(t, Progress{})
	p.cut()
	for range 80 {
		p.sees(power.Off)
		if step := p.Next(p.now, alive); step.Do == SetOn {
			t.Fatal("it is switched on")
		}
		p.now = p.now.Add(5 * time.Second)
	}
	alive.Over = true
	p.expect(End, alive)
	if k := p.Progress(); k.Outcome != PowerStillOn || k.Proof != nil || !strings.Contains(k.Message, "says Off, but the node answers") {
		t.Errorf("got %+v", k)
	}
}

func TestPowerThatStaysOnIsSwitchedOffAgainAndThenGivenUp(t *testing.T) {
	p := newPlay(t, Progress{})
	p.cut()
	offs := 1
	for p.Progress().Outcome == "" {
		switch step := p.Next(p.now, silent); step.Do {
		case Read:
			p.sees(power.On)
		case Wait:
			p.now = p.now.Add(step.For)
		case SetOff:
			offs++
			p.Switched(p.now, nil)
		case End:
		default:
			t.Fatalf("got %+v", step)
		}
	}
	passed := p.now.Sub(start)
	p.givenUp(silent)
	p.ended(PowerStillOn, "a BMC says On. Nothing was freed")
	if offs != 12 || passed < 3*time.Minute || passed > 182*time.Second {
		t.Errorf("%d offs within %s", offs, passed)
	}
}

// An off may take effect after nobody waits for it any more: the machine must not stay off.
func TestWhatGoesOffLateIsSwitchedOnAgain(t *testing.T) {
	late := func(t *testing.T) *play {
		t.Helper()
		p := newPlay(t, Progress{})
		p.cut()
		p.now = p.now.Add(3 * time.Minute)
		p.sees(power.On)
		p.expect(Read, silent) // of the watch
		if k := p.Progress(); k.Phase != Watching || k.Outcome != PowerStillOn || k.Proof != nil {
			t.Fatalf("got %+v", k)
		}
		return p
	}
	for name, watched := range map[string]func(p *play){
		"by the same runner": func(*play) {},
		"by the next one":    func(p *play) { *p = *newPlay(p.t, p.Progress()) },
		"when the switch answers again": func(p *play) {
			for range 30 {
				p.seesOf(power.GUID{}, "", errTimeout)
				p.expect(Wait, silent)
				p.now = p.now.Add(20 * time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := late(t)
			watched(p)
			p.sees(power.Off)
			p.expect(SetOn, silent)
			p.Switched(p.now, nil)
			p.sees(power.On)
			p.expect(Wait, silent)
			p.now = p.now.Add(3 * time.Minute)
			p.sees(power.On)
			p.ended(WentOffLate, "went off late")
			if p.Progress().Proof != nil {
				t.Error("there is a proof")
			}
		})
	}
	t.Run("it stays on", func(t *testing.T) {
		p := late(t)
		p.givenUp(silent)
		p.ended(PowerStillOn, "there is no proof that it is")
	})
	t.Run("nobody can see it", func(t *testing.T) {
		p := late(t)
		over := silent
		p.now = p.now.Add(4 * time.Minute)
		p.seesOf(power.GUID{}, "", errTimeout)
		p.expect(Wait, over)
		over.Over = true
		p.expect(End, over)
		p.ended(PowerStillOn, "Later: no answer: in time")
	})
	t.Run("after a node has answered", func(t *testing.T) {
		alive := silent
		alive.Answers = true
		p := newPlay(t, Progress{})
		p.cut()
		p.now = p.now.Add(15 * time.Second)
		p.sees(power.On)
		p.expect(Read, alive)
		p.sees(power.Off)
		p.expect(Wait, alive) // its last sign of life may be older
		p.now = p.now.Add(5 * time.Second)
		p.sees(power.Off)
		p.expect(SetOn, silent)
	})
}

// A BMC that hangs in the middle leaves the machine off, and answers when its next step has begun.
func TestWhatWasCutIsSwitchedOnAsLongAsThereIsTime(t *testing.T) {
	p := newPlay(t, proved(t))
	p.expect(SetOn, silent)
	p.Switched(p.now, errTimeout)
	for range 20 {
		p.seesOf(power.GUID{}, "", errTimeout)
		p.expect(Wait, silent)
		p.now = p.now.Add(20 * time.Second)
	}
	p.sees(power.Off)
	p.expect(SetOn, silent)
	over := silent
	over.Over = true
	p.Switched(p.now, errTimeout)
	p.expect(End, over)
	p.ended(PowerStillOff, "it is not on: no answer")
}

// The switch says off, and the node answers, by its old boot: the switch is that of something else.
func TestANodeThatAnswersAfterTheProofRefutesIt(t *testing.T) {
	p := newPlay(t, proved(t))
	alive := silent
	alive.Answers = true
	p.expect(Read, alive)
	if k := p.Progress(); k.Phase != Watching || k.Outcome != PowerStillOn || k.Proof != nil || !strings.Contains(k.Message, "the node answers since") {
		t.Errorf("got %+v", k)
	}
}

func TestWhatNobodyKnowsOfTheNodeProvesNothing(t *testing.T) {
	stale := silent
	stale.Stale, stale.Confirmed = true, false
	p := newPlay(t, Progress{})
	p.cut()
	for range 20 {
		p.sees(power.Off)
		p.expect(Wait, stale)
		p.now = p.now.Add(5 * time.Second)
	}
	if k := p.Progress(); k.Proof != nil {
		t.Errorf("got %+v", k)
	}
	if got := p.staysOff(silent); got != SetOn {
		t.Errorf("once it is known again: %s, %+v", got, p.Progress())
	}
}

func TestALoginThatIsRefusedIsNotTriedAgainAndAgain(t *testing.T) {
	p := newPlay(t, Progress{})
	p.expect(Read, silent)
	p.seesOf(power.GUID{}, "", power.ErrLogin)
	p.ended(NoAnswer, "nothing was switched: login refused")
	p = newPlay(t, Progress{})
	p.cut()
	p.seesOf(power.GUID{}, "", power.ErrLogin)
	if step := p.Next(p.now, silent); step.Do != Wait || step.For != 15*time.Second {
		t.Errorf("got %+v", step)
	}
}

func TestWhatIsNotOursStaysAsItIs(t *testing.T) {
	alive, newer, held := silent, silent, silent
	alive.Answers, newer.BootID, held.Confirmed = true, "2", false
	other := power.GUID(machine)
	other[0]++
	t.Run("power that was off", func(t *testing.T) {
		p := newPlay(t, Progress{})
		p.expect(Read, silent)
		p.sees(power.Off)
		p.staysOff(silent)
		p.ended(PowerWasOff, "was off already")
		if !p.Progress().Proof.Proves("node", "1") {
			t.Error("there is no proof")
		}
	})
	takesOff := func(t *testing.T) *play {
		p := newPlay(t, Progress{})
		p.plan.TakeOff = true
		p.expect(Read, silent)
		p.sees(power.Off)
		return p
	}
	t.Run("unless the plan says so: it is proved, kept off, and switched on", func(t *testing.T) {
		p := takesOff(t)
		kept := silent
		kept.Hold, kept.Await = true, true
		for p.Progress().Phase == Looking {
			if p.staysOffOnce(kept) == SetOn {
				t.Fatal("it is switched on without a proof")
			}
		}
		if k := p.Progress(); k.Phase != ProvedOff || !k.Proof.Proves("node", "1") || k.Proof.Record().Apart < p.plan.Settled {
			t.Fatalf("got %+v", k)
		}
		for p.Progress().Held < 3 {
			p.staysOffOnce(kept)
		}
		if do := p.staysOff(silent); do != SetOn {
			t.Fatalf("got %s", do)
		}
		p.Switched(p.now, nil)
		p.expect(Read, silent)
		p.sees(power.On)
		p.ended(PowerCycled, "was off already, and was switched on")
	})
	t.Run("nor then, if something holds it by now, or the node answers", func(t *testing.T) {
		hands := silent
		hands.Restore = false
		for _, end := range []struct {
			facts Facts
			want  Outcome
			says  string
		}{{hands, PowerWasOff, "stays off, since something holds"}, {alive, NotTheMachine, "does not tell the truth"}} {
			p := takesOff(t)
			kept := silent
			kept.Hold = true
			for p.Progress().Phase == Looking {
				p.staysOffOnce(kept)
			}
			p.expect(End, end.facts)
			p.ended(end.want, end.says)
			if answers := p.Progress().Proof == nil; answers != end.facts.Answers {
				t.Errorf("there is no proof: %t", answers)
			}
		}
	})
	t.Run("nor if something holds it when it was switched on in vain, whoever has read that it is off", func(t *testing.T) {
		hands, unknown := silent, silent
		hands.Restore, unknown.Stale = false, true
		for _, reported := range []bool{false, true} {
			for name, held := range map[string]Facts{"held": hands, "nobody knows": unknown} {
				p := takesOff(t)
				reads := func(f Facts) Action {
					step := p.Next(p.now, f)
					switch {
					case step.Do == Wait:
						p.now = p.now.Add(step.For)
					case step.Do == Read && reported:
						p.reported(power.Off)
					case step.Do == Read:
						p.sees(power.Off)
					}
					return step.Do
				}
				for range 1000 {
					if reads(silent) == SetOn {
						break
					}
				}
				p.Switched(p.now, power.ErrNoAnswer)
				for begun := p.now; p.Progress().Phase == Restoring; {
					held.Over = p.now.Sub(begun) > 10*time.Minute
					if do := reads(held); do == SetOn {
						t.Fatalf("%s, reported: %t: it is switched on again", name, reported)
					}
				}
				p.ended(PowerStillOff, "it is not on")
				if strings.Contains(p.Progress().Message, "nobody has acknowledged") {
					t.Errorf("%s, reported: %t: got %q", name, reported, p.Progress().Message)
				}
			}
		}
	})
	t.Run("nor as long as nobody knows whether something holds it", func(t *testing.T) {
		unknown := silent
		unknown.Stale = true
		for _, later := range []struct {
			facts Facts
			do    Action
		}{{silent, SetOn}, {Facts{Stale: true, Over: true, BootID: "1", Restore: true}, End}} {
			p := takesOff(t)
			kept := silent
			kept.Hold = true
			for p.Progress().Phase == Looking {
				p.staysOffOnce(kept)
			}
			for range 600 {
				if do := p.staysOffOnce(unknown); do == SetOn || do == End {
					t.Fatalf("got %s", do)
				}
			}
			p.expect(later.do, later.facts)
			if k := p.Progress(); later.do == End && (k.Outcome != PowerWasOff || !strings.Contains(k.Message, "nobody knows")) {
				t.Errorf("got %+v", k)
			}
		}
	})
	t.Run("nor if what proves it is lost: it is looked at anew", func(t *testing.T) {
		p := takesOff(t)
		kept := silent
		kept.Hold = true
		for p.Progress().Phase == Looking {
			p.staysOffOnce(kept)
		}
		lost := p.Progress()
		lost.Proof = nil
		p = newPlay(t, lost)
		p.expect(Read, held)
		if k := p.Progress(); k != (Progress{Phase: Looking}) {
			t.Errorf("got %+v", k)
		}
		p.staysOff(held)
		p.ended(NotConfirmed, "held it")
	})
	t.Run("power that was off, of a fault that nobody confirms", func(t *testing.T) {
		p := newPlay(t, Progress{})
		p.staysOff(held)
		p.ended(NotConfirmed, "held it")
		if p.Progress().Proof != nil {
			t.Error("there is a proof")
		}
	})
	t.Run("power that somebody switches on, and off again", func(t *testing.T) {
		working := newer
		working.Restore = false
		p := newPlay(t, proved(t))
		if got := p.staysOff(working); got != End {
			t.Errorf("got %s", got)
		}
		p.ended(PowerStillOff, "or the node has booted by itself, but 3m0s later it is not on: a BMC says Off")
		p = newPlay(t, proved(t))
		if got := p.staysOff(newer); got != SetOn {
			t.Errorf("when it may be switched on: got %s", got)
		}
	})
	t.Run("a node that answers again", func(t *testing.T) {
		p := newPlay(t, Progress{})
		p.expect(Read, silent)
		p.sees(power.On)
		p.expect(End, alive)
		p.ended(NodeAnswers, "answers again")
	})
	t.Run("a node that has booted", func(t *testing.T) {
		p := newPlay(t, Progress{})
		p.expect(Read, silent)
		p.sees(power.On)
		p.expect(End, newer)
		p.ended(NewBoot, "its boot ID is 2")
	})
	t.Run("another machine", func(t *testing.T) {
		p := newPlay(t, Progress{})
		p.expect(Read, silent)
		p.seesOf(other, power.On, nil)
		p.ended(NotTheMachine, "4d4c4544")
	})
	t.Run("what a gate holds", func(t *testing.T) {
		p := newPlay(t, Progress{})
		p.sees(power.On)
		p.expect(Wait, held)
		p.now = p.now.Add(3 * time.Minute)
		p.expect(End, held)
		p.ended(NotConfirmed, "held it")
	})
	t.Run("a machine whose BMC does not answer", func(t *testing.T) {
		p := newPlay(t, Progress{})
		p.seesOf(power.GUID{}, "", errTimeout)
		p.expect(Wait, silent)
		p.now = p.now.Add(3 * time.Minute)
		p.ended(NoAnswer, "no answer: in time")
	})
}

// proved is the progress with a proof.
func proved(t *testing.T) Progress {
	t.Helper()
	p := newPlay(t, Progress{})
	p.cut()
	working := silent
	working.Restore = false
	for p.Progress().Proof == nil {
		if step := p.Next(p.now, working); step.Do == Wait {
			p.now = p.now.Add(step.For)
		} else {
			p.sees(power.Off)
		}
	}
	return p.Progress()
}

func TestARunnerGoesOnFromWhatItReads(t *testing.T) {
	first := newPlay(t, Progress{})
	first.cut()
	first.sees(power.Off)
	first.expect(Wait, silent)

	p := newPlay(t, first.Progress()) // the first reading is forgotten
	p.expect(Read, silent)
	p.sees(power.Off)
	p.expect(Wait, silent)
	p.staysOff(silent)
	if k := p.Progress(); k.Phase != Restoring || !k.Proof.Proves("node", "1") {
		t.Errorf("got %+v", k)
	}

	proved := proved(t)
	p = newPlay(t, proved)
	p.expect(SetOn, silent)
	p = newPlay(t, p.Progress()) // it may have been sent, or not
	p.expect(Read, silent)
	p.sees(power.Off)
	p.expect(SetOn, silent)
	p.Switched(p.now, nil)
	p.sees(power.On)
	p.ended(PowerCycled, "")
	if k := p.Progress(); !k.Proof.Proves("node", "1") {
		t.Errorf("the proof is lost: %+v", k)
	}

	// A proof of another boot is none of this one.
	plan := (*world)(nil).plan()
	plan.BootID = "2"
	c, err := New(plan, proved, start)
	if err != nil || c.Progress().Proof != nil || c.Progress().Phase != Cutting {
		t.Errorf("got %+v, %v", c.Progress(), err)
	}
	if _, err := New(plan, Progress{Phase: "Elsewhere"}, start); err == nil {
		t.Error("an unknown phase is accepted")
	}
	// Power that was off, and is on in the phase in which it is to be switched off.
	p = newPlay(t, Progress{Phase: Cutting})
	p.expect(Read, silent)
	p.sees(power.On)
	p.expect(SetOff, silent)
}

func TestOnlyWhatProvesSomethingIsReadAsAProof(t *testing.T) {
	read := func(at time.Time) reading {
		return reading{at, at, power.Reading{GUID: power.GUID(power.GUID(machine).In(power.IPMI)), Power: power.Off}, nil}
	}
	good, err := prove((*world)(nil).plan(), MinGap, read(start), read(start.Add(5*time.Second)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	var again Proof
	if err := json.Unmarshal(text, &again); err != nil || again != good || !again.Proves("node", "1") {
		t.Errorf("%s has become %s, %v", text, again, err)
	}
	if (Proof{}).Proves("", "") || (Proof{}).String() != "no proof" {
		t.Error("nothing proves something")
	}
	for _, change := range [][2]string{
		{`"PowerOff"`, `"Time"`}, {`"bootID":"1"`, `"bootID":""`}, {`"node":"node",`, ``},
		{`"power":"Off"`, `"power":"On"`}, {`"order":"IPMI"`, `"order":"RFC4122"`}, {`"guid":"3`, `"guid":"4`},
		{`"apart":5000000000`, `"apart":1000000000`}, {`"machine":"4c`, `"machine":"4d`}, {`"second":`, `"third":`},
	} {
		broken := strings.Replace(string(text), change[0], change[1], 1)
		if broken == string(text) {
			t.Fatalf("%s is not in %s", change[0], text)
		}
		var p Proof
		if err := json.Unmarshal([]byte(broken), &p); err == nil || p != (Proof{}) {
			t.Errorf("%s instead of %s is a proof", change[1], change[0])
		}
	}
}

func TestAPlanThatProvesNothingIsRefused(t *testing.T) {
	for name, change := range map[string]func(p *Plan){
		"no node":       func(p *Plan) { p.Node = "" },
		"no boot":       func(p *Plan) { p.BootID = "" },
		"no machine":    func(p *Plan) { p.Machine = power.UUID{} },
		"no gap":        func(p *Plan) { p.Gap = time.Second },
		"no settling":   func(p *Plan) { p.Settled = p.Gap - 1 },
		"no poll":       func(p *Plan) { p.Poll = 0 },
		"no repetition": func(p *Plan) { p.Repeat = -1 },
		"no time":       func(p *Plan) { p.GiveUp = p.Gap },
	} {
		plan := (*world)(nil).plan()
		change(&plan)
		if _, err := New(plan, Progress{}, start); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestWhatCanNotBeKeptIsNotDone(t *testing.T) {
	w := &world{t: t, now: start, on: true, boot: 1, hung: true}
	full := errors.New("the API server is away")
	r := Runner{Clock: clockOf{world: w}, Switch: w, Facts: w.Facts, Keep: func(ctx context.Context, p Progress) error {
		if p.Phase == Cutting {
			return full
		}
		return w.Keep(ctx, p)
	}}
	if _, err := r.Run(t.Context(), w.plan(), Progress{}); !errors.Is(err, full) || w.offSent {
		t.Errorf("got %v, off sent: %t", err, w.offSent)
	}
}

// holding is what is known while pods and volumes are to be freed; freeing, once somebody does that.
var (
	holding = Facts{Confirmed: true, BootID: "1", Restore: true, Hold: true, Await: true}
	freeing = Facts{Confirmed: true, BootID: "1", Restore: true, Hold: true}
)

// proved brings the cycle to where the machine is proved to be off, and is to stay so.
func (p *play) proved() {
	p.t.Helper()
	p.cut()
	for p.Progress().Phase == Cutting {
		switch step := p.Next(p.now, holding); {
		case p.Progress().Phase != Cutting:
		case step.Do == Read:
			p.sees(power.Off)
		case step.Do == Wait:
			p.now = p.now.Add(step.For)
		default:
			p.t.Fatalf("got %+v", step)
		}
	}
	if k := p.Progress(); k.Phase != ProvedOff || k.Proof == nil || k.Held != 0 {
		p.t.Fatalf("got %+v", k)
	}
}

// holds has it read off, or something else, for so long, and returns what else it does.
func (p *play) holds(f Facts, long time.Duration, state power.State) Action {
	p.t.Helper()
	for end := p.now.Add(long); p.now.Before(end); {
		switch step := p.Next(p.now, f); step.Do {
		case Read:
			p.sees(state)
		case Wait:
			p.now = p.now.Add(step.For)
		default:
			return step.Do
		}
	}
	return ""
}

func TestAMachineStaysOffUntilItsPodsHaveMoved(t *testing.T) {
	p := newPlay(t, Progress{})
	p.proved()
	if got := p.holds(holding, 10*time.Second, power.Off); got != "" || p.Progress().Held < 5 {
		t.Fatalf("it does %q, and was read off %d times", got, p.Progress().Held)
	}
	told := p.Progress().Held
	if got := p.holds(freeing, 2*time.Minute, power.Off); got != "" || p.Progress().Held != told {
		t.Fatalf("while they move, it does %q, and was read off %d times", got, p.Progress().Held)
	}
	p.expect(SetOn, silent)
}

func TestAMachineIsNotLeftOffForPodsThatDoNotMove(t *testing.T) {
	for name, test := range map[string]struct {
		facts    Facts
		off, not time.Duration
	}{
		"nobody frees them":     {holding, 110 * time.Second, 130 * time.Second},
		"they are not freed":    {freeing, 290 * time.Second, 310 * time.Second},
		"nobody knows any more": {Facts{Restore: true, Hold: true, Await: true, Stale: true, BootID: "1"}, 110 * time.Second, 130 * time.Second},
	} {
		p := newPlay(t, Progress{})
		p.proved()
		if got := p.holds(test.facts, test.off, power.Off); got != "" {
			t.Errorf("%s: it does %s already", name, got)
		}
		if got := p.holds(test.facts, test.not-test.off, power.Off); got != SetOn {
			t.Errorf("%s: it does %q", name, got)
		}
	}
}

// Each number is of a reading of its own that has begun after the number before was kept, and nobody
// is told what is not so.
func TestOnlyWhatWasReadOffJustNowIsTold(t *testing.T) {
	changed := func(change func(*Facts)) Facts {
		f := holding
		change(&f)
		return f
	}
	for name, f := range map[string]Facts{
		"nobody knows": changed(func(f *Facts) { f.Stale = true }),
		"somebody has begun to free, or has the power": freeing,
	} {
		p := newPlay(t, Progress{})
		p.proved()
		p.holds(f, 30*time.Second, power.Off)
		if p.Progress().Held != 0 {
			t.Errorf("%s: it was told %d times", name, p.Progress().Held)
		}
	}
	p := newPlay(t, Progress{})
	p.proved()
	p.expect(Read, holding)
	p.sees(power.Off)
	p.now = p.now.Add(time.Minute) // the API server was slow
	p.expect(Read, holding)
	if p.Progress().Held != 0 {
		t.Error("a reading of a minute ago was told")
	}
	p.seesOf(power.GUID{1}, power.Off, nil)
	p.expect(Wait, holding)
	if p.Progress().Held != 0 {
		t.Error("a reading of another machine was told")
	}
	p = newPlay(t, Progress{})
	p.proved()
	p.expect(Read, holding)
	p.sees(power.Off)
	for range 3 {
		p.expect(Wait, holding)
		if p.Progress().Held != 1 {
			t.Errorf("one reading was told %d times", p.Progress().Held)
		}
	}
}

// A switch that has restarted says off until it has found its machine, which somebody may have switched
// on meanwhile.
func TestASwitchThatMayHaveRestartedIsBelievedLater(t *testing.T) {
	for name, breaks := range map[string]func(p *play){
		"it did not answer": func(p *play) {
			p.now = p.now.Add(CallTimeout)
			p.seesOf(power.GUID{}, "", errTimeout)
		},
		"nobody asked it":              func(p *play) { p.now = p.now.Add(p.plan.Repeat + time.Second) },
		"it did not know its machine":  func(p *play) { p.seesOf(power.GUID{}, power.Off, nil) },
		"another runner goes on by it": func(p *play) { p.Cycle = newPlay(t, p.Progress()).Cycle },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, Progress{})
			p.proved()
			p.holds(holding, 5*time.Second, power.Off)
			told := p.Progress().Held
			breaks(p)
			if got := p.holds(holding, p.plan.Settled-time.Second, power.Off); got != "" || p.Progress().Held != told {
				t.Fatalf("it does %q, and was read off %d times, then %d times", got, told, p.Progress().Held)
			}
			if got := p.holds(holding, 10*time.Second, power.Off); got != "" || p.Progress().Held < told+3 {
				t.Fatalf("it does %q, and was read off %d times, then %d times", got, told, p.Progress().Held)
			}
			if got := p.holds(holding, p.plan.Hold, power.Off); got != SetOn {
				t.Errorf("it does %q", got)
			}
		})
	}
}

func TestAMachineThatSomebodySwitchesOnIsNotHeldAnyMore(t *testing.T) {
	p := newPlay(t, Progress{})
	p.proved()
	p.holds(holding, 5*time.Second, power.Off)
	told := p.Progress().Held
	p.holds(holding, 5*time.Second, power.On)
	if p.Progress().Phase != Ended || p.Progress().Outcome != PowerCycled || p.Progress().Held != told {
		t.Errorf("got %+v", p.Progress())
	}
	p = newPlay(t, Progress{})
	p.proved()
	booted := holding
	booted.BootID, booted.Hold, booted.Await = "2", false, false
	p.expect(Read, booted)
	if p.Progress().Phase != Restoring {
		t.Errorf("got %+v", p.Progress())
	}
	p = newPlay(t, Progress{})
	p.proved()
	answers := holding
	answers.Answers = true
	p.expect(Read, answers)
	if k := p.Progress(); k.Phase != Watching || k.Proof != nil {
		t.Errorf("a node that answers was off: %+v", k)
	}
}

func TestWhoTakesOverKeepsItOffAndCountsOn(t *testing.T) {
	p := newPlay(t, Progress{})
	p.proved()
	p.holds(holding, 5*time.Second, power.Off)
	next := newPlay(t, p.Progress())
	next.holds(holding, next.plan.Settled+5*time.Second, power.Off)
	if next.Progress().Held <= p.Progress().Held {
		t.Errorf("it was %d, and is %d", p.Progress().Held, next.Progress().Held)
	}
	kept := p.Progress()
	kept.Proof = nil // of another boot, say
	if c, err := New((*world)(nil).plan(), kept, start); err != nil || c.Progress().Held != 0 || c.Progress().Phase != Cutting {
		t.Errorf("got %+v, %v", c.Progress(), err)
	}
}

func TestWhatAnotherProgramHasReadProvesLaterAndFreesNothing(t *testing.T) {
	p := newPlay(t, Progress{})
	p.expect(Read, holding)
	p.reported(power.On)
	p.expect(SetOff, holding)
	p.Switched(p.now, nil)
	off := p.now
	for p.Progress().Proof == nil {
		switch step := p.Next(p.now, holding); step.Do {
		case Read:
			p.reported(power.Off)
		case Wait:
			p.now = p.now.Add(step.For)
		case SetOn:
		default:
			t.Fatalf("at %s: %+v, %+v", p.now.Sub(start), step, p.Progress())
		}
	}
	if got, settled := p.now.Sub(off), p.plan.Settled; got < settled {
		t.Errorf("proved after %s, which is before %s", got, settled)
	}
	if kept := p.Progress(); kept.Phase != Restoring || kept.Held != 0 {
		t.Errorf("it is kept off, although nobody knows whether it is: %+v", kept)
	}
}

func TestWhoGoesOnHoldsNothingOffOnAnotherProgramsWord(t *testing.T) {
	p := newPlay(t, Progress{})
	p.proved()
	kept := p.Progress()
	p = newPlay(t, kept)
	p.expect(Read, holding)
	p.reported(power.Off)
	p.expect(SetOn, holding)
	if held := p.Progress().Held; held != kept.Held {
		t.Errorf("held %d, was %d", held, kept.Held)
	}
}

// What another program was asked for it does when it can: hours later, of a node that is well by then, and it
// keeps the machine off. So no cycle ends before that was taken back.
func TestNoOffStandsWhenACycleHasEndedThatAnotherProgramCarriesOut(t *testing.T) {
	const second = time.Second
	away := errors.New("its operator is away")
	for name, test := range map[string]struct {
		// what is read, and known, so long after the off
		reads func(since time.Duration) (power.State, error)
		knows func(since time.Duration) Facts
		// refused: how long nothing can be taken back
		refused time.Duration
		want    Outcome
	}{
		"it never goes off": {want: PowerStillOn},
		"the node answers": {
			knows: func(time.Duration) Facts { return Facts{Confirmed: true, BootID: "1", Restore: true, Answers: true} }, want: NodeAnswers,
		},
		"it boots by itself": {
			knows: func(time.Duration) Facts { return Facts{BootID: "2", Answers: true} }, want: NewBoot,
		},
		"it boots by itself, and nothing can be read": {
			reads: func(since time.Duration) (power.State, error) {
				if since < 20*time.Minute {
					return "", away
				}
				return power.On, nil
			},
			knows: func(time.Duration) Facts { return Facts{BootID: "2", Answers: true} }, want: NewBoot,
		},
		"somebody switches it on": {
			reads: func(since time.Duration) (power.State, error) {
				if since > 10*second && since < 20*second {
					return power.Off, nil
				}
				return power.On, nil
			}, want: PowerStillOn,
		},
		"it boots when it was proved to be off": {
			reads: func(since time.Duration) (power.State, error) {
				if since < 130*second {
					return power.Off, nil
				}
				return power.On, nil
			},
			knows: func(since time.Duration) Facts {
				if since < 125*second {
					return silent
				}
				return Facts{BootID: "2", Answers: true}
			}, want: PowerCycled,
		},
		"the API server does not take it for long": {refused: 10 * time.Minute, want: PowerStillOn},
		"nobody ever takes it":                     {refused: 24 * time.Hour, want: PowerStillOn},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarts: %t", name, restarts), func(t *testing.T) {
				p := newPlay(t, Progress{})
				p.expect(Read, silent)
				p.reported(power.On)
				p.expect(SetOff, silent)
				p.Switched(p.now, nil)
				off, stands := p.now, true
				for step := (Step{}); step.Do != End; {
					since, f := p.now.Sub(off), silent
					if test.knows != nil {
						f = test.knows(since)
					}
					f.Over = since > time.Hour
					before := p.Progress().Phase
					step = p.Next(p.now, f)
					switch step.Do {
					case Read:
						state, err := power.On, error(nil)
						if test.reads != nil {
							state, err = test.reads(since)
						}
						p.now = p.now.Add(100 * time.Millisecond)
						p.Saw(p.now.Add(-100*time.Millisecond), p.now, power.Reading{GUID: power.GUID(machine), Power: state, Reported: true}, err)
					case SetOff:
						stands = true
						p.Switched(p.now, nil)
					case SetOn:
						if since < test.refused {
							p.Switched(p.now, away)
							break
						}
						stands = false
						p.Switched(p.now, nil)
					case Wait:
						p.now = p.now.Add(step.For)
					}
					if kept := p.Progress(); restarts && kept.Phase != before && kept.Phase != Ended {
						c, err := New(p.plan, kept, p.now)
						if err != nil {
							t.Fatal(err)
						}
						p.Cycle = c
						stands = true // what was done last may not have arrived
					}
					if p.now.Sub(off) > 2*time.Hour {
						t.Fatalf("it does not end: %+v", p.Progress())
					}
				}
				switch kept := p.Progress(); {
				case kept.Outcome != test.want:
					t.Errorf("got %+v, want %s", kept, test.want)
				case test.refused > time.Hour != strings.Contains(kept.Message, "nobody has acknowledged"):
					t.Errorf("it says %q", kept.Message)
				case stands != (test.refused > time.Hour):
					t.Errorf("an off stands: %t, %+v", stands, kept)
				}
			})
		}
	}
}
