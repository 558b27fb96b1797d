package sim

import (
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nodemend/nodemend/checks/statefile"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

// oldState lets the detector of a node find its state file as it was a while before, as on
// a disk that had not written it when the power was lost.
func (w *world) oldState() bool {
	n := of(w.choices, w.nodes...)
	old, err := statefile.Load(n.stateFile(), n.name)
	if err != nil {
		return false // there is none
	}
	w.after(w.while(), func() {
		if d := n.detector; d != nil && !d.dead.Load() && w.chaos && !fromTheFuture(old) {
			w.end(d.process)
			w.say("host "+n.name, "the state file is an older one")
			w.must(statefile.Save(n.stateFile(), old))
			n.again(of(w.choices, time.Second, time.Minute), n.startDetector)
		}
	})
	return true
}

// fromTheFuture reports whether a state file has changes that are still to come: of a process
// whose clock was wrong, and that nobody could tell. Such a clock is believed.
func fromTheFuture(file statefile.State) bool {
	return slices.ContainsFunc(file.Conditions, func(c statefile.Condition) bool { return c.LastTransitionTime.After(time.Now()) })
}

// hangChecks lets all checks of a node hang, while its exporter lives on.
func (w *world) hangChecks() bool {
	n := w.anyNode(func(n *node) bool { return !n.blind })
	if n == nil {
		return false
	}
	n.blind = true
	w.say("host "+n.name, "its checks hang")
	w.after(w.while(), func() { n.blind = false })
	return true
}

// confuseCheck lets a check say for a while that it could not tell.
func (w *world) confuseCheck() bool {
	n := of(w.choices, w.nodes...)
	condition := of(w.choices, conditions()...)
	n.unsure[condition] = true
	w.say("host "+n.name, "whether it is %s cannot be told", condition)
	w.after(w.while(), func() { delete(n.unsure, condition) })
	return true
}

// changeRunner gives a node a runner that only says what it would do, or an older one, for a
// while.
func (w *world) changeRunner() bool {
	n := w.anyNode(func(n *node) bool { return n.runs == usual && n.runner != nil && !n.runner.dead.Load() })
	if n == nil {
		return false
	}
	n.runs = of(w.choices, dry, old)
	n.startRunner()
	w.after(w.while(), func() {
		n.runs = usual
		if !n.runner.dead.Load() {
			n.startRunner()
		}
	})
	return true
}

// missProgram takes what commands and units need from a host for a while.
func (w *world) missProgram() bool {
	n := of(w.choices, w.nodes...)
	n.lacks = of(w.choices, lacking, masked)
	w.say("host "+n.name, "programs and units are missing")
	w.after(w.while(), func() { n.lacks = nil })
	return true
}

// lacking says what comes of an order on a host that has no program and no unit.
func lacking(order remedy.Order) *remedy.Outcome {
	switch order.Step.Remedy() {
	case v1alpha1.RemedyCommand:
		return &remedy.Outcome{Reason: v1alpha1.ReasonStartFailed, Message: "no such program"}
	case v1alpha1.RemedyRestartUnit:
		return &remedy.Outcome{Reason: v1alpha1.ReasonUnitNotFound, Message: "no such unit"}
	default:
		return nil
	}
}

// masked says what comes of an order on a host whose units somebody has masked.
func masked(order remedy.Order) *remedy.Outcome {
	if order.Step.Remedy() != v1alpha1.RemedyRestartUnit {
		return nil
	}
	return &remedy.Outcome{Reason: v1alpha1.ReasonUnitMasked, Message: "it is masked"}
}

// loseLedger kills a runner and takes its ledger away.
func (w *world) loseLedger() bool {
	n := w.anyNode(func(n *node) bool { return n.runner != nil && !n.runner.dead.Load() })
	if n == nil {
		return false
	}
	n.loseLedger(of(w.choices, time.Second, 30*time.Second))
	return true
}

func (n *node) loseLedger(again time.Duration) {
	n.world.end(n.runner)
	n.world.say("host "+n.name, "the ledger is lost")
	_ = os.RemoveAll(n.runDir()) // a runner that starts makes it anew
	n.ledgerLost = time.Now()
	n.again(again, n.startRunner)
}

// fillDisk lets a runner write nothing into its ledger, as on a disk that is full, until it
// dies.
func (w *world) fillDisk() bool {
	n := w.anyNode(func(n *node) bool { return n.runner != nil && !n.runner.dead.Load() })
	if n == nil || os.Rename(n.entries(), n.unwritable()) != nil {
		return false
	}
	w.must(os.WriteFile(n.entries(), nil, 0o600)) // which no directory can be made in the place of
	w.say("host "+n.name, "the disk is full")
	w.after(w.while(), func() {
		if n.runner != nil && !n.runner.dead.Load() {
			n.startRunner()
		}
	})
	return true
}

// emptyDisk lets the ledger of a node be as it was when it could last be written.
func (n *node) emptyDisk() {
	if _, err := os.Stat(n.unwritable()); err == nil {
		n.world.say("host "+n.name, "the disk is empty again")
		_ = os.RemoveAll(n.entries())
		n.world.must(os.Rename(n.unwritable(), n.entries()))
	}
}

func (n *node) entries() string    { return filepath.Join(n.runDir(), "actions") }
func (n *node) unwritable() string { return filepath.Join(n.runDir(), "unwritable") }

// lookLast lets the detector of a node look for the last time in the second in which the
// next action ends, but before that, maybe by a clock that has just jumped ahead, or after
// the action was given up.
func (w *world) lookLast() bool {
	n := of(w.choices, w.nodes...)
	n.looksLast = &lastLook{ahead: of(w.choices, 0, 0, time.Hour), unknown: w.chance(400)}
	return true
}

// lastLook is how a detector looks for the last time.
type lastLook struct {
	// ahead is by how much its clock jumps ahead before.
	ahead time.Duration
	// unknown: nobody knows any more what becomes of the action.
	unknown bool
}

// endUnseen ends an execution right after the last look of the detector.
func (e *execution) endUnseen(takes time.Duration) {
	n, w := e.node, e.node.world
	last := n.looksLast
	n.looksLast = nil
	if last.unknown && n.runner != nil && !n.runner.dead.Load() {
		w.after(time.Second, func() { n.loseLedger(time.Second) })
	}
	left := time.Until(time.Now().Add(takes).Truncate(time.Second))
	w.after(left+200*time.Millisecond, func() {
		// By a clock that is wrong, what it sees may seem to be later than the action.
		if d := n.detector; d != nil && !d.dead.Load() && w.chaos && d.clock.offset+d.server.Offset() == 0 {
			w.say(d.name, "looks for the last time")
			if last.ahead > 0 {
				d.clock.offset += last.ahead
				n.jumped = time.Now()
			}
			n.demandNow()
		}
	})
	w.after(left+700*time.Millisecond, func() {
		if d := n.detector; d != nil && !d.dead.Load() && w.chaos {
			w.end(d.process)
			n.again(of(w.choices, 4*time.Minute, 10*time.Minute), n.startDetector)
		}
		e.finish()
	})
}
