package external

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// facts are what has to be known before an action is claimed, as the API server has it. What there is
// none of is nil.
type facts struct {
	action      *v1alpha1.NodeAction
	node        *corev1.Node
	remediation *v1alpha1.Remediation
	policy      *v1alpha1.RemedyPolicy
	pause       *v1alpha1.RemediationBudget
	// asked is the object that the remediation's request names.
	asked *v1alpha1.NodemendRemediation
}

// mayStart says why the action must not begin, as a runner does before its claim; nil: it may. It
// returns its step.
func mayStart(f facts) (*v1alpha1.Step, *outcome) {
	for _, check := range []func(facts) *outcome{
		deleted, notThisNode, excluded, clusterPaused, notAnnounced, notApproved, policyGone, notEnforced, stepGone, anotherStep, notSelected, notNeeded,
	} {
		if end := check(f); end != nil {
			return nil, end
		}
	}
	return f.policy.StepWithHash(f.action.Spec.StepHash), nil
}

func ends(reason, format string, args ...any) *outcome {
	return &outcome{reason, fmt.Sprintf(format, args...)}
}

func deleted(f facts) *outcome {
	if f.action.DeletionTimestamp == nil {
		return nil
	}
	return ends(v1alpha1.ReasonCancelled, "the action was deleted before it began")
}

func notThisNode(f facts) *outcome {
	spec := &f.action.Spec
	switch {
	case f.node == nil:
		return ends(v1alpha1.ReasonRefused, "there is no Node %s", spec.NodeName)
	case f.node.UID != spec.NodeUID:
		return ends(v1alpha1.ReasonRefused, "it is for the Node %s with UID %s, this one has UID %s", spec.NodeName, spec.NodeUID, f.node.UID)
	}
	return nil
}

func excluded(f facts) *outcome {
	if !v1alpha1.Excluded(f.node) {
		return nil
	}
	return ends(v1alpha1.ReasonRefused, "Node %s has the label %s=true", f.node.Name, v1alpha1.ExcludeLabel)
}

func clusterPaused(f facts) *outcome {
	if f.pause == nil || !f.pause.Pauses(f.node) {
		return nil
	}
	return ends(v1alpha1.ReasonRefused, "the cluster is paused by RemediationBudget %s", f.pause.Name)
}

func notAnnounced(f facts) *outcome {
	spec := &f.action.Spec
	switch r := f.remediation; {
	case r == nil || r.UID != spec.RemediationUID:
		return ends(v1alpha1.ReasonSuperseded, "Remediation %s, which it is part of, has been deleted", spec.Remediation)
	case r.DeletionTimestamp != nil:
		return ends(v1alpha1.ReasonSuperseded, "Remediation %s is being deleted", r.Name)
	case r.Status.Action != f.action.Name:
		return ends(v1alpha1.ReasonSuperseded, "Remediation %s does not wait for it: its status.action is %q", r.Name, r.Status.Action)
	}
	return nil
}

func notApproved(f facts) *outcome {
	number := f.action.Spec.Step
	if step := f.remediation.Step(number); step == nil || !step.RequireApproval || f.remediation.Approved(number) {
		return nil
	}
	return ends(v1alpha1.ReasonRefused, "step %d of Remediation %s requires approval, which it does not have", number, f.remediation.Name)
}

func policyGone(f facts) *outcome {
	ref := f.action.Spec.Policy
	if f.policy == nil || f.policy.UID != ref.UID || f.policy.DeletionTimestamp != nil {
		return ends(v1alpha1.ReasonSuperseded, "RemedyPolicy %s has been deleted", ref.Name)
	}
	return nil
}

func notEnforced(f facts) *outcome {
	if mode := f.policy.Spec.Mode; mode != "" && mode != v1alpha1.ModeEnforce {
		return ends(v1alpha1.ReasonRefused, "RemedyPolicy %s is in mode %s", f.policy.Name, mode)
	}
	if f.policy.Spec.Paused {
		return ends(v1alpha1.ReasonRefused, "RemedyPolicy %s is paused", f.policy.Name)
	}
	return nil
}

// stepGone holds the rule that nothing is executed but what a policy says now (invariant I6).
func stepGone(f facts) *outcome {
	if step := f.policy.StepWithHash(f.action.Spec.StepHash); step == nil || step.External == nil {
		return ends(v1alpha1.ReasonSuperseded, "RemedyPolicy %s has no external step with hash %s any more: the policy was edited", f.policy.Name, f.action.Spec.StepHash)
	}
	return nil
}

// anotherStep refuses a step under the number of another one, whose approval it would have.
func anotherStep(f facts) *outcome {
	number := f.action.Spec.Step
	if step := f.remediation.Step(number); step != nil {
		if hash, err := step.Hash(); err == nil && hash == f.action.Spec.StepHash {
			return nil
		}
	}
	return ends(v1alpha1.ReasonRefused, "it asks for a step with hash %s, which step %d of Remediation %s is not", f.action.Spec.StepHash, number, f.remediation.Name)
}

func notSelected(f facts) *outcome {
	selector, err := v1alpha1.SelectorOf(f.policy.Spec.NodeSelector)
	if err != nil {
		return ends(v1alpha1.ReasonRefused, "the nodeSelector of RemedyPolicy %s is invalid: %v", f.policy.Name, err)
	}
	if !selector.Matches(labels.Set(f.node.Labels)) {
		return ends(v1alpha1.ReasonRefused, "RemedyPolicy %s does not select Node %s: see its spec.nodeSelector", f.policy.Name, f.node.Name)
	}
	return nil
}

func notNeeded(f facts) *outcome {
	if request := f.remediation.Spec.Request; request != nil {
		if over := request.Over(f.asked); over != "" {
			return ends(v1alpha1.ReasonNotNeeded, "%s", over)
		}
		return nil
	}
	match := f.policy.Spec.Match
	for i := range match {
		if match[i].Matches(v1alpha1.FindNodeCondition(f.node, match[i].Type)) {
			return nil
		}
	}
	return ends(v1alpha1.ReasonNotNeeded, "no condition matched by RemedyPolicy %s is there any more", f.policy.Name)
}
