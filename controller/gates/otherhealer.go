package gates

import (
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/others"
)

// ReasonOtherHealer says that another program repairs, drains, replaces or upgrades the node, or is
// about to.
const ReasonOtherHealer = "OtherHealer"

// OtherHealer holds a disruptive step while the node shows that another program has it. Two that reboot
// one node do not know of each other. What only objects of other programs show is asked when all
// gates are open, by [others.Ask].
func OtherHealer(in Input) Verdict {
	step := in.Step()
	hold := others.OnNode(in.Node, OtherStep(step, in.Now))
	if hold.Why == "" || !step.Disruptive() && !hold.Gentle {
		return Verdict{}
	}
	return Verdict{Reason: ReasonOtherHealer, Message: hold.Why, Recheck: hold.Left}
}

// OtherStep is a step that would start now, for package others.
func OtherStep(step *v1alpha1.Step, now time.Time) others.Step {
	takes := step.Timeout.Duration
	if drain := step.Drain(); drain != nil {
		takes += drain.Timeout.Duration
	}
	return others.Step{Now: now, Takes: takes}
}
