package proof

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/power"
)

// world is a machine, its BMC, its node, and the runners that die. What happens is decided
// by the bytes of choices; when they are used up, nothing goes wrong any more.
type world struct {
	t       testing.TB
	choices []byte
	now     time.Time
	history []string

	// The truth.
	on       bool
	boot     int       // that which runs, or ran last; the first is the plan's
	cutAt    time.Time // when a pending off takes effect
	hung     bool      // the boot does not answer
	oldEnded bool      // the first boot is over

	deadUntil, heldUntil time.Time // the BMC; what a gate holds
	blindUntil           time.Time // until the BMC has found its host: it says off

	// What was said and done.
	lied         bool // off was said of a machine that is on, and not for a restart of the BMC
	misled       bool // on was said last of a machine that is off
	touched      bool // somebody else has switched it off
	begun        time.Time
	ordered      bool // an off was kept, to be sent
	offSent      bool
	acknowledged bool
	facts        Facts
	factsAt      time.Time
	offReads     []read // in a row
	lastRead     read
	kept         Progress
	everProof    bool
	frees        bool      // pods and volumes are to be freed
	takesOff     bool      // power that was off is as good as cut
	taken        bool      // that is so here
	reports      bool      // the switch says what another program has read, and has it switch
	stands       bool      // an off of ours was sent to that, and no on was acknowledged since
	stale        bool      // the facts are old
	freed        bool      // somebody has begun to free what the boot had
	keptAt       time.Time // when the progress was kept last
	heldFrom     time.Time // when this runner has begun to keep it off
}

type read struct {
	asked, answered time.Time
	power           power.State
	matches         bool
	wrong           bool // it said off of a machine that was on, for its switch had restarted
}

// choose returns a number below n: 0, the calm one, when all choices are used up.
func (w *world) choose(n int) int {
	if len(w.choices) == 0 {
		return 0
	}
	c := int(w.choices[0]) % n
	w.choices = w.choices[1:]
	return c
}

func (w *world) note(format string, args ...any) {
	w.history = append(w.history, w.now.Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) broken(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(w.history, "\n"))
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	w.now = w.now.Add(d)
	if !w.cutAt.IsZero() && !w.now.Before(w.cutAt) {
		w.cutAt = time.Time{}
		w.switchTo(false)
	}
}

func (w *world) switchTo(on bool) {
	if on && !w.on {
		w.boot, w.hung = w.boot+1, false
	}
	if !on {
		w.oldEnded = true
	}
	w.on = on
	w.note("the power is on: %t, boot %d", on, w.boot)
}

// world is the clock: who waits for a timer lets the time pass.
func (w *world) Now() time.Time                  { return w.now }
func (w *world) Since(t time.Time) time.Duration { return w.now.Sub(t) }

func (w *world) NewTimer(d time.Duration) clock.Timer {
	w.pass(d)
	fired := make(chan time.Time, 1)
	fired <- w.now
	return timer{c: fired}
}

// timer has fired.
type timer struct {
	clock.Timer
	c chan time.Time
}

func (t timer) C() <-chan time.Time { return t.c }
func (t timer) Stop() bool          { return false }

// clockOf is the part of a clock that is used.
type clockOf struct {
	clock.Clock
	*world
}

func (c clockOf) Now() time.Time                       { return c.world.Now() }
func (c clockOf) Since(t time.Time) time.Duration      { return c.world.Since(t) }
func (c clockOf) NewTimer(d time.Duration) clock.Timer { return c.world.NewTimer(d) }

var (
	errTimeout = fmt.Errorf("%w: in time", power.ErrNoAnswer)
	errDied    = errors.New("the runner has died")
)

