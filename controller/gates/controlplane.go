package gates

import "fmt"

// ReasonControlPlane says that the control plane would be at risk.
const ReasonControlPlane = "ControlPlane"

// ControlPlaneQuorum holds any action on a node of the control plane while another
// one of it is acted on, and a disruptive step unless a majority of all its nodes
// is available without this one. That is never so with one or two nodes: a person
// has to reboot them.
func ControlPlaneQuorum(in Input) Verdict {
	c := in.ControlPlane
	if c == nil {
		return Verdict{}
	}
	if c.ActingOn != "" {
		return Verdict{
			Reason:  ReasonControlPlane,
			Message: fmt.Sprintf("control-plane node %s is being acted on, and only one at a time is", c.ActingOn),
			Recheck: BudgetRecheck,
		}
	}
	majority := c.Nodes/2 + 1
	if !in.Step().Disruptive() || c.ReadyOthers >= majority {
		return Verdict{}
	}
	message := fmt.Sprintf("without node %s %d of %d control-plane nodes are available, and a majority of %d has to stay",
		in.Node.Name, c.ReadyOthers, c.Nodes, majority)
	if c.Nodes <= 2 {
		message = fmt.Sprintf("node %s is one of %s: without it there is no control plane, so a person has to do this step",
			in.Node.Name, plural(c.Nodes, "control-plane node", "control-plane nodes"))
	}
	return Verdict{Reason: ReasonControlPlane, Message: message, Recheck: BudgetRecheck}
}
