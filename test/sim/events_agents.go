package sim

import (
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
	"github.com/nodemend/nodemend/test/apiserver"
)

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

// missProgram takes what commands and units need from a host for a while.
func (w *world) missProgram() bool {
	n := of(w.choices, w.nodes...)
	n.lacks = lacking
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

// loseLedger kills a runner and takes its ledger away.
func (w *world) loseLedger() bool {
	n := w.anyNode(func(n *node) bool { return n.runner != nil && !n.runner.dead.Load() })
	if n == nil {
		return false
	}
	w.end(n.runner)
	w.say("host "+n.name, "the ledger is lost")
	_ = os.RemoveAll(n.runDir()) // a runner that starts makes it anew
	n.ledgerLost = time.Now()
	n.again(of(w.choices, time.Second, 30*time.Second), n.startRunner)
	return true
}

// setTrap lets the controller die right after it has created the next action. Once that
// has finished, somebody deletes it: whoever leads next knows only that it was announced.
func (w *world) setTrap() bool {
	if w.trap != nil {
		return false
	}
	after := of(w.choices, time.Second, 10*time.Second, 40*time.Second)
	w.trap = func(name string) {
		for _, p := range w.leaders() {
			w.end(p)
		}
		w.after(after, func() {
			if a := apiserver.Peek[*v1alpha1.NodeAction](w.server, client.ObjectKey{Name: name}); a != nil && a.Finished() != nil && w.chaos {
				w.people.meddled = time.Now()
				w.remove(a.DeepCopy())
			}
			w.oneLeader()
		})
	}
	return true
}
