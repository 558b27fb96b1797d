// Package gates holds the safety rules that can hold an action back. Each is a
// small pure function in a file of its own; the first that holds is shown to
// people, with its reason.
package gates

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
)

// Input is what the gates look at. Nothing in it may be changed by a gate.
type Input struct {
	// Remediation that wants to act, with the step and attempt that is next.
	Remediation *v1alpha1.Remediation
	// Node that it wants to act on. It has what [fleet.Strip] keeps: of the annotations
	// few, so that a gate that reads another one adds it there.
	Node *corev1.Node
	// Policy that it came from, as it is now; nil when it is gone.
	Policy *v1alpha1.RemedyPolicy
	// Findings for the remediation's match.
	Findings []evidence.Finding
	// Budgets that select the node, in name order.
	Budgets []v1alpha1.RemediationBudget
	// Past are the other remediations of this node (by UID), open and ended.
	Past []v1alpha1.Remediation
	// Former are those of former nodes of its name.
	Former []v1alpha1.Remediation
	// Maintenance is the remediation's own; nil: there is none.
	Maintenance *v1alpha1.NodeMaintenance
	// Maintenances hold the node, and are not the remediation's own.
	Maintenances []v1alpha1.NodeMaintenance
	// Ahead is, by the name of a budget, how many remediations wait for a permit of
	// the node's group in it and come first.
	Ahead map[string]int
	// ControlPlane is the state of the control plane's nodes; nil unless the node
	// is one of them.
	ControlPlane *ControlPlane
	// Now is the time of the decision.
	Now time.Time
}

// ControlPlane is what a decision about one of its nodes depends on.
type ControlPlane struct {
	// Nodes is their number, ReadyOthers that of those that are Ready and available,
	// without the node itself.
	Nodes, ReadyOthers int
	// ActingOn is another control-plane node, or one that is gone and may have been, that
	// holds a permit; "" if none does.
	ActingOn string
}

// Step returns the step that is next.
func (in Input) Step() *v1alpha1.Step {
	return &in.Remediation.Spec.Steps[in.Remediation.Status.Step-1]
}

// takenOut reports whether the remediation itself has taken the node out of service.
func (in Input) takenOut() bool { return in.Remediation.Status.Maintenance != "" }

// Verdict is what a gate says. The zero value lets through.
type Verdict struct {
	// Reason in CamelCase; "" lets through.
	Reason string
	// Message explains the reason to a person, with the numbers. A gate that lets
	// through may tell its numbers, too.
	Message string
	// Recheck is after how long to look again; 0: when something changes.
	Recheck time.Duration
}

// Held reports whether the gate holds the action back.
func (v Verdict) Held() bool { return v.Reason != "" }

// open lets through, and tells the numbers.
func open(format string, args ...any) Verdict { return Verdict{Message: fmt.Sprintf(format, args...)} }

// Gate is one safety rule.
type Gate struct {
	// Name in CamelCase: people read it.
	Name string
	// Ask asks whether it holds the action back.
	Ask func(Input) Verdict
}

// Chain returns the gates in the order in which they are asked.
func Chain() []Gate {
	return []Gate{
		{"Paused", Paused},                         // a person has switched the policy or the node's budget off
		{"Excluded", Excluded},                     // a person keeps Nodemend away from the node
		{"Superseded", Superseded},                 // the policy no longer says what this remediation wants to do
		{"NodeLeaving", NodeLeaving},               // the node is being removed
		{"OtherHealer", OtherHealer},               // another program repairs, drains or replaces the node
		{"InMaintenance", InMaintenance},           // a person or another remediation has taken the node out
		{"Cordoned", Cordoned},                     // somebody else is at work on the node
		{"Busy", Busy},                             // another remediation acts on the node
		{"Evidence", Evidence},                     // nobody has confirmed the fault recently
		{"Joining", Joining},                       // the node is still starting
		{"Attempt", Attempt},                       // the last attempt was not executed
		{"Cooldown", Cooldown},                     // the policy has acted on the node only just
		{"MaxRemediations", MaxRemediations},       // the policy has acted on the node too often
		{"MaxReboots", MaxReboots},                 // the node was rebooted too often
		{"Approval", Approval},                     // a person has to approve the step
		{"Window", Window},                         // it is not the time for a disruptive step
		{"Storm", Storm},                           // too few nodes are healthy for a disruptive step
		{"ControlPlaneQuorum", ControlPlaneQuorum}, // the control plane has to stay
		{"Budget", Budget},                         // enough nodes are being acted on
		{"DryRun", DryRun},                         // the policy only shows what it would do
	}
}

// DuringDrain returns the gates that also stop a drain which was decided on. The others were
// asked when it was, and are not asked anew at each look.
func DuringDrain() []Gate { return []Gate{{"Paused", Paused}} }

// First returns the verdict of the first of these gates that holds.
func First(in Input, chain []Gate) Verdict {
	for _, gate := range chain {
		if v := gate.Ask(in); v.Held() {
			return v
		}
	}
	return Verdict{}
}
