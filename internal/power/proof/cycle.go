package proof

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodemend/nodemend/internal/power"
)

// Cycle switches a machine off and on again: it decides what is done next. It is not safe for
// concurrent use.
//
// The caller calls Next, keeps Progress, does what the Step says, tells it by Saw or
// Switched, and calls Next again. Times are of one monotonic clock.
type Cycle struct {
	plan Plan
	kept Progress

	since    time.Time // when the phase began, as far as this runner knows
	last     *reading  // the last one, unless something was switched after it
	firstOff *reading  // of those in a row
	sent     time.Time // when an off or on was sent in this phase; zero: not by this runner
	known    bool      // the last answer was On: the switch has found the machine
	heard    time.Time // when it last answered since it has acknowledged an off, each time; zero: it has not
	trouble  error     // why the last reading or order was none
	wasOff   bool      // off was read in this phase, of Cutting since an off was sent
	told     bool      // the last reading is counted in Held
	reported bool      // what it says is Reported, as far as is known: it may be old, and an off stands until it is taken back
	back     bool      // an on was acknowledged in this phase, which takes back what stands
	off      time.Time // of ProvedOff: when off was last read without a break since it was proved; zero: it has to be anew
	anew     bool      // of ProvedOff: it had to be
}

// New returns a Cycle that goes on from what was kept: the zero Progress for one that has not
// begun. now is when it begins or goes on.
func New(plan Plan, kept Progress, now time.Time) (*Cycle, error) {
	if err := plan.Validate(); err != nil {
		return nil, fmt.Errorf("the plan of a power cycle is wrong: %w", err)
	}
	if kept.Phase == "" {
		kept.Phase = Looking
	}
	proved := kept.Proof != nil && kept.Proof.Proves(plan.Node, plan.BootID)
	switch kept.Phase {
	case Looking, Cutting, Restoring, Watching, Ended:
	case ProvedOff:
		switch { // of another boot, say: prove it anew
		case proved:
		case kept.Outcome == PowerWasOff: // nothing was switched
			kept.Phase, kept.Outcome, kept.Message = Looking, "", ""
		default:
			kept.Phase = Cutting
		}
	default:
		return nil, fmt.Errorf("a power cycle has no phase %q", kept.Phase)
	}
	if !proved {
		kept.Proof, kept.Held = nil, 0
	}
	return &Cycle{plan: plan, kept: kept, since: now, anew: true}, nil
}

// Progress returns what is to be kept.
func (c *Cycle) Progress() Progress { return c.kept }

// Saw tells what a switch has answered to a reading that was asked for at this time.
func (c *Cycle) Saw(asked, answered time.Time, r power.Reading, err error) {
	if err == nil {
		err = power.Check(r.GUID, c.plan.Machine)
	}
	got := reading{asked: asked, answered: answered, Reading: r, err: err}
	unwatched := c.last != nil && asked.Sub(c.last.answered) > c.plan.Repeat
	c.last, c.trouble, c.told = &got, err, false
	if err == nil || r.Reported {
		c.reported = r.Reported
	}
	c.known = err == nil && r.Power == power.On && !r.Reported
	c.wasOff = c.wasOff || got.isOff(c.plan.Machine)
	if !got.isOff(c.plan.Machine) || unwatched {
		c.firstOff = nil
	}
	switch {
	case !got.isOff(c.plan.Machine) || asked.Sub(c.off) > c.plan.Repeat: // it may have restarted, and be on by now
		c.off = time.Time{}
	case !c.off.IsZero():
		c.off = answered
	}
	switch {
	case err != nil || asked.Sub(c.heard) > c.plan.Repeat: // it may have restarted
		c.heard = time.Time{}
	case !c.heard.IsZero():
		c.heard = answered
	}
}

// Switched tells that an off or on was sent, and what came of it.
func (c *Cycle) Switched(at time.Time, err error) {
	c.sent, c.trouble = at, err
	c.last, c.firstOff = nil, nil // what was read before does not tell
	c.heard = time.Time{}
	if err == nil && c.kept.Phase == Cutting && c.known {
		c.heard = at
	}
	c.known, c.back = false, c.back || err == nil && c.kept.Phase != Cutting
}