// happen lets something happen to the machine or the node.
func (w *world) happen() {
	switch w.choose(24) {
	case 1:
		w.note("somebody switches off")
		w.touched = true
		w.switchTo(false)
	case 2:
		w.note("somebody switches on")
		w.switchTo(true)
		w.hung = w.choose(2) == 1 // until it has booted
	case 11:
		w.freed = !w.freed
	case 3, 4:
		if w.on {
			w.hung = false
			w.note("the node answers again")
		}
	case 5:
		if w.on {
			w.note("the machine boots by itself")
			w.oldEnded = true
			w.boot, w.hung = w.boot+1, false
		}
	case 6:
		w.hung = true
	case 7:
		w.pass(time.Minute)
	case 8:
		w.note("the BMC is dead")
		w.deadUntil = w.now.Add(4 * time.Minute)
	case 9:
		w.note("a gate holds")
		w.heldUntil = w.now.Add(4 * time.Minute)
	case 10, 12:
		w.note("the BMC restarts")
		w.deadUntil, w.blindUntil = w.now.Add(30*time.Second), w.now.Add(90*time.Second)
		if w.choose(3) == 1 {
			w.note("somebody switches on meanwhile")
			w.switchTo(true)
			w.hung = true
		}
	}
}

// Facts are read by the runner.
func (w *world) Facts(context.Context) (Facts, error) {
	w.happen()
	w.pass(time.Duration(w.choose(3)) * 100 * time.Millisecond)
	if w.stale = w.choose(40) == 1; w.stale {
		return Facts{Over: w.now.Sub(w.begun) > 20*time.Minute}, errDied
	}
	answers := w.on && !w.hung
	w.factsAt = w.now
	w.facts = Facts{Over: w.now.Sub(w.begun) > 20*time.Minute, Confirmed: w.choose(8) != 1 && !w.now.Before(w.heldUntil), Answers: answers, BootID: "1", Restore: w.choose(3) != 1}
	if answers {
		w.facts.BootID = fmt.Sprint(w.boot)
	}
	w.facts.Hold = w.frees && w.choose(4) != 1
	w.facts.Await = w.facts.Hold && !w.freed
	if w.choose(16) == 1 {
		w.facts.BootID = "" // not known
	}
	return w.facts, nil
}

// Keep keeps the progress, or not.
func (w *world) Keep(_ context.Context, p Progress) error {
	w.note("keep %s %s", p.Phase, p.Outcome)
	switch w.choose(12) {
	case 1:
		return errDied
	case 2: // the answer is lost
		w.keep(p)
		return errDied
	case 3:
		w.pass(10 * time.Second)
	}
	w.keep(p)
	return nil
}

func (w *world) keep(p Progress) {
	if p.Proof != nil && !w.everProof {
		w.everProof = true
		w.checkProof(*p.Proof)
	}
	switch {
	case p.Held > w.kept.Held && (p.Held != w.kept.Held+1 || p.Phase != ProvedOff || p.Proof == nil):
		w.broken("it was read off %d times, and then %d times, in phase %s", w.kept.Held, p.Held, p.Phase)
	case p.Held > w.kept.Held && (!w.lastRead.matches || w.lastRead.power != power.Off || w.lastRead.asked.Before(w.keptAt)):
		w.broken("it is said to be off by %+v, and something was kept at %s", w.lastRead, w.keptAt)
	case p.Held > w.kept.Held && (!w.facts.Await || w.facts.Answers):
		w.broken("it is said to be off, and %+v", w.facts)
	case p.Held > w.kept.Held && w.lastRead.wrong:
		w.broken("it is said to be off, and is on since its switch has restarted")
	case p.Held > w.kept.Held && w.reports:
		w.broken("it is said to be off on another program's word")
	case w.kept.Phase == ProvedOff && p.Phase == Restoring && !w.reports && w.facts.Hold && (w.facts.BootID == "1" || w.facts.BootID == "") &&
		w.lastRead.power != power.On && w.now.Sub(w.heldFrom) < w.plan().Unheard-15*time.Second: // it may take long to keep that
		w.broken("it is to be switched on, and is to stay off since %s: %+v", w.heldFrom, w.facts)
	}
	if p.Phase == ProvedOff && w.kept.Phase != ProvedOff {
		w.heldFrom = w.now
	}
	w.keptAt = w.now
	if p.Phase != Ended && p.Proof != nil && p.Outcome == PowerWasOff && !w.ordered {
		w.taken = true
	}
	w.kept, w.ordered = p, w.ordered || p.Phase == Cutting
}

