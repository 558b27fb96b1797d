package gates

import (
	"fmt"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// ReasonRunnerAway says that no runner on the node claimed the last action.
const ReasonRunnerAway = "RunnerAway"

// Time before an attempt that was not executed is repeated: doubled each time.
const (
	minBackoff = 30 * time.Second
	maxBackoff = 30 * time.Minute
)

// Attempt holds an attempt that was given to the runner but not executed. Where
// it is certain that nothing happened it is repeated, less and less often;
// where it is not, a person has to look.
func Attempt(in Input) Verdict {
	status := &in.Remediation.Status
	failures := status.Unexecuted()
	if failures == 0 {
		return Verdict{}
	}
	last := &status.History[len(status.History)-1]
	switch last.Outcome {
	case v1alpha1.ReasonPowerWasOff:
		// Who has switched it off may be about to boot it, and for minutes it does not answer then.
		return Verdict{
			Reason: last.Outcome,
			Message: fmt.Sprintf("action %s: %s; when nobody works on node %s any more: kubectl nodemend retry %s",
				last.Action, last.Message, in.Node.Name, in.Remediation.Name),
		}
	case v1alpha1.ReasonInterrupted, v1alpha1.ReasonRebootNotObserved, v1alpha1.ReasonPowerStillOn, v1alpha1.ReasonLost:
		return Verdict{
			Reason: last.Outcome,
			Message: fmt.Sprintf("action %s may or may not have been executed (%s); look at node %s, then to start over: kubectl nodemend retry %s",
				last.Action, last.Message, in.Node.Name, in.Remediation.Name),
		}
	}
	if in.Remediation.ApprovalUsedUp() {
		return Verdict{
			Reason: last.Outcome,
			Message: fmt.Sprintf("after %d tries nothing was switched, so the approval counts no more (%s: %s); look at node %s again, then to start over: kubectl nodemend retry %s",
				failures, last.Action, last.Message, in.Node.Name, in.Remediation.Name),
		}
	}
	again := last.FinishedAt.Add(backoff(failures))
	left := again.Sub(in.Now)
	if left <= 0 {
		return Verdict{}
	}
	reason := last.Outcome
	if reason == v1alpha1.ReasonExpired {
		reason = ReasonRunnerAway
	}
	return Verdict{
		Reason: reason,
		Message: fmt.Sprintf("action %s was not executed: %s; next try at %s",
			last.Action, last.Message, stamp(again)),
		Recheck: left,
	}
}

func backoff(failures int) time.Duration {
	d := minBackoff
	for range failures - 1 {
		if d *= 2; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}