// gap returns how far apart readings of off have to be. A switch that has said on, has
// acknowledged our off, and has answered ever since, knows its machine. Any other may have
// restarted, and say off until it has found the machine, which runs; or repeat what was read before.
func (c *Cycle) gap() time.Duration {
	if c.heard.IsZero() {
		return c.plan.Settled
	}
	return c.plan.Gap
}

// Next decides what is done next.
func (c *Cycle) Next(now time.Time, f Facts) Step {
	switch {
	case c.kept.Phase == Ended:
		return Step{Do: End}
	case c.newBoot(f) && c.kept.Phase == Looking:
		return c.end(NewBoot, "nothing was switched: the node has booted since, its boot ID is "+f.BootID)
	case c.newBoot(f) && c.kept.Phase != Restoring:
		// The boot is over. An off that we have sent may have come after it.
		c.enter(Restoring, now)
	}
	switch c.kept.Phase {
	case Looking:
		return c.look(now, f)
	case Cutting:
		return c.cut(now, f)
	case ProvedOff:
		return c.provedOff(now, f)
	case Watching:
		return c.watch(now, f)
	default:
		return c.restore(now, f)
	}
}

// provedOff is Next from when there is a proof. The power comes back when what the boot had is
// freed, or nobody frees it, or that takes too long. It is not kept off where nobody knows when it was read
// so: then nothing may be freed.
func (c *Cycle) provedOff(now time.Time, f Facts) Step {
	// An off of ours that stands is taken back in any case.
	waits := !c.mayRestore(f) && !c.stands()
	switch {
	case f.Answers && !f.Stale: // the boot that is over
		c.kept.Proof = nil
		if c.cameOff() { // what goes off later, somebody else has switched off
			return c.end(NotTheMachine, "nothing was switched: "+c.plan.Switch+" said Off, and the node answers since: it does not tell the truth, or switches another machine")
		}
		return c.giveUp(now, f, PowerStillOn, c.plan.Switch+" said Off, and the node answers since: it does not tell the truth, or switches another machine. Nothing may be freed")
	case c.last != nil && c.last.err == nil && c.last.Power == power.On: // somebody has switched it on
		c.enter(Restoring, now)
		return c.restore(now, f)
	case f.Hold && !c.reported && now.Sub(c.since) < c.plan.Hold && (!f.Await || now.Sub(c.since) < c.unheard()):
		return c.hold(now, f)
	case c.cameOff() && !f.Restore && !f.Stale:
		return c.end(PowerWasOff, "nothing was switched: the power was off already, and stays off, since something holds the node by now")
	case c.cameOff() && f.Stale && f.Over:
		return c.end(PowerWasOff, "nothing was switched: the power was off already, and stays off, since nobody knows whether something holds the node by now")
	case waits && c.late(now) && !c.cameOff():
		return c.end(PowerStillOff, "the power is off, and may not be switched on any more: the node has booted since")
	case waits:
		return Step{Do: Wait, For: c.plan.Poll}
	}
	c.enter(Restoring, now)
	return Step{Do: SetOn}
}

// hold keeps the machine off, and counts how often it was read so.
func (c *Cycle) hold(now time.Time, f Facts) Step {
	if c.last == nil {
		return Step{Do: Read}
	}
	if f.Await && !f.Stale && !f.Answers && !c.told && c.stillOff() && now.Sub(c.last.answered) <= c.plan.Repeat {
		c.kept.Held++
		c.told = true
		return Step{Do: Wait, For: c.plan.Poll}
	}
	return c.readAgain(now, c.plan.Poll)
}

