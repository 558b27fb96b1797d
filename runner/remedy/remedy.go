// Package remedy says what a remedy is: one kind of fix, executed at most once,
// by one runner process or by several, one after the other.
//
// A runner that is killed in the middle leaves an order behind in its ledger.
// The next one adopts it: it finds out what became of the order and finishes it,
// and never executes it again.
package remedy

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Order is one action's remedy, ready to be executed. It is all that a remedy
// gets to know, and all that the ledger keeps for a later process.
type Order struct {
	// Action is the name of the NodeAction: a DNS subdomain of at most 253
	// characters, which no other action of this boot has had.
	Action string `json:"action"`
	// UID is that of the NodeAction.
	UID types.UID `json:"uid"`
	// Step says what to do and how long it may take.
	Step v1alpha1.Step `json:"step"`
	// Output says what is kept of what commands print; nil: the tail.
	Output *v1alpha1.OutputPolicy `json:"output,omitempty"`
	// Env is the environment of commands, as KEY=value.
	Env []string `json:"env,omitempty"`
	// BootID is the node's when the order was made.
	BootID string `json:"bootID"`
	// StartedAt is when the order was made, by the node's own clock.
	StartedAt time.Time `json:"startedAt"`
	// Uptime is how long the node had been up then, which no step of its clock moves. 0 in
	// orders of earlier versions.
	Uptime time.Duration `json:"uptime,omitempty"`
	// Prepared is what Prepare returned.
	Prepared Prepared `json:"prepared"`
}

// Prepared is what a remedy has found out before it is executed.
type Prepared struct {
	// Execution is the way that was chosen.
	Execution v1alpha1.Execution `json:"execution"`
	// InvocationID is that of the unit to be restarted: 32 hexadecimal digits, or
	// empty if the unit was never started.
	InvocationID string `json:"invocationID,omitempty"`
	// MainPID is that of the unit to be restarted; 0 if there is none.
	MainPID int64 `json:"mainPID,omitempty"`
	// Restarts is how often systemd had restarted that unit by itself.
	Restarts uint32 `json:"restarts,omitempty"`
	// UnitNames are all names of the unit to be restarted, the primary one first.
	// The node's owner may have denied any of them.
	UnitNames []string `json:"unitNames,omitempty"`
	// Dependents are the units that systemd stops or restarts with that one. The owner may
	// have denied any of them, too.
	Dependents []string `json:"dependents,omitempty"`
	// Unit is the name of a command's unit, its pipe and its control group. It is empty
	// for other remedies, and in orders of versions that had other names.
	Unit string `json:"unit,omitempty"`
	// Marks says that a reboot notes down when it has begun what can't be left halfway,
	// which earlier versions did not.
	Marks bool `json:"marks,omitempty"`
	// Note says why this execution was chosen, if there is something to say.
	Note string `json:"note,omitempty"`
}

// Outcome says how an order ended.
type Outcome struct {
	// Reason is that of the action's Finished condition.
	Reason string `json:"reason"`
	// Message is for people; of any length, in any encoding.
	Message string `json:"message"`
	// Result is nil if nothing was executed.
	Result *v1alpha1.ActionResult `json:"result,omitempty"`
}

// Remedy is one kind of fix. The runner calls its methods one at a time, in this
// order: Prepare, then Execute in the same process or Adopt in a later one, both
// of which at most once in a process, then Clean.
type Remedy interface {
	// Prepare looks, without any side effect, whether the order can be executed and
	// how. If it can't, the outcome says why and what to do about it. What it keeps
	// open for Execute is closed when ctx ends, which is when the caller is through
	// with the order, executed or not.
	Prepare(ctx context.Context, order Order) (Prepared, *Outcome)

	// Execute has the side effect. It returns the outcome at most
	// deadline.EndGrace after the step's timeout, whatever happens. When ctx
	// ends, it returns within a second or two: nil if a later process can adopt
	// what is under way, else the outcome after it has ended it.
	Execute(ctx context.Context, order Order) *Outcome

	// Adopt finds out what became of an order that another process has perhaps
	// begun, and waits for its end as Execute does. It never has the side
	// effect, unless something proves that it has not been had: then it may bring
	// to an end what can't be left halfway.
	Adopt(ctx context.Context, order Order) *Outcome

	// Clean removes what the execution has left on the node, after the outcome
	// was kept in a safe place. It may be called again, and after a crash.
	Clean(ctx context.Context, order Order) error
}
