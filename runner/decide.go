package runner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/standing"
	"github.com/nodemend/nodemend/runner/remedy"
)

// input is all that a decision depends on, read live from the API server.
type input struct {
	// since is when the reading began, by the node's own clock: nothing is older.
	since  time.Time
	action *v1alpha1.NodeAction
	// lease is that of the node's kubelet, for the remote runner; nil: there is none.
	lease *coordinationv1.Lease
	// remediation, policy, node and pause are nil when the API server answered that there
	// is no such object, never because they could not be read.
	remediation *v1alpha1.Remediation
	policy      *v1alpha1.RemedyPolicy
	node        *corev1.Node
	// asked is the object that has asked for the remediation, nil also if none has.
	asked *v1alpha1.NodemendRemediation
	// pause is the budget that pauses the whole cluster.
	pause *v1alpha1.RemediationBudget
	// holds are those of the node, for the remote runner.
	holds Holds

	// claiming: this process has sent a claim, and nothing else.
	claiming bool
	// knowsClaim: the claim is of a runner that has begun nothing that is not in
	// this node's ledger, which has no entry of the action.
	knowsClaim bool
	// earlier is the order of another action of this name, or nil.
	earlier *remedy.Order

	// remedies are the names of those that this version knows.
	remedies []string
	// remote: it is the remote runner that asks.
	remote bool

	nodeName string
	// machineID is the host's own; "": nobody can know.
	machineID string
	runnerID  string
	bootID    string
	booted    time.Time
	// ended is when a runner of this boot last saw the end of an execution; zero: none did.
	ended time.Time
	now   time.Time
}

// verb is what to do with an action.
type verb string

const (
	// leave: there is nothing to do.
	leave verb = "Leave"
	// execute: claim the action unless it has our claim, then execute it.
	execute verb = "Execute"
	// finish: end the action without executing anything.
	finish verb = "Finish"
)

// decision says what to do with an action, and why.
type decision struct {
	verb    verb
	outcome remedy.Outcome // for finish
	step    *v1alpha1.Step // for execute
}

// check looks at one precondition of an execution. It returns nil if the
// precondition holds.
type check func(input) *decision

// decide says what to do with an action that the ledger has no entry of. It
// depends on nothing but its input.
func decide(in input) decision {
	return first(in, notOurs, finished, claimedBefore, executedBefore, expired, refused, notThisMachine, notSupported, unseen)
}

// first returns what the first of the checks says that does not hold, else to execute.
func first(in input, checks ...check) decision {
	for _, check := range checks {
		if d := check(in); d != nil {
			return *d
		}
	}
	return decision{verb: execute, step: in.policy.StepWithHash(in.action.Spec.StepHash)}
}

// notOurs leaves the action of another node to that node's runner, and one of the remote
// runner to that.
func notOurs(in input) *decision {
	if in.action.Spec.NodeName != in.nodeName || in.action.Spec.Executor != "" {
		return &decision{verb: leave}
	}
	return nil
}

// finished leaves an action that has ended: nothing about it changes any more.
func finished(in input) *decision {
	if in.action.Finished() != nil {
		return &decision{verb: leave}
	}
	return nil
}

// claimedBefore ends an action that carries a claim and that this process has not
// just claimed. It comes before every check that would say that nothing was
// executed.
func claimedBefore(in input) *decision {
	c := in.action.Status.Claim
	switch {
	case c == nil, c.RunnerID == in.runnerID && in.claiming:
		return nil
	case c.BootID != in.bootID && kindNamed(c.Remedy).Booted != nil:
		return &decision{verb: finish, outcome: kindNamed(c.Remedy).Booted(*c, stepOf(in), in.bootID, in.now)}
	case c.BootID != in.bootID:
		return finishWith(v1alpha1.ReasonInterrupted,
			"runner %s claimed it at %s and reported no result; the node has rebooted since (boot ID %s, now %s): the remedy may or may not have been executed",
			c.RunnerID, c.Time.UTC().Format(time.RFC3339), c.BootID, in.bootID)
	case in.knowsClaim:
		return finishWith(v1alpha1.ReasonNotStarted,
			"runner %s claimed it at %s and was stopped before it began: nothing was executed",
			c.RunnerID, c.Time.UTC().Format(time.RFC3339))
	default:
		return finishWith(v1alpha1.ReasonInterrupted,
			"runner %s claimed it at %s and reported no result, and its ledger is lost: the remedy may or may not have been executed, and may still be running",
			c.RunnerID, c.Time.UTC().Format(time.RFC3339))
	}
}

// executedBefore refuses an action that was created again under its name: whoever
// created it may not know that the first one was executed.
func executedBefore(in input) *decision {
	if in.earlier == nil {
		return nil
	}
	return finishWith(v1alpha1.ReasonRefused, "an action of this name, with UID %s, was executed on this node at %s",
		in.earlier.UID, in.earlier.StartedAt.UTC().Format(time.RFC3339))
}

