package unit

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/systemd"
	"github.com/nodemend/nodemend/runner/remedy"
)

// Options of the remedy; all are required.
type Options struct {
	// Dialer connects to the node's systemd.
	Dialer systemd.Dialer
	// Clock measures the step's timeout.
	Clock clock.Clock
}

// Remedy restarts units. It keeps no connection between orders.
type Remedy struct{ options Options }

var _ remedy.Remedy = (*Remedy)(nil)

// New returns the remedy restartUnit. It does not connect to systemd yet.
func New(options Options) *Remedy { return &Remedy{options: options} }

// Prepare implements remedy.Remedy: systemd has to answer, and to have the unit.
func (r *Remedy) Prepare(ctx context.Context, order remedy.Order) (remedy.Prepared, *remedy.Outcome) {
	prepared := remedy.Prepared{Execution: v1alpha1.ExecutionSystemd}
	name := order.Step.RestartUnit.Name
	conn, err := r.options.Dialer.Dial(ctx)
	if err != nil {
		return prepared, notExecuted(v1alpha1.ReasonStartFailed, "%v; nothing was executed", err)
	}
	defer conn.Close()
	patience, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	properties, err := conn.GetAllPropertiesContext(patience, name)
	if err != nil {
		return prepared, notExecuted(v1alpha1.ReasonStartFailed,
			"systemd does not tell about %s: %v; correct spec.steps[].restartUnit.name of the policy if it is not the name of a unit", name, err)
	}
	s := parse(properties)
	prepared.InvocationID, prepared.MainPID, prepared.UnitNames = s.invocation, s.mainPID, s.names
	prepared.Restarts, prepared.Dependents = s.restarts, s.dependents
	if s.ends != "" {
		return prepared, notExecuted(v1alpha1.ReasonRefused,
			"a restart of %s may end the system (%s), for which there is the remedy reboot; nothing was executed: correct spec.steps[].restartUnit.name of the policy", name, s.ends)
	}
	return prepared, loadFailure(name, s)
}

// Execute implements remedy.Remedy.
func (r *Remedy) Execute(ctx context.Context, order remedy.Order) *remedy.Outcome {
	f := r.follow(order)
	defer f.close()
	err := f.begin(ctx)
	if ctx.Err() != nil {
		return notExecuted(v1alpha1.ReasonNotStarted, "the runner was stopped before it asked for the restart; nothing was executed")
	}
	if err != nil {
		return notExecuted(v1alpha1.ReasonStartFailed, "%v; nothing was executed", err)
	}

	remedy.Reached(ctx, "before-restart")
	err = f.restart(ctx)
	remedy.Reached(ctx, "after-restart")

	if systemd.Refused(err) {
		return notExecuted(v1alpha1.ReasonStartFailed, "systemd does not accept a restart of %s: %v; nothing was executed: see systemctl status %[1]s", f.unit, err)
	}
	return f.outcome(ctx)
}

// Adopt implements remedy.Remedy: it asks for no restart.
func (r *Remedy) Adopt(ctx context.Context, order remedy.Order) *remedy.Outcome {
	f := r.follow(order)
	defer f.close()
	return f.outcome(ctx)
}

// Clean implements remedy.Remedy. There is nothing to clean.
func (*Remedy) Clean(context.Context, remedy.Order) error { return nil }

// follow returns the follower of an order. The clock may have been set back since its
// start, which must not make the deadline later.
func (r *Remedy) follow(order remedy.Order) *follower {
	now := r.options.Clock.Now()
	start := now
	if order.StartedAt.Before(now) {
		start = order.StartedAt
	}
	timeout := order.Step.Timeout.Duration
	deadline := start.Add(timeout)
	if soon := now.Add(settleTime); deadline.Before(soon) {
		deadline = soon // what was begun just now gets the time to be seen
	}
	return &follower{
		Options: r.options,
		ending: ending{
			unit: order.Step.RestartUnit.Name, timeout: timeout,
			before: order.Prepared.InvocationID, mainPID: order.Prepared.MainPID, restarts: order.Prepared.Restarts,
		},
		startedAt: start,
		deadline:  deadline,
		jobs:      make(chan string, 1),
	}
}

// loadFailure returns why a unit can't be started at all, nil if it can.
func loadFailure(name string, s state) *remedy.Outcome {
	switch s.load {
	case "loaded":
		return nil
	case "not-found":
		return notExecuted(v1alpha1.ReasonUnitNotFound,
			"systemd knows no unit %s on this node; correct spec.steps[].restartUnit.name of the policy, or install the unit", name)
	case "masked":
		return notExecuted(v1alpha1.ReasonUnitMasked,
			"%s is masked, so systemd does not start it; run systemctl unmask %[1]s on the node, or correct spec.steps[].restartUnit.name of the policy", name)
	default:
		return notExecuted(v1alpha1.ReasonStartFailed,
			"systemd could not load %s (%s): %s; nothing was executed: see systemctl status %[1]s", name, s.load, s.loadError)
	}
}

func notExecuted(reason, format string, args ...any) *remedy.Outcome {
	return &remedy.Outcome{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// answerTime is how long systemd may take to answer a call.
const answerTime = 5 * time.Second