func (w *world) checkProof(p Proof) {
	switch n := len(w.offReads); {
	case !p.Proves("node", "1"):
		w.broken("the proof proves nothing: %s", p)
	case n < 2:
		w.broken("a proof by %d readings in a row", n)
	case w.offReads[n-1].asked.Sub(w.offReads[0].answered) < w.plan().Gap:
		w.broken("a proof by readings that are too near")
	case p.Record().Apart < w.plan().Settled && !w.acknowledged:
		w.broken("a proof by readings that are too near, and no off was acknowledged")
	case w.facts.Answers:
		w.broken("a proof while the node answers")
	case !w.oldEnded && !w.lied:
		w.broken("a proof, and the boot goes on")
	}
}

// Read is the BMC's.
func (w *world) Read(context.Context, power.UUID) (r power.Reading, err error) {
	asked := w.now
	w.pass(time.Duration(1+w.choose(4)) * 30 * time.Millisecond)
	r = power.Reading{GUID: power.GUID(power.GUID(w.plan().Machine).In(power.SMBIOS)), Power: power.Off, Reported: w.reports}
	if w.on && !w.now.Before(w.blindUntil) {
		r.Power = power.On
	}
	switch c := w.choose(16); {
	case c == 1, w.now.Before(w.deadUntil):
		w.pass(CallTimeout)
		err = errTimeout
	case c == 2:
		r.GUID[3]++ // another machine's
	case c == 3:
		r.GUID = power.GUID{} // it does not know
	case c == 4 && !w.now.Before(w.blindUntil):
		r.Power = power.On
	case c == 5:
		r.Power = power.Changing
	case c == 6:
		w.lied = w.lied || w.on
		r.Power = power.Off
	}
	_, matches := r.GUID.Matches(w.plan().Machine)
	w.misled = !w.on && r.Power == power.On
	w.lastRead = read{asked, w.now, r.Power, matches && err == nil, w.on && w.now.Before(w.blindUntil)}
	if w.lastRead.matches && r.Power == power.Off {
		w.offReads = append(w.offReads, w.lastRead)
	} else {
		w.offReads = nil
	}
	w.note("read %s, %v, %v", r.Power, matches, err)
	return r, err
}

func (w *world) Off(ctx context.Context, machine power.UUID, still power.Still) error {
	login := 100 * time.Millisecond
	if w.choose(4) == 1 {
		login = 15 * time.Second
	}
	w.pass(login)
	if err := still.Holds(ctx); err != nil {
		w.note("no off: %v", err)
		return err
	}
	w.note("off")
	switch {
	case machine != w.plan().Machine:
		w.broken("another machine is switched off")
	case w.kept.Phase != Cutting:
		w.broken("it is switched off in phase %s", w.kept.Phase)
	case !w.facts.Confirmed || w.facts.Answers || w.facts.BootID != "1":
		w.broken("it is switched off although %+v", w.facts)
	case w.now.Sub(w.factsAt) > maxAge:
		w.broken("it is switched off by facts of %s", w.factsAt)
	case !w.lastRead.matches || w.lastRead.power == power.Off || w.now.Sub(w.lastRead.answered) > w.plan().Poll+maxAge+login+maxAge:
		w.broken("it is switched off after reading %+v", w.lastRead)
	}
	w.offSent, w.stands, w.offReads = true, w.reports, nil
	w.acknowledged = false
	switch c := w.choose(8); {
	case c == 1, w.now.Before(w.deadUntil):
		w.pass(CallTimeout)
		return errTimeout
	case w.now.Before(w.blindUntil): // it is off, so there is nothing to do
	case c == 2: // it is executed all the same
		w.cutAt = w.now.Add(time.Second)
		return errTimeout
	case c == 3:
		w.cutAt = w.now.Add(10 * time.Second)
	case c == 4: // acknowledged, and forgotten
	case c == 5: // when nobody expects it any more
		w.cutAt = w.now.Add(170 * time.Second)
	default:
		w.cutAt = w.now.Add(50 * time.Millisecond)
	}
	w.acknowledged = true
	return nil
}