// stillOff reports whether the last reading says that the machine is off as it was proved to be. A switch that did not
// answer for a while may have restarted, and say off until it has found its machine, which somebody has switched on: it
// is believed again after as long as for a proof.
func (c *Cycle) stillOff() bool {
	switch {
	case !c.off.IsZero():
		return true
	case !c.last.isOff(c.plan.Machine):
	case c.firstOff == nil:
		c.firstOff = c.last
	case c.last.asked.Sub(c.firstOff.answered) >= c.plan.Settled:
		c.off = c.last.answered
		return true
	}
	c.anew = true
	return false
}

// unheard is how long nobody may begin to free what the boot had.
func (c *Cycle) unheard() time.Duration {
	if c.anew {
		return c.plan.Settled + c.plan.Unheard
	}
	return c.plan.Unheard
}

func (c *Cycle) newBoot(f Facts) bool { return f.BootID != "" && f.BootID != c.plan.BootID }

// enter begins a phase, in which nothing has been read yet.
func (c *Cycle) enter(phase Phase, now time.Time) {
	c.kept.Phase, c.since = phase, now
	c.last, c.firstOff, c.sent, c.heard, c.trouble, c.wasOff, c.back = nil, nil, time.Time{}, time.Time{}, nil, false, false
	c.off, c.anew = time.Time{}, false
}

// enterProvedOff is after the reading that has proved it.
func (c *Cycle) enterProvedOff(now time.Time) {
	read := c.last.answered
	c.enter(ProvedOff, now)
	c.off = read
}

// cameOff reports whether the power was off when we came: nothing was cut.
func (c *Cycle) cameOff() bool { return c.kept.Outcome == PowerWasOff }

// mayRestore reports whether the machine may be switched on. What we have not cut, people may keep off, and
// nobody knows what they say as long as the facts are stale.
func (c *Cycle) mayRestore(f Facts) bool { return f.Restore && (!f.Stale || !c.cameOff()) }

// stands reports whether an off that was sent may stand as an order, which its program carries out
// whenever it can, however long ago the node was dead.
func (c *Cycle) stands() bool { return c.reported && !c.back && !c.cameOff() }

// takeBack takes an order back that stands, and again if nobody knows whether it is.
func (c *Cycle) takeBack(now time.Time) (Step, bool) {
	if !c.stands() || !c.sent.IsZero() && now.Sub(c.sent) < c.plan.Repeat {
		return Step{}, false
	}
	return Step{Do: SetOn}, true
}

// giveUp waits no longer for a proof. An off that was sent may still take effect.
func (c *Cycle) giveUp(now time.Time, f Facts, outcome Outcome, message string) Step {
	c.enter(Watching, now)
	c.kept.Outcome, c.kept.Message = outcome, message
	return c.watch(now, f)
}

func (c *Cycle) end(outcome Outcome, message string) Step {
	if c.stands() && c.kept.Phase != Looking {
		message = strings.TrimPrefix(message+". ", ". ") + "That the off was taken back nobody has acknowledged, so it may be carried out any time: look at " + c.plan.Switch
	}
	c.kept.Phase, c.kept.Outcome, c.kept.Message = Ended, outcome, message
	return Step{Do: End}
}

