package runner

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// input is all that a decision depends on, read live from the API server.
type input struct {
	action *v1alpha1.NodeAction
	// policy and node are nil when the API server answered that there is no
	// such object, never because they could not be read.
	policy *v1alpha1.RemedyPolicy
	node   *corev1.Node

	// progress is how far this process has come with the action.
	progress progress

	nodeName string
	runnerID string
	bootID   string
	now      time.Time
}

// verb is what to do with an action.
type verb string

const (
	// leave: there is nothing to do.
	leave verb = "Leave"
	// claim: claim the action, then execute the remedy.
	claim verb = "Claim"
	// execute: the claim is ours, execute the remedy.
	execute verb = "Execute"
	// finish: end the action without executing anything.
	finish verb = "Finish"
)

// decision says what to do with an action, and why.
type decision struct {
	verb    verb
	reason  string // of the Finished condition, for finish
	message string // of the Finished condition, for finish
	step    *v1alpha1.Step
	remedy  remedy // for claim and execute
}

// check looks at one precondition of an execution. It returns nil if the
// precondition holds.
type check func(input) *decision

// decide says what to do with an action. It depends on nothing but its input.
func decide(in input) decision {
	for _, check := range []check{
		notOurs,
		finished,
		claimedByAnotherProcess,
		startedBefore,
		deleted,
		expired,
		notThisNode,
		policyGone,
		stepGone,
		notSelected,
		notSupported,
		notNeeded,
	} {
		if d := check(in); d != nil {
			return *d
		}
	}
	step := in.policy.StepWithHash(in.action.Spec.StepHash)
	d := decision{verb: claim, step: step, remedy: remedyOf(step)}
	if in.action.Status.Claim != nil {
		d.verb = execute
	}
	return d
}

// notOurs leaves the action of another node to that node's runner.
func notOurs(in input) *decision {
	if in.action.Spec.NodeName != in.nodeName {
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

// claimedByAnotherProcess gives up an action that an earlier runner process
// claimed and did not finish. It comes before every check that would say that
// nothing was executed.
func claimedByAnotherProcess(in input) *decision {
	c := in.action.Status.Claim
	if c == nil || c.RunnerID == in.runnerID {
		return nil
	}
	boot := "the node has not rebooted since, it may still be running"
	if c.BootID != in.bootID {
		boot = fmt.Sprintf("the node has rebooted since (boot ID %s, now %s)", c.BootID, in.bootID)
	}
	return finishWith(v1alpha1.ReasonInterrupted,
		"runner %s claimed it at %s and reported no result: the remedy may or may not have been executed; %s",
		c.RunnerID, c.Time.UTC().Format(time.RFC3339), boot)
}

// startedBefore gives up an action that carries this process's claim although
// this process has started it before, or does not remember having claimed it.
// A result that only waits to be reported never gets here.
func startedBefore(in input) *decision {
	if in.progress == started || (in.action.Status.Claim != nil && in.progress != claiming) {
		return finishWith(v1alpha1.ReasonInterrupted,
			"this runner claimed it and has lost the result: the remedy may or may not have been executed")
	}
	return nil
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

func stepGone(in input) *decision {
	if in.policy.StepWithHash(in.action.Spec.StepHash) == nil {
		return finishWith(v1alpha1.ReasonSuperseded,
			"RemedyPolicy %s has no step with hash %s any more: the policy was edited, or it uses fields that this version of the runner does not know",
			in.policy.Name, in.action.Spec.StepHash)
	}
	return nil
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
	if remedyOf(in.policy.StepWithHash(in.action.Spec.StepHash)) == nil {
		return finishWith(v1alpha1.ReasonUnsupported,
			"this version of the runner does not know the remedy of the step; it knows: command")
	}
	return nil
}

func notNeeded(in input) *decision {
	if matches(in.policy.Spec.Match, in.node) {
		return nil
	}
	return finishWith(v1alpha1.ReasonNotNeeded, "no condition matched by RemedyPolicy %s is there any more: %s",
		in.policy.Name, describeMatch(in.policy.Spec.Match, in.node))
}

func finishWith(reason, format string, args ...any) *decision {
	return &decision{verb: finish, reason: reason, message: fmt.Sprintf(format, args...)}
}
