package runner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
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
	return first(in, slices.Concat([]check{notOurs, finished, claimedBefore, executedBefore, deleted, expired}, standing()))
}

// standing are the checks of what has to hold whoever executes the action, until it begins.
func standing() []check {
	return []check{
		notThisNode,
		notThisMachine,
		excluded,
		clusterPaused,
		notAnnounced,
		notApproved,
		policyGone,
		notEnforced,
		stepGone,
		anotherStep,
		notSelected,
		notSupported,
		notNeeded,
	}
}

// first returns what the first of the checks says that does not hold, else to execute.
func first(in input, checks []check) decision {
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

// deleted cancels an action that only a finalizer still keeps.
func deleted(in input) *decision {
	if in.action.DeletionTimestamp != nil {
		return finishWith(v1alpha1.ReasonCancelled, "the action was deleted before it was started")
	}
	return nil
}

func expired(in input) *decision {
	if expiresAt := in.action.Spec.ExpiresAt; in.now.After(expiresAt.Time) {
		return finishWith(v1alpha1.ReasonExpired, "found at %s, after its expiresAt %s",
			in.now.UTC().Format(time.RFC3339), expiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// notThisNode refuses an action for an earlier node of the same name.
func notThisNode(in input) *decision {
	switch {
	case in.node == nil:
		return finishWith(v1alpha1.ReasonRefused, "there is no Node %s", in.nodeName)
	case in.node.UID != in.action.Spec.NodeUID:
		return finishWith(v1alpha1.ReasonRefused, "it is for the Node %s with UID %s, this one has UID %s",
			in.nodeName, in.action.Spec.NodeUID, in.node.UID)
	}
	return nil
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

// excluded refuses what was created before somebody excluded the node.
func excluded(in input) *decision {
	if v1alpha1.Excluded(in.node) {
		return finishWith(v1alpha1.ReasonRefused, "Node %s has the label %s=true", in.nodeName, v1alpha1.ExcludeLabel)
	}
	return nil
}

// clusterPaused refuses what was created before somebody paused the cluster, or by a
// controller that does not know of it.
func clusterPaused(in input) *decision {
	if in.pause == nil || !in.pause.Pauses(in.node) {
		return nil
	}
	why := ""
	if in.pause.Spec.PauseReason != "" {
		why = fmt.Sprintf(" (%s)", in.pause.Spec.PauseReason)
	}
	return finishWith(v1alpha1.ReasonRefused, "the cluster is paused by RemediationBudget %s%s", in.pause.Name, why)
}

// notAnnounced refuses an action that its remediation does not wait for: a controller
// with an old view has created it, or created it again, after the remediation had gone
// on, and the permit may be somebody else's by now.
func notAnnounced(in input) *decision {
	spec := &in.action.Spec
	switch r := in.remediation; {
	case r == nil || r.UID != spec.RemediationUID:
		return finishWith(v1alpha1.ReasonSuperseded, "Remediation %s, which it is part of, has been deleted", spec.Remediation)
	case r.DeletionTimestamp != nil:
		return finishWith(v1alpha1.ReasonSuperseded, "Remediation %s is being deleted", r.Name)
	case r.Status.Action != in.action.Name:
		return finishWith(v1alpha1.ReasonSuperseded, "Remediation %s does not wait for it: its status.action is %q", r.Name, r.Status.Action)
	}
	return nil
}

// notApproved refuses a step that a person has to approve and has not, whoever created
// the action.
func notApproved(in input) *decision {
	if step := in.remediation.Step(in.action.Spec.Step); step == nil || !step.RequireApproval || in.remediation.Approved(in.action.Spec.Step) {
		return nil
	}
	return finishWith(v1alpha1.ReasonRefused, "step %d of Remediation %s requires approval, which it does not have", in.action.Spec.Step, in.remediation.Name)
}

func policyGone(in input) *decision {
	ref := in.action.Spec.Policy
	switch {
	case in.policy == nil:
		return finishWith(v1alpha1.ReasonSuperseded, "RemedyPolicy %s has been deleted", ref.Name)
	case in.policy.UID != ref.UID:
		return finishWith(v1alpha1.ReasonSuperseded,
			"RemedyPolicy %s has been deleted and created again: its UID is %s, the action names %s", ref.Name, in.policy.UID, ref.UID)
	case in.policy.DeletionTimestamp != nil:
		return finishWith(v1alpha1.ReasonSuperseded, "RemedyPolicy %s is being deleted", ref.Name)
	}
	return nil
}

// notEnforced refuses a step of a policy that was told to do nothing meanwhile, or
// that has a mode which this version does not know.
func notEnforced(in input) *decision {
	if mode := in.policy.Spec.Mode; mode != "" && mode != v1alpha1.ModeEnforce {
		return finishWith(v1alpha1.ReasonRefused, "RemedyPolicy %s is in mode %s", in.policy.Name, mode)
	}
	if in.policy.Spec.Paused {
		return finishWith(v1alpha1.ReasonRefused, "RemedyPolicy %s is paused", in.policy.Name)
	}
	return nil
}

func stepGone(in input) *decision {
	if in.policy.StepWithHash(in.action.Spec.StepHash) == nil {
		return finishWith(v1alpha1.ReasonSuperseded,
			"RemedyPolicy %s has no step with hash %s any more: the policy was edited, or it uses fields that this version of the runner does not know",
			in.policy.Name, in.action.Spec.StepHash)
	}
	return nil
}

// anotherStep refuses a step under the number of another one, whose approval it would have.
func anotherStep(in input) *decision {
	number := in.action.Spec.Step
	if step := in.remediation.Step(number); step != nil {
		if hash, err := step.Hash(); err == nil && hash == in.action.Spec.StepHash {
			return nil
		}
	}
	return finishWith(v1alpha1.ReasonRefused, "it asks for a step with hash %s, which step %d of Remediation %s is not",
		in.action.Spec.StepHash, number, in.remediation.Name)
}

// notSelected refuses a step on a node that its policy was not written for,
// whoever created the action.
func notSelected(in input) *decision {
	selects, err := selectsNode(in.policy, in.node)
	switch {
	case err != nil:
		return finishWith(v1alpha1.ReasonRefused, "the nodeSelector of RemedyPolicy %s is invalid: %v", in.policy.Name, err)
	case !selects:
		return finishWith(v1alpha1.ReasonRefused, "RemedyPolicy %s does not select Node %s: see its spec.nodeSelector", in.policy.Name, in.nodeName)
	}
	return nil
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

func notNeeded(in input) *decision {
	if request := in.remediation.Spec.Request; request != nil {
		return notRequested(in, request)
	}
	if matched(in.policy.Spec.Match, in.node) != nil {
		since, what := in.booted, "the node booted"
		if in.ended.After(since) {
			since, what = in.ended, "another action ended here"
		}
		if unseen := unseenSince(since, in.policy.Spec.Match, in.node); unseen != "" {
			return finishWith(v1alpha1.ReasonNotNeeded, "%s at %s, and no check has reported %s since",
				what, since.UTC().Format(time.RFC3339), unseen)
		}
		return nil
	}
	return finishWith(v1alpha1.ReasonNotNeeded, "no condition matched by RemedyPolicy %s is there any more: %s",
		in.policy.Name, describeMatch(in.policy.Spec.Match, in.node))
}

// notRequested refuses a step that nobody asks for any more; and one right after a boot or another
// action, which whoever has asked may not have seen yet.
func notRequested(in input, request *v1alpha1.Request) *decision {
	if over := request.Over(in.asked); over != "" {
		return finishWith(v1alpha1.ReasonNotNeeded, "%s", over)
	}
	since, what := in.booted, "the node booted"
	if in.ended.After(since) {
		since, what = in.ended, "another action ended here"
	}
	if due := since.Add(v1alpha1.RequestGrace); due.After(in.now) && !since.IsZero() {
		return finishWith(v1alpha1.ReasonNotNeeded, "%s at %s, and %s has until %s to find it healthy",
			what, since.UTC().Format(time.RFC3339), request.By(), due.UTC().Format(time.RFC3339))
	}
	return nil
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