// look is Next before anything was switched.
func (c *Cycle) look(now time.Time, f Facts) Step {
	late := c.late(now)
	switch {
	case f.Answers:
		return c.end(NodeAnswers, "nothing was switched: the node answers again")
	case c.last == nil:
		return Step{Do: Read}
	case c.last.err != nil && isOther(c.last.err):
		return c.end(NotTheMachine, "nothing was switched: "+c.last.err.Error())
	case c.last.err != nil && (late || errors.Is(c.last.err, power.ErrLogin)): // BMCs lock out who tries too often
		return c.end(NoAnswer, "nothing was switched: "+c.last.err.Error())
	case c.last.err != nil:
		return c.readAgain(now, c.plan.Poll)
	case c.last.Power == power.Off && f.Confirmed && f.BootID != "":
		if c.proved() {
			if c.plan.TakeOff {
				c.enterProvedOff(now)
				c.kept.Outcome, c.kept.Message = PowerWasOff, "the power was off already, and was switched on"
				return c.Next(now, f)
			}
			return c.end(PowerWasOff, "nothing was switched: the power was off already, so somebody or something has switched it off")
		}
		if c.unsettled(now) {
			return c.end(NoAnswer, "nothing was switched: "+c.trouble.Error())
		}
		return c.readAgain(now, c.plan.Gap)
	case c.wasOff && c.last.Power == power.On: // and the node does not answer, as long as it boots
		return c.end(CameOn, "nothing was switched: the power was off, and is on now, so somebody or something has switched it on")
	case c.last.Power == power.Changing && late:
		return c.end(NotConfirmed, "nothing was switched: "+c.saying())
	case (!f.Confirmed || f.BootID == "") && late:
		return c.end(NotConfirmed, fmt.Sprintf("nothing was switched: within %s, no check has confirmed the fault of boot %s, or something else held it", c.plan.GiveUp, c.plan.BootID))
	case !f.Confirmed, f.BootID == "", c.last.Power == power.Changing:
		return c.readAgain(now, c.plan.Poll)
	case now.Sub(c.last.answered) > c.plan.Poll: // it may have been switched off since
		return Step{Do: Read}
	}
	c.enter(Cutting, now)
	return Step{Do: SetOff}
}

// cut is Next from when an off may have been sent.
func (c *Cycle) cut(now time.Time, f Facts) Step {
	switch {
	case c.last == nil:
		if c.late(now) {
			return c.stillOn(now, f)
		}
		return Step{Do: Read}
	case c.last.isOff(c.plan.Machine) && !f.Answers && !f.Stale:
		if c.proved() {
			c.enterProvedOff(now)
			return c.Next(now, f)
		}
		if c.unsettled(now) {
			return c.stillOn(now, f)
		}
		return c.readAgain(now, c.plan.Gap)
	case c.late(now):
		return c.stillOn(now, f)
	}
	again := c.sent.IsZero() || now.Sub(c.sent) >= c.plan.Repeat
	switch {
	case c.last.err != nil:
	case c.wasOff && c.last.Power == power.On:
		return c.giveUp(now, f, PowerStillOn, "the power was switched off, was read off, and is on again: somebody has switched it on, or the switch does not tell the truth. Nothing was freed")
	case f.Answers:
		c.firstOff = nil // whatever the switch says
		if c.last.Power == power.On && again && now.Sub(c.since) >= c.plan.Repeat {
			return c.giveUp(now, f, NodeAnswers, "the node answers again; an off that may have been sent has had no effect")
		}
	case f.cut(c.plan.BootID) && again && now.Sub(c.last.answered) <= c.plan.Poll:
		return Step{Do: SetOff}
	}
	return c.readAgain(now, c.plan.Poll)
}

// watch is Next from when nobody waits for a proof any more. What goes off now, we have switched
// off.
func (c *Cycle) watch(now time.Time, f Facts) Step {
	if step, is := c.takeBack(now); is && (!c.late(now) || !f.Over) {
		return step
	}
	switch {
	case c.last == nil && (!c.late(now) || !f.Over):
		return Step{Do: Read}
	case c.last != nil && c.last.isOff(c.plan.Machine) && (!f.Answers || f.Stale):
		c.enter(Restoring, now)
		c.kept.Outcome, c.kept.Message = "", ""
		return Step{Do: SetOn}
	case c.late(now) && c.last != nil && c.last.err == nil && c.last.Power == power.On && !c.stands():
		return c.end(c.kept.Outcome, c.kept.Message)
	case c.late(now) && f.Over:
		return c.end(c.kept.Outcome, c.kept.Message+". Later: "+c.saying())
	}
	return c.readAgain(now, c.plan.Gap)
}

