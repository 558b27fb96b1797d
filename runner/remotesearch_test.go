package runner

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// chance lets things happen to a dead node, its BMC, its remote runners and what people say, as
// a seed says: at first often, and then no more.
type chance struct {
	*deadNode
	rand   *rand.Rand
	events int
	// touched: somebody else has switched the power.
	touched bool
	// heldAt is since when people hold it; lied: the BMC has said off of what was on.
	heldAt time.Time
	lied   bool
	w, old *RemoteWorker
	nested bool
}

// happen is called before each call.
func (c *chance) happen(int) {
	if c.lies && c.on {
		c.lied = true
	}
	if c.events == 0 || c.nested || c.rand.IntN(7) > 0 {
		return
	}
	c.events--
	switch c.rand.IntN(20) {
	case 0, 1:
		c.died, c.lost = true, c.rand.IntN(2) == 0
	case 2:
		if c.on {
			c.note("event: the node answers")
			c.wake()
			c.said, c.heard = c.boot, c.now
		}
	case 3:
		c.note("event: the node falls silent")
		c.hung, c.upAt = true, time.Time{}
	case 4:
		if c.on {
			c.note("event: the machine boots by itself")
			c.boot++
			c.hung, c.upAt = true, c.now.Add(10*time.Second)
		}
	case 5:
		c.note("event: somebody switches off")
		c.touched = true
		c.on, c.upAt = false, time.Time{}
	case 6:
		c.note("event: somebody switches on")
		c.touched = true
		c.switchOn()
	case 7:
		c.lies = !c.lies
	case 8:
		c.deaf = !c.deaf
	case 9:
		c.readErr = map[bool]error{true: nil, false: power.ErrNoAnswer}[c.readErr != nil]
	case 10:
		c.offErr = map[bool]error{true: nil, false: power.ErrNoAnswer}[c.offErr != nil]
	case 11:
		c.onTheWay = time.Duration(c.rand.IntN(12)) * time.Second
	case 12:
		c.guid[7]++
	case 13:
		c.guid[7]--
	case 14:
		c.note("event: paused, or no longer")
		if c.pause == nil {
			c.pause, c.heldAt = clusterPause(), c.now
		} else {
			c.pause, c.heldAt = nil, time.Time{}
		}
	case 15:
		c.pass(time.Duration(c.rand.IntN(60)) * time.Second)
	case 17:
		c.note("event: the node is deleted, or created anew")
		if c.nodeGone = !c.nodeGone; !c.nodeGone {
			c.nodeUID += "-again"
		}
	case 18:
		c.note("event: a maintenance begins, or ends")
		if c.holds.Maintenances == nil {
			c.holds.Maintenances, c.heldAt = maintenances(""), c.now
		} else {
			c.holds.Maintenances = nil
		}
	case 19:
		if c.action != nil && c.action.Status.Power != nil && deadline.MayBeOff(c.action, c.now) {
			c.note("event: the action is deleted")
			c.deleteAction()
		}
	case 16: // another one believes to lead, for a while
		c.note("event: %s goes on", c.old.RunnerID)
		c.nested = true
		stop := c.calls + c.rand.IntN(60)
		c.happens = func(now int) { c.died = now >= stop }
		_ = c.run(c.old)
		c.died, c.happens, c.nested = false, c.happen, false
	}
}

// calm lets all be well, but for what cannot be taken back.
func (c *chance) calm() {
	c.events, c.lies, c.deaf, c.readErr, c.offErr, c.onTheWay, c.pause, c.heldAt = 0, false, false, nil, nil, 0, nil, time.Time{}
	c.holds, c.nodeGone = Holds{}, false
	machine, err := power.ParseUUID(machineUUID)
	must(c.T, err)
	c.guid = power.GUID(machine)
}

// play plays a seed, and returns how it has ended.
func play(t *testing.T, seed uint64) string {
	t.Helper()
	c := &chance{deadNode: newDeadNode(t), rand: rand.New(rand.NewPCG(seed, 1)), events: 12}
	c.w, c.old = c.worker("runner-0"), c.worker("runner-old")
	c.happens = c.happen
	c.mayCut = func() string {
		if (c.pause != nil || c.holds.Maintenances != nil) && c.now.Sub(c.heldAt) > 6*time.Second {
			return "people hold the node"
		}
		return ""
	}
	for tries := 0; c.outcome() == ""; tries++ {
		if tries > 20 {
			c.calm()
		}
		if tries > 60 {
			t.Fatalf("seed %d: it does not end: %+v\n%s", seed, c.action.Status, c.story())
		}
		if err := c.run(c.w); err != nil {
			c.pass(time.Second)
		}
		if c.died {
			c.died = false
			c.w = c.worker("runner-" + string(rune('a'+tries%26)))
		}
	}
	c.pass(proof.Straggle) // nothing comes later
	c.check(seed)
	return c.outcome()
}

// check compares what was reported with the truth.
func (c *chance) check(seed uint64) {
	c.Helper()
	machine, err := power.ParseUUID(machineUUID)
	must(c.T, err)
	status := c.action.Status
	var proved *v1alpha1.PowerProof
	if status.Power != nil {
		proved = status.Power.Proof
	}
	over := c.boot > 1 || !c.on || len(c.cuts) > 0
	switch {
	case proved != nil && !over && !c.lied:
		c.Errorf("seed %d: a proof, and boot 1 goes on\n%s", seed, c.story())
	case c.outcome() == v1alpha1.ReasonSucceeded && (c.said < 2 || status.Result.BootIDAfter == "boot-1"):
		c.Errorf("seed %d: it has succeeded without a boot\n%s", seed, c.story())
	case c.outcome() == v1alpha1.ReasonPowerWasOff && (c.offs > 0 || proved == nil && status.Power.Outcome != string(proof.CameOn)):
		c.Errorf("seed %d: %d offs, and the power was off\n%s", seed, c.offs, c.story())
	case c.offs > 0 && !v1alpha1.MayHaveExecuted(c.outcome()):
		c.Errorf("seed %d: %d offs, and it has ended as %s\n%s", seed, c.offs, c.outcome(), c.story())
	case c.outcome() == v1alpha1.ReasonSucceeded && !c.touched && !c.on:
		c.Errorf("seed %d: it has succeeded, and the machine is off\n%s", seed, c.story())
	case !c.on && !c.touched && !c.lied && c.readErr == nil && power.Check(c.guid, machine) == nil && status.Claim != nil && c.now.Before(status.Claim.Time.Add(15*time.Minute)):
		c.Errorf("seed %d: it has ended as %s, and the machine is left off\n%s", seed, c.outcome(), c.story())
	}
}

func TestWhateverHappensPowerIsCutByTheRulesAndTheReportIsTrue(t *testing.T) {
	ended := map[string]int{}
	for seed := range uint64(1500) {
		ended[play(t, seed)]++
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for _, reason := range []string{
		v1alpha1.ReasonSucceeded, v1alpha1.ReasonNotNeeded, v1alpha1.ReasonRefused, v1alpha1.ReasonPowerWasOff, v1alpha1.ReasonPowerStillOn, v1alpha1.ReasonStartFailed,
	} {
		if ended[reason] == 0 {
			t.Errorf("none has ended as %s: %v", reason, ended)
		}
	}
	t.Log(ended)
}