func expired(in input) *decision {
	if expiresAt := in.action.Spec.ExpiresAt; in.now.After(expiresAt.Time) {
		return finishWith(v1alpha1.ReasonExpired, "found at %s, after its expiresAt %s",
			in.now.UTC().Format(time.RFC3339), expiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// refused ends an action that must not begin, whoever executes it.
func refused(in input) *decision { return finishAs(standing.Refuses(in.facts())) }

// facts are those of the rules for all who execute actions.
func (in *input) facts() standing.Facts {
	return standing.Facts{Action: in.action, Node: in.node, Remediation: in.remediation, Asked: in.asked, Policy: in.policy, Pause: in.pause}
}

// notThisMachine refuses an action for another machine, whose node's name the runner was given.
func notThisMachine(in input) *decision {
	reported := in.node.Status.NodeInfo.MachineID
	if reported == "" || in.machineID == "" || reported == in.machineID {
		return nil
	}
	return finishWith(v1alpha1.ReasonRefused, "the kubelet of Node %s runs on another machine: it reports the machine ID %s, and here /etc/machine-id says %s. "+
		"Correct the runner's node name; if the file has changed, restart kubelet and runner", in.nodeName, reported, in.machineID)
}

func notSupported(in input) *decision {
	step := in.policy.StepWithHash(in.action.Spec.StepHash)
	switch remote := step.Executor() == v1alpha1.ExecutorRemote; {
	case remote && !in.remote:
		return finishWith(v1alpha1.ReasonUnsupported, "the step is for the remote runner, and the action asks for that of the node")
	case in.remote && !remote:
		return finishWith(v1alpha1.ReasonUnsupported, "the step is for the node's runner, and the action asks for the remote one")
	case slices.Contains(in.remedies, step.Remedy()):
		return nil
	}
	return finishWith(v1alpha1.ReasonUnsupported, "this version of the runner does not know the remedy of the step; it knows: %s",
		strings.Join(in.remedies, ", "))
}

// unseen refuses what no check has reported since the node booted or something was executed: it
// may be well by now. Of what another program asks for that one has to see it: it gets time.
func unseen(in input) *decision {
	since, what := in.booted, "the node booted"
	if in.ended.After(since) {
		since, what = in.ended, "another action ended here"
	}
	if request := in.remediation.Spec.Request; request != nil {
		if due := since.Add(v1alpha1.RequestGrace); due.After(in.now) && !since.IsZero() {
			return finishWith(v1alpha1.ReasonNotNeeded, "%s at %s, and %s has until %s to find it healthy",
				what, since.UTC().Format(time.RFC3339), request.By(), due.UTC().Format(time.RFC3339))
		}
		return nil
	}
	if conditions := unseenSince(since, in.policy.Spec.Match, in.node); conditions != "" {
		return finishWith(v1alpha1.ReasonNotNeeded, "%s at %s, and no check has reported %s since",
			what, since.UTC().Format(time.RFC3339), conditions)
	}
	return nil
}

// unseenSince returns the matched conditions that no check has reported since a time, at
// which the node booted or an execution ended, "" if one has been or does not say: what was
// wrong before may be well now. Conditions of the kubelet and the network are not judged here, since the node's
// Lease says how fresh those are.
func unseenSince(since time.Time, match []v1alpha1.ConditionMatch, node *corev1.Node) string {
	var unseen []string
	for i := range match {
		c := v1alpha1.FindNodeCondition(node, match[i].Type)
		if !match[i].Matches(c) {
			continue
		}
		if v1alpha1.KubeletOwned(match[i].Type) || match[i].Type == string(corev1.NodeNetworkUnavailable) || c.LastHeartbeatTime.IsZero() || !c.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
			return ""
		}
		unseen = append(unseen, match[i].Type)
	}
	return strings.Join(unseen, " and ")
}

// finishAs ends an action that was refused; nil: it was not.
func finishAs(r *standing.Refusal) *decision {
	if r == nil {
		return nil
	}
	return &decision{verb: finish, outcome: remedy.Outcome{Reason: r.Reason, Message: r.Message}}
}

func finishWith(reason, format string, args ...any) *decision {
	return &decision{verb: finish, outcome: remedy.Outcome{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// remedyOf names the remedy of an action, "" if it can't be told.
func remedyOf(in input) string {
	if c := in.action.Status.Claim; c != nil {
		return c.Remedy
	}
	if step := stepOf(in); step != nil {
		return step.Remedy()
	}
	return ""
}

// stepOf returns the step of an action, or nil if its policy does not have it any more.
func stepOf(in input) *v1alpha1.Step {
	if in.policy == nil {
		return nil
	}
	return in.policy.StepWithHash(in.action.Spec.StepHash)
}
