package proof

import (
	"errors"
	"fmt"
	"time"

	"github.com/nodemend/nodemend/internal/power"
)

// Plan is what a Cycle is to do.
type Plan struct {
	// Node is the name of the node, and BootID its boot that is to end.
	Node, BootID string
	// Machine is the node's systemUUID.
	Machine power.UUID
	// Reader is who reads, for the proof, and Switch what from.
	Reader, Switch string

	// Gap is how far the two readings of off are apart at least; MinGap or more.
	Gap time.Duration
	// Settled is that for a switch that has not said on, acknowledged an off, and answered ever
	// since: one that said off when we came, and one that may have restarted. Some BMCs say off
	// until they have found their host again.
	Settled time.Duration
	// Poll is how long after a reading there is another one, while something is waited for.
	Poll time.Duration
	// Repeat is how long after an off or on that has had no effect it is sent again.
	Repeat time.Duration
	// GiveUp is how long the power may take to go off or on, and a switch to answer at all, and
	// how long it is watched after that.
	GiveUp time.Duration
	// Hold is for how long a machine that is proved to be off is kept so at most, until its pods
	// and volumes are freed, and Unheard for how long if nobody begins with that.
	Hold, Unheard time.Duration

	// TakeOff says that power which was off when we came is as good as cut: once that is proved, what
	// the boot had may be freed, and it is switched on. Otherwise it stays off: PowerWasOff.
	TakeOff bool
}

// DefaultPlan returns the times that suit BMCs: hung machines were seen to take 9 s, and
// some BMCs restart for a minute.
func DefaultPlan() Plan {
	return Plan{
		Gap: 5 * time.Second, Settled: 2 * time.Minute, Poll: time.Second, Repeat: 15 * time.Second, GiveUp: 3 * time.Minute,
		Hold: 5 * time.Minute, Unheard: 2 * time.Minute,
	}
}

// Validate says what is wrong with the plan.
func (p Plan) Validate() error {
	var errs []error
	if p.Node == "" || p.BootID == "" || p.Machine == (power.UUID{}) {
		errs = append(errs, errors.New("it names no node, boot ID or machine"))
	}
	if p.Gap < MinGap {
		errs = append(errs, fmt.Errorf("its gap is %s: %s is the least", p.Gap, MinGap))
	}
	if p.Settled < p.Gap {
		errs = append(errs, fmt.Errorf("it is settled after %s: the gap, %s, is the least", p.Settled, p.Gap))
	}
	for _, d := range []time.Duration{p.Poll, p.Repeat, p.GiveUp - p.Gap} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("its times are %s, %s and %s: they are positive, and the last is more than the gap", p.Poll, p.Repeat, p.GiveUp))
			break
		}
	}
	return errors.Join(errs...)
}

// Facts are what is known of the node, now.
type Facts struct {
	// Confirmed says that a check has confirmed the fault, and that no gate forbids to act.
	Confirmed bool
	// Answers says that the node has shown a sign of life lately.
	Answers bool
	// BootID is the newest that was seen of the node.
	BootID string
	// Restore says that the machine may be switched on again: nobody has booted it since.
	Restore bool
	// Hold says that a machine that is proved to be off is to stay off for now: its pods and
	// volumes are to be freed, and are not yet.
	Hold bool
	// Await says that nobody has begun with that: whoever does waits to be told that the
	// machine is off now.
	Await bool
	// Over says that the time for the whole of it has ended: what is not on by then is for
	// people. As long as it has not, power that was cut is switched on again and again.
	Over bool
	// Stale says that nobody knows it now: these are the last facts that were known, but for
	// Confirmed and Over.
	Stale bool
}

// cut reports whether a boot may be cut by them.
func (f Facts) cut(bootID string) bool { return f.Confirmed && !f.Answers && f.BootID == bootID }

// Phase is how far a Cycle is.
type Phase string

// Phases, in their order.
const (
	// Looking is before anything was switched.
	Looking Phase = "Looking"
	// Cutting is from when an off may have been sent.
	Cutting Phase = "Cutting"
	// ProvedOff is from when there is a proof.
	ProvedOff Phase = "ProvedOff"
	// Restoring is from when an on may have been sent.
	Restoring Phase = "Restoring"
	// Watching is from when nobody waits for a proof any more: nothing is switched off again,
	// and what goes off late is switched on.
	Watching Phase = "Watching"
	// Ended is when there is an outcome.
	Ended Phase = "Ended"
)

// Outcome is how a Cycle has ended.
type Outcome string

// Outcomes.
const (
	// PowerCycled is off, proved, and on again.
	PowerCycled Outcome = "PowerCycled"
	// CameOn is off when we came, and on later: somebody or something has switched it on.
	CameOn Outcome = "CameOn"
	// PowerWasOff is off when we came, proved while the fault was confirmed, and left off:
	// somebody has done that. With Plan.TakeOff it is kept from the proof on: of a cycle that goes on, it
	// says that nothing was cut.
	PowerWasOff Outcome = "PowerWasOff"
	// NodeAnswers is a node that has answered again before anything was switched.
	NodeAnswers Outcome = "NodeAnswers"
	// NewBoot is a node that has booted by itself, or that somebody has booted; the power is
	// on.
	NewBoot Outcome = "NewBoot"
	// PowerStillOn is power that was switched off, without a proof that it is. Nothing may be
	// freed.
	PowerStillOn Outcome = "PowerStillOn"
	// WentOffLate is power that went off when nobody waited for it any more, without a proof,
	// and that is on again.
	WentOffLate Outcome = "WentOffLate"
	// PowerStillOff is power that was switched on, and has not been read on.
	PowerStillOff Outcome = "PowerStillOff"
	// NotTheMachine is a switch that is of another machine, or of none. Nothing was switched.
	NotTheMachine Outcome = "NotTheMachine"
	// NotConfirmed is a fault that no check has confirmed, or that something else has held for
	// too long. Nothing was switched.
	NotConfirmed Outcome = "NotConfirmed"
	// NoAnswer is a switch that could not be read. Nothing was switched.
	NoAnswer Outcome = "NoAnswer"
)

// Progress is what is kept of a Cycle, for a runner that goes on with it.
type Progress struct {
	Phase Phase `json:"phase"`
	// Outcome of a Cycle that has ended, or that it will have if nothing happens while it is
	// Watching.
	Outcome Outcome `json:"outcome,omitempty"`
	// Message says why, for people.
	Message string `json:"message,omitempty"`
	// Proof is there from ProvedOff on, and if the power was off. A Cycle without one proves
	// nothing.
	Proof *Proof `json:"proof,omitempty"`
	// Held is how often the power was read off again since the proof, for who Awaits that. Each
	// reading was asked for after the number before was kept.
	Held int32 `json:"held,omitempty"`
}

// Action is what is to be done.
type Action string

// Actions. There is no cycle: see power.Switch.
const (
	Read   Action = "Read"
	SetOff Action = "Off"
	SetOn  Action = "On"
	Wait   Action = "Wait"
	End    Action = "End"
)

// Step is what is to be done next. Before it, Progress has to be kept.
type Step struct {
	Do Action
	// For is how long to Wait.
	For time.Duration
}