func (w *world) On(_ context.Context, machine power.UUID, _ power.Still) error {
	w.note("on")
	switch {
	case machine != w.plan().Machine:
		w.broken("another machine is switched on")
	case w.kept.Phase != Restoring && (!w.reports || w.kept.Phase != Watching):
		w.broken("it is switched on in phase %s", w.kept.Phase)
	case !w.ordered && (!w.takesOff || !w.taken || w.kept.Proof == nil):
		w.broken("it is switched on, and was not to be switched off")
	case w.kept.Proof != nil && !w.facts.Restore && (!w.reports || !w.ordered):
		w.broken("it is switched on under somebody's hands")
	case !w.ordered && w.stale:
		w.broken("it is switched on, and nobody knows whether it is held")
	}
	w.offReads = nil
	switch w.choose(6) {
	case 1:
		return errTimeout
	case 2: // acknowledged, and forgotten
		w.stands = false
	default:
		w.stands = false
		w.cutAt = time.Time{}
		w.switchTo(true)
	}
	return nil
}

func (*world) Shutdown(context.Context, power.UUID, power.Still) error { return power.ErrUnsupported }

func (*world) Identify(context.Context, power.UUID, bool) (time.Duration, error) {
	return 0, power.ErrUnsupported
}
func (*world) String() string { return "a BMC" }

func (w *world) plan() Plan {
	p := DefaultPlan()
	p.Node, p.BootID, p.Machine, p.Reader, p.Switch = "node", "1", machine, "the search", "a BMC"
	p.TakeOff = w != nil && w.takesOff
	return p
}

// search plays a world until the power cycle has ended, and returns the outcome.
func search(t testing.TB, choices []byte) Outcome {
	w := &world{t: t, choices: choices, now: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC), on: true, boot: 1, hung: true, frees: len(choices)%4 == 1, takesOff: len(choices)%4 <= 1, reports: len(choices)%12 >= 8}
	w.begun = w.now
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for lives := 0; ; lives++ {
		if lives > len(choices)+2 {
			w.broken("it does not end")
		}
		runner := Runner{Clock: clockOf{world: w}, Switch: w, Facts: w.Facts, Keep: w.Keep}
		_, err := runner.Run(ctx, w.plan(), w.kept)
		switch {
		case err == nil:
			w.checkEnd()
			return w.kept.Outcome
		case !errors.Is(err, errDied):
			w.broken("the runner fails: %v", err)
		}
		w.note("the runner dies")
		w.offReads = nil // what it has read, nobody knows
		if w.kept.Phase == ProvedOff {
			w.heldFrom = w.now
		}
		w.pass(time.Duration(w.choose(3)) * 10 * time.Second)
	}
}

func (w *world) checkEnd() {
	k := w.kept
	switch k.Outcome {
	case PowerCycled:
		if k.Proof == nil || w.lastRead.power != power.On || !w.ordered && !w.taken {
			w.broken("it has ended %s with %+v after reading %+v", k.Outcome, k.Proof, w.lastRead)
		}
	case PowerWasOff:
		if k.Proof == nil || w.offSent {
			w.broken("it has ended %s with %+v, off sent: %t", k.Outcome, k.Proof, w.offSent)
		}
	case NotTheMachine, NoAnswer, NotConfirmed, CameOn:
		if w.offSent {
			w.broken("it has ended %s, and was switched off", k.Outcome)
		}
	case PowerStillOff:
		if w.lastRead.power == power.On && w.lastRead.matches {
			w.broken("it has ended %s after reading on", k.Outcome)
		}
	case NewBoot:
		if w.boot == 1 {
			w.broken("it has ended %s, and there was none", k.Outcome)
		}
	case NodeAnswers, PowerStillOn, WentOffLate:
	default:
		w.broken("it has ended %q", k.Outcome)
	}
	if !w.on && w.offSent && !w.touched && !w.misled && w.lastRead.matches && k.Outcome != PowerStillOff {
		w.broken("it has ended %s, and the machine is left off", k.Outcome)
	}
	if says := strings.Contains(k.Message, "nobody has acknowledged"); w.stands && !says || says && (!w.reports || !w.ordered) {
		w.broken("it has ended %s, an off stands: %t, and it says %q", k.Outcome, w.stands, k.Message)
	}
	if k.Message == "" && k.Outcome != PowerCycled {
		w.broken("it has ended %s and does not say why", k.Outcome)
	}
	if k.Proof != nil && (k.Outcome == NodeAnswers || k.Outcome == PowerStillOn) {
		w.broken("it has ended %s with a proof", k.Outcome)
	}
}
