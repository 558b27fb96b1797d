package sim

import (
	"context"
	"runtime"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/deadline"
	"github.com/nodemend/nodemend/runner/remedy"
)

// execution is one execution of a remedy on a host.
type execution struct {
	node        *node
	order       remedy.Order
	remedy      string
	boot        int
	began, ends time.Time
	outcome     string
	// outside: a remote runner executes it.
	outside bool
	over    chan struct{}
	done    bool
}

// powerTakes is how long an off may take to have an effect, if it has one. A switch that lies ends no boot.
const powerTakes = 5 * time.Minute

// runs reports whether the execution is going on.
func (e *execution) runs() bool {
	if e.outside && e.remedy == v1alpha1.RemedyReboot && time.Since(e.began) > powerTakes {
		return false
	}
	return !e.done && e.boot == e.node.boot && e.node.up
}

// played is a remedy of which only the effect on the host is played.
type played struct {
	process *process
	name    string
}

// Prepare implements remedy.Remedy.
func (p played) Prepare(_ context.Context, order remedy.Order) (remedy.Prepared, *remedy.Outcome) {
	if lacks := p.process.node.lacks; lacks != nil && lacks(order) != nil {
		return remedy.Prepared{}, lacks(order)
	}
	return remedy.Prepared{Execution: v1alpha1.ExecutionTransientUnit}, nil
}

// Execute implements remedy.Remedy.
func (p played) Execute(ctx context.Context, order remedy.Order) *remedy.Outcome {
	return p.await(ctx, p.process.node.begin(p.name, order), order)
}

// Adopt implements remedy.Remedy.
func (p played) Adopt(ctx context.Context, order remedy.Order) *remedy.Outcome {
	n := p.process.node
	if p.name == v1alpha1.RemedyReboot {
		return p.rebooted(order)
	}
	e := n.units[order.Action]
	if e == nil {
		return &remedy.Outcome{Reason: v1alpha1.ReasonInterrupted, Message: "there is no trace of it"}
	}
	return p.await(ctx, e, order)
}

// Clean implements remedy.Remedy.
func (p played) Clean(_ context.Context, order remedy.Order) error {
	delete(p.process.node.units, order.Action)
	return nil
}

// await waits for the end of an execution; nil if the process is to stop before.
func (p played) await(ctx context.Context, e *execution, order remedy.Order) *remedy.Outcome {
	select {
	case <-e.over:
	case <-ctx.Done():
		if p.process.dead.Load() {
			runtime.Goexit()
		}
		return nil
	}
	if p.name == v1alpha1.RemedyReboot {
		return &remedy.Outcome{Reason: v1alpha1.ReasonRebootNotObserved, Message: "nothing happened"}
	}
	return &remedy.Outcome{Reason: e.outcome, Message: "played", Result: p.result(order, e.began, e.ends)}
}

func (p played) rebooted(order remedy.Order) *remedy.Outcome {
	if order.BootID == p.process.node.bootID() {
		return &remedy.Outcome{Reason: v1alpha1.ReasonRebootNotObserved, Message: "the node still runs"}
	}
	return &remedy.Outcome{Reason: v1alpha1.ReasonSucceeded, Message: "played", Result: p.result(order, order.StartedAt, p.process.clock.Now())}
}

func (p played) result(order remedy.Order, began, ended time.Time) *v1alpha1.ActionResult {
	return &v1alpha1.ActionResult{
		Execution: order.Prepared.Execution,
		StartedAt: v1alpha1.NewMicroTime(began), FinishedAt: v1alpha1.NewMicroTime(ended),
	}
}

// begin starts a remedy on the host. It is called by the goroutine of a runner, which
// waits for what comes of it.
func (n *node) begin(name string, order remedy.Order) *execution {
	w := n.world
	e := &execution{node: n, order: order, remedy: name, boot: n.boot, began: time.Now(), over: make(chan struct{})}
	n.units[order.Action] = e
	n.executions = append(n.executions, e)
	n.effects = append(n.effects, e)
	w.rouse()
	return e
}

// takeEffect decides what becomes of executions that have just begun; false: none has.
func (n *node) takeEffect() bool {
	w := n.world
	begun := n.effects
	n.effects = nil
	for _, e := range begun {
		w.say("host "+n.name, "%s executes %s", e.order.Action, e.remedy)
		w.count("executed: " + e.remedy)
		w.oracles.executed(e)
		if n.acts != nil && n.acts(e) {
			continue
		}
		timeout := e.order.Step.Timeout.Duration
		if e.remedy == v1alpha1.RemedyReboot {
			if w.chaos && w.chance(w.profile.deadReboots) {
				w.count("reboot without effect")
				w.after(timeout, e.finish)
				continue
			}
			n.powerOff()
			n.cures(e.remedy)
			w.after(of(w.choices, 20*time.Second, time.Minute, 4*time.Minute), n.powerOn)
			continue
		}
		takes := of(w.choices, 2*time.Second, 15*time.Second, timeout*9/10)
		e.outcome = v1alpha1.ReasonSucceeded
		if w.chaos && w.chance(w.profile.failures) {
			e.outcome = v1alpha1.ReasonFailed
		}
		if w.chaos && w.chance(w.profile.hangs) {
			w.count("remedy hangs until its timeout")
			takes, e.outcome = timeout+of(w.choices, 0, deadline.EndGrace-time.Second), v1alpha1.ReasonTimedOut
		}
		if n.looksLast != nil && w.chaos {
			e.endUnseen(takes)
			continue
		}
		w.after(takes, e.finish)
	}
	return len(begun) > 0
}

// finish ends an execution unless the host has gone down meanwhile.
func (e *execution) finish() {
	if !e.runs() {
		return
	}
	e.done, e.ends = true, time.Now()
	e.node.world.say("host "+e.node.name, "%s ends as %s", e.order.Action, e.outcome)
	if e.outcome == v1alpha1.ReasonSucceeded {
		e.node.cures(e.remedy)
	}
	close(e.over)
}