// restore is Next from when an on may have been sent. A machine that we have cut is tried for as
// long as there is time; one that has booted since the proof, and is off, somebody has switched off.
func (c *Cycle) restore(now time.Time, f Facts) Step {
	over := c.late(now) && (f.Over || c.kept.Proof != nil && !f.Restore && !c.stands())
	if step, is := c.takeBack(now); is && !over {
		return step
	}
	switch {
	case c.last == nil:
		if over {
			return c.neverOn()
		}
		return Step{Do: Read}
	case c.stands() && !over:
		return c.readAgain(now, c.plan.Poll)
	case c.last.err == nil && c.last.Power == power.On && c.kept.Proof != nil:
		return c.end(PowerCycled, c.kept.Message)
	case c.last.err == nil && c.last.Power == power.On && !c.late(now):
		return c.readAgain(now, c.plan.Gap) // an off that we have sent may still take effect
	case c.last.err == nil && c.last.Power == power.On && c.newBoot(f):
		return c.end(NewBoot, "the node has booted since, its boot ID is "+f.BootID+"; its power is on")
	case c.last.err == nil && c.last.Power == power.On:
		return c.end(WentOffLate, "its power went off late, when nobody waited for it any more, and was switched on again. Nothing was freed")
	case over:
		return c.neverOn()
	case (c.kept.Proof != nil || c.cameOff()) && !c.mayRestore(f):
		// The node has booted after the proof: if it is off again, somebody has switched it off. Or people
		// keep off what was off when we came.
	case c.last.err == nil && c.last.Power == power.Off && (c.sent.IsZero() || now.Sub(c.sent) >= c.plan.Repeat):
		return Step{Do: SetOn}
	}
	return c.readAgain(now, c.plan.Poll)
}

// proved reports whether the last reading is the second of off, of two that prove it.
func (c *Cycle) proved() bool {
	if c.firstOff == nil {
		c.firstOff = c.last
		return false
	}
	p, err := prove(c.plan, c.gap(), *c.firstOff, *c.last)
	if err == nil {
		c.kept.Proof = &p
	}
	return err == nil
}

// readAgain reads when it is time to, after the last reading. BMCs lock out who tries to log in
// too often.
func (c *Cycle) readAgain(now time.Time, after time.Duration) Step {
	if errors.Is(c.last.err, power.ErrLogin) {
		after = max(after, c.plan.Repeat)
	}
	if passed := now.Sub(c.last.answered); passed < after {
		return Step{Do: Wait, For: after - passed}
	}
	return Step{Do: Read}
}

func (c *Cycle) late(now time.Time) bool { return now.Sub(c.since) >= c.plan.GiveUp }

// unsettled reports whether it takes too long until off has been read for long enough.
func (c *Cycle) unsettled(now time.Time) bool {
	if now.Sub(c.since) < c.plan.GiveUp+c.plan.Settled {
		return false
	}
	c.trouble = fmt.Errorf("%w: %s says Off, but was not read for %s without a break", power.ErrNoAnswer, c.plan.Switch, c.gap())
	return true
}

func (c *Cycle) stillOn(now time.Time, f Facts) Step {
	return c.giveUp(now, f, PowerStillOn, fmt.Sprintf("the power was switched off, but %s later there is no proof that it is: %s. Nothing was freed", c.plan.GiveUp, c.saying()))
}

func (c *Cycle) neverOn() Step {
	return c.end(PowerStillOff, fmt.Sprintf("the power was switched on, or the node has booted by itself, but %s later it is not on: %s", c.plan.GiveUp, c.saying()))
}

// saying is the last that was heard of the switch.
func (c *Cycle) saying() string {
	switch {
	case c.trouble != nil:
		return c.trouble.Error()
	case c.last == nil:
		return "it was not read since"
	case c.last.Power == power.Off && c.kept.Phase == Cutting:
		return c.plan.Switch + " says Off, but the node answers"
	default:
		return fmt.Sprintf("%s says %s", c.plan.Switch, c.last.Power)
	}
}

// isOther reports whether the error is of a switch that is not that of the machine.
func isOther(err error) bool {
	return errors.Is(err, power.ErrOtherMachine) || errors.Is(err, power.ErrNoIdentity)
}
