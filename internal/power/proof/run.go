package proof

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/nodemend/nodemend/internal/power"
)

const (
	// CallTimeout is how long a switch is given for one call.
	CallTimeout = 20 * time.Second
	// maxAge is how old facts may be when the power is switched off: a runner that was stopped
	// in between, and whose place another one has taken, asks again, and so does one whose switch
	// takes long to be logged in to. maxAgeOn is that for asking to switch it on, which a slow API
	// server must not hinder.
	maxAge, maxAgeOn = 5 * time.Second, 30 * time.Second
	// Straggle is how long an order may still reach a switch after Facts has begun to answer
	// for it. Who takes the place of another runner waits as long, so that an off of that one
	// does not cut the next boot.
	Straggle = maxAge + CallTimeout
)

// ErrTakenOver says that another runner goes on with the cycle, ErrGivenUp that nobody is to go
// on with it.
var (
	ErrTakenOver = errors.New("another runner goes on with the power cycle")
	ErrGivenUp   = errors.New("nobody goes on with the power cycle")
)

// Runner carries out a Cycle.
type Runner struct {
	Clock  clock.Clock
	Switch power.Switch
	// Facts returns what is known of the node now. Once something may have been switched, an
	// error other than ErrTakenOver and ErrGivenUp only keeps it from being switched off, and
	// from being proved off. With an error it still says whether the time is Over.
	Facts func(context.Context) (Facts, error)
	// Keep keeps the progress where the next runner finds it. Nothing is switched before it
	// has returned without an error.
	Keep func(context.Context, Progress) error
}

// Run goes on with the Cycle until it has ended, and returns its progress, which is kept. The
// error is of Facts, Keep or ctx: then another Run goes on later.
func (r Runner) Run(ctx context.Context, plan Plan, kept Progress) (Progress, error) {
	cycle, err := New(plan, kept, r.Clock.Now())
	if err != nil {
		return kept, err
	}
	var facts Facts
	for {
		begun := r.Clock.Now()
		now, err := r.Facts(ctx)
		switch {
		case err == nil:
			facts = now
		case ctx.Err() != nil, errors.Is(err, ErrTakenOver), errors.Is(err, ErrGivenUp):
			return kept, fmt.Errorf("what is known of node %s: %w", plan.Node, err)
		case kept.Phase != "" && kept.Phase != Looking && kept.Phase != Ended:
			// The machine must not stay off since the API server does not answer once.
			facts.Confirmed, facts.Stale, facts.Over = false, true, now.Over
		default:
			return kept, fmt.Errorf("what is known of node %s: %w", plan.Node, err)
		}
		step := cycle.Next(r.Clock.Now(), facts)
		if next := cycle.Progress(); next != kept {
			if err := r.Keep(ctx, next); err != nil {
				return kept, fmt.Errorf("keeping how far the power cycle of node %s is: %w", plan.Node, err)
			}
			kept = next
		}
		age := r.Clock.Since(begun)
		if step.Do == SetOff && age > maxAge || step.Do == SetOn && age > maxAgeOn {
			continue
		}
		switch step.Do {
		case End:
			return kept, nil
		case Wait:
			if err := r.wait(ctx, step.For); err != nil {
				return kept, err
			}
		default:
			r.do(ctx, cycle, step.Do, begun)
		}
		if ctx.Err() != nil {
			return kept, context.Cause(ctx)
		}
	}
}

// do asks the switch, by facts whose reading has begun then.
func (r Runner) do(ctx context.Context, cycle *Cycle, what Action, begun time.Time) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	asked := r.Clock.Now()
	switch what {
	case SetOff:
		err := r.Switch.Off(ctx, cycle.plan.Machine, r.stillCuts(cycle.plan, begun))
		cycle.Switched(r.Clock.Now(), err)
	case SetOn:
		err := r.Switch.On(ctx, cycle.plan.Machine, nil)
		cycle.Switched(r.Clock.Now(), err)
	default:
		reading, err := r.Switch.Read(ctx, cycle.plan.Machine)
		cycle.Saw(asked, r.Clock.Now(), reading, err)
	}
}

// stillCuts asks whether the power may be cut, by facts whose reading has begun then, or by newer ones if
// these are old by now.
func (r Runner) stillCuts(plan Plan, begun time.Time) power.Still {
	return func(ctx context.Context) error {
		if r.Clock.Since(begun) <= maxAge {
			return nil
		}
		again := r.Clock.Now()
		facts, err := r.Facts(ctx)
		switch took := r.Clock.Since(again); {
		case err != nil:
			return fmt.Errorf("what is known of node %s: %w", plan.Node, err)
		case !facts.cut(plan.BootID):
			return fmt.Errorf("node %s answers, has booted, or is held by now", plan.Node)
		case took > maxAge:
			return fmt.Errorf("it took %s to read what is known of node %s, which is too long", took.Round(time.Millisecond), plan.Node)
		}
		return nil
	}
}

func (r Runner) wait(ctx context.Context, d time.Duration) error {
	timer := r.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
