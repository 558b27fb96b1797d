package sim

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/remediation"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// kind is a kind of what runs come to. Its counters have its prefix.
type kind struct {
	title, prefix string
	// expected are those that a search is to reach, without the prefix.
	expected []string
}

// kinds are what a search is to reach. What is not among them is shown as well.
func kinds() []kind {
	var events, profileNames []string
	for _, h := range happenings() {
		events = append(events, h.name)
	}
	for _, p := range profiles() {
		profileNames = append(profileNames, p.name)
	}
	return []kind{
		{"profiles", "profile ", profileNames},
		{"requests", "request ", fateNames[1:]},
		{"remedies executed", "executed: ", []string{v1alpha1.RemedyCommand, v1alpha1.RemedyRestartUnit, v1alpha1.RemedyReboot, powerCycled, v1alpha1.RemedyReplace}},
		{"outcomes of actions", "action ", actionOutcomes()},
		{"how the power of machines was cycled", "power cycle ", powerOutcomes()},
		{"outcomes of remediations", "outcome ", remediationOutcomes()},
		{"what blocked a remediation", "blocked by ", blocks()},
		{"looks that failed", "look failed: ", []string{"actions", "budget", "maintenance", "match", "remediation"}},
		{"what happened", "", events},
		{"what became of the power of machines", "", []string{wordFrees, wordMistaken, wordOlder, offSwitchedOn}},
	}
}

// actionOutcomes are how a record of an action can end.
func actionOutcomes() []string {
	return []string{
		v1alpha1.ReasonSucceeded, v1alpha1.ReasonFailed, v1alpha1.ReasonTimedOut, v1alpha1.ReasonStartFailed,
		v1alpha1.ReasonUnitNotFound, v1alpha1.ReasonUnitMasked, v1alpha1.ReasonSuperseded, v1alpha1.ReasonNotNeeded,
		v1alpha1.ReasonRefused, v1alpha1.ReasonExpired, v1alpha1.ReasonUnsupported, v1alpha1.ReasonDryRun,
		v1alpha1.ReasonInterrupted, v1alpha1.ReasonRebootNotObserved, v1alpha1.ReasonNotBack, v1alpha1.ReasonNotStarted,
		v1alpha1.ReasonCancelled, v1alpha1.ReasonLost, v1alpha1.ReasonDrainAborted, v1alpha1.ReasonReplaced, v1alpha1.ReasonNotReplaced,
		v1alpha1.ReasonPowerStillOn, v1alpha1.ReasonPowerWasOff,
	}
}

// powerOutcomes are how a power cycle can end.
func powerOutcomes() (all []string) {
	for _, o := range []proof.Outcome{
		proof.PowerCycled, proof.CameOn, proof.PowerWasOff, proof.NodeAnswers, proof.NewBoot, proof.PowerStillOn, proof.WentOffLate, proof.PowerStillOff,
		proof.NotTheMachine, proof.NotConfirmed, proof.NoAnswer,
	} {
		all = append(all, string(o))
	}
	return all
}

// remediationOutcomes are how a remediation can end.
func remediationOutcomes() []string {
	return []string{
		v1alpha1.ReasonRecovered, v1alpha1.ReasonRecoveredByItself, v1alpha1.ReasonNodeGone, v1alpha1.ReasonReleased, v1alpha1.ReasonDuplicate,
		v1alpha1.ReasonDeleted, v1alpha1.ReasonReplaced, v1alpha1.ReasonNotReplaced,
	}
}

// blocks are what can hold a remediation back: the gates, an attempt that was not
// executed, and what is waited for.
func blocks() []string {
	return []string{
		gates.ReasonPaused, gates.ReasonExcluded, v1alpha1.ReasonSuperseded, gates.ReasonNodeLeaving, gates.ReasonOtherHealer,
		gates.ReasonInMaintenance, gates.ReasonCordoned, gates.ReasonBusy, gates.ReasonNoEvidence, gates.ReasonJoining,
		gates.ReasonRunnerAway, v1alpha1.ReasonInterrupted, v1alpha1.ReasonRebootNotObserved, v1alpha1.ReasonLost,
		v1alpha1.ReasonRefused, v1alpha1.ReasonNotNeeded, v1alpha1.ReasonNotStarted, v1alpha1.ReasonCancelled,
		gates.ReasonCooldown, gates.ReasonMaxRemediations, gates.ReasonMaxReboots, gates.ReasonApprovalRequired,
		gates.ReasonOutsideWindow, gates.ReasonStorm, gates.ReasonControlPlane, gates.ReasonNoBudget,
		gates.ReasonBudgetInvalid, gates.ReasonBudgetExhausted, gates.ReasonDisruptionLimit, gates.ReasonDryRun,
		remediation.ReasonReleaseRequired, "NoReport", "StillRunning", "Drain" + v1alpha1.ReasonDrainTimedOut,
		v1alpha1.ReasonDrainAborted,
	}
}

// tellReached tells what the runs have come to, and what they never did.
func tellReached(out io.Writer, reached map[string]int) {
	told := map[string]bool{}
	var all []kind
	for _, k := range kinds() {
		all = append(all, k)
		for what := range reached {
			if name, ok := strings.CutPrefix(what, k.prefix); ok && k.prefix != "" && !slices.Contains(k.expected, name) {
				all[len(all)-1].expected = append(all[len(all)-1].expected, name)
			}
		}
		for _, name := range all[len(all)-1].expected {
			told[k.prefix+name] = true
		}
	}
	more := kind{title: "what else was counted"}
	for what := range reached {
		if !told[what] {
			more.expected = append(more.expected, what)
		}
	}
	for _, k := range append(all, more) {
		k.tell(out, reached)
	}
}

func (k kind) tell(out io.Writer, reached map[string]int) {
	slices.SortFunc(k.expected, func(a, b string) int {
		return cmp.Or(-cmp.Compare(reached[k.prefix+a], reached[k.prefix+b]), cmp.Compare(a, b))
	})
	var lines, never []string
	for _, name := range k.expected {
		if n := reached[k.prefix+name]; n > 0 {
			lines = append(lines, fmt.Sprintf("%9d  %s", n, name))
		} else {
			never = append(never, name)
		}
	}
	printf(out, "%s\n", k.title)
	for _, line := range lines {
		printf(out, "%s\n", line)
	}
	if never != nil {
		printf(out, "    never  %s\n", strings.Join(never, ", "))
	}
}

// printf writes to people; there is nobody to tell that it failed.
func printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
