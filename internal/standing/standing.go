// Package standing has the rules that hold for an action until it begins, whoever executes it: the
// runner of its node, the remote runner, or the controller, which has another program do it. What
// is asked of each is what the API server has now, whatever the action's creator saw.
package standing

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// Facts are what the rules look at, read live from the API server. But for the action they are nil
// when it answered that there is no such object, never because they could not be read.
type Facts struct {
	Action      *v1alpha1.NodeAction
	Node        *corev1.Node
	Remediation *v1alpha1.Remediation
	Policy      *v1alpha1.RemedyPolicy
	// Asked is the object by which another program has asked for the remediation, nil also if
	// none has.
	Asked *v1alpha1.NodemendRemediation
	// Pause is the budget that pauses the whole cluster.
	Pause *v1alpha1.RemediationBudget
}

// Refusal says why an action must not begin.
type Refusal struct {
	// Reason is one of those of the condition Finished.
	Reason string
	// Message is for people.
	Message string
}

type rule func(Facts) *Refusal

// Refuses returns why the action must not begin, nil if nothing forbids it. Then there are all of
// the facts but the pause and what has asked, and the policy has the step.
func Refuses(f Facts) *Refusal {
	return first(f, deleted, notThisNode, excluded, clusterPaused, notAnnounced, notApproved, policyGone, notEnforced, stepGone, anotherStep, notSelected, notNeeded)
}

// HeldByPeople returns how people have said that nothing is to be done with the node now, nil if
// they have not. It needs the node alone, and the pause.
func HeldByPeople(f Facts) *Refusal { return first(f, excluded, clusterPaused) }

func first(f Facts, rules ...rule) *Refusal {
	for _, r := range rules {
		if refusal := r(f); refusal != nil {
			return refusal
		}
	}
	return nil
}

func refuse(reason, format string, args ...any) *Refusal {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// deleted cancels an action that only a finalizer still keeps.
func deleted(f Facts) *Refusal {
	if f.Action.DeletionTimestamp != nil {
		return refuse(v1alpha1.ReasonCancelled, "the action was deleted before it was started")
	}
	return nil
}

// notThisNode refuses an action for an earlier node of the same name.
func notThisNode(f Facts) *Refusal {
	spec := &f.Action.Spec
	switch {
	case f.Node == nil:
		return refuse(v1alpha1.ReasonRefused, "there is no Node %s", spec.NodeName)
	case f.Node.UID != spec.NodeUID:
		return refuse(v1alpha1.ReasonRefused, "it is for the Node %s with UID %s, this one has UID %s", spec.NodeName, spec.NodeUID, f.Node.UID)
	}
	return nil
}

// excluded refuses what was created before somebody excluded the node.
func excluded(f Facts) *Refusal {
	if v1alpha1.Excluded(f.Node) {
		return refuse(v1alpha1.ReasonRefused, "Node %s has the label %s=true", f.Node.Name, v1alpha1.ExcludeLabel)
	}
	return nil
}

// clusterPaused refuses what was created before somebody paused the cluster, or by a
// controller that does not know of it.
func clusterPaused(f Facts) *Refusal {
	if f.Pause == nil || !f.Pause.Pauses(f.Node) {
		return nil
	}
	why := ""
	if f.Pause.Spec.PauseReason != "" {
		why = fmt.Sprintf(" (%s)", f.Pause.Spec.PauseReason)
	}
	return refuse(v1alpha1.ReasonRefused, "the cluster is paused by RemediationBudget %s%s", f.Pause.Name, why)
}

// notAnnounced refuses an action that its remediation does not wait for: a controller
// with an old view has created it, or created it again, after the remediation had gone
// on, and the permit may be somebody else's by now.
func notAnnounced(f Facts) *Refusal {
	spec := &f.Action.Spec
	switch r := f.Remediation; {
	case r == nil || r.UID != spec.RemediationUID:
		return refuse(v1alpha1.ReasonSuperseded, "Remediation %s, which it is part of, has been deleted", spec.Remediation)
	case r.DeletionTimestamp != nil:
		return refuse(v1alpha1.ReasonSuperseded, "Remediation %s is being deleted", r.Name)
	case r.Status.Action != f.Action.Name:
		return refuse(v1alpha1.ReasonSuperseded, "Remediation %s does not wait for it: its status.action is %q", r.Name, r.Status.Action)
	}
	return nil
}

// notApproved refuses a step that a person has to approve and has not, whoever created
// the action.
func notApproved(f Facts) *Refusal {
	number := f.Action.Spec.Step
	if step := f.Remediation.Step(number); step == nil || !step.RequireApproval || f.Remediation.Approved(number) {
		return nil
	}
	return refuse(v1alpha1.ReasonRefused, "step %d of Remediation %s requires approval, which it does not have", number, f.Remediation.Name)
}

func policyGone(f Facts) *Refusal {
	ref := f.Action.Spec.Policy
	switch {
	case f.Policy == nil:
		return refuse(v1alpha1.ReasonSuperseded, "RemedyPolicy %s has been deleted", ref.Name)
	case f.Policy.UID != ref.UID:
		return refuse(v1alpha1.ReasonSuperseded,
			"RemedyPolicy %s has been deleted and created again: its UID is %s, the action names %s", ref.Name, f.Policy.UID, ref.UID)
	case f.Policy.DeletionTimestamp != nil:
		return refuse(v1alpha1.ReasonSuperseded, "RemedyPolicy %s is being deleted", ref.Name)
	}
	return nil
}

// notEnforced refuses a step of a policy that was told to do nothing meanwhile, or
// that has a mode which this version does not know.
func notEnforced(f Facts) *Refusal {
	if mode := f.Policy.Spec.Mode; mode != "" && mode != v1alpha1.ModeEnforce {
		return refuse(v1alpha1.ReasonRefused, "RemedyPolicy %s is in mode %s", f.Policy.Name, mode)
	}
	if f.Policy.Spec.Paused {
		return refuse(v1alpha1.ReasonRefused, "RemedyPolicy %s is paused", f.Policy.Name)
	}
	return nil
}

// stepGone holds the rule that nothing is executed but what a policy says now (invariant I6).
func stepGone(f Facts) *Refusal {
	if f.Policy.StepWithHash(f.Action.Spec.StepHash) == nil {
		return refuse(v1alpha1.ReasonSuperseded,
			"RemedyPolicy %s has no step with hash %s any more: the policy was edited, or it uses fields that this version does not know",
			f.Policy.Name, f.Action.Spec.StepHash)
	}
	return nil
}

// anotherStep refuses a step under the number of another one, whose approval it would have.
func anotherStep(f Facts) *Refusal {
	number := f.Action.Spec.Step
	if step := f.Remediation.Step(number); step != nil {
		if hash, err := step.Hash(); err == nil && hash == f.Action.Spec.StepHash {
			return nil
		}
	}
	return refuse(v1alpha1.ReasonRefused, "it asks for a step with hash %s, which step %d of Remediation %s is not",
		f.Action.Spec.StepHash, number, f.Remediation.Name)
}

// notSelected refuses a step on a node that its policy was not written for,
// whoever created the action.
func notSelected(f Facts) *Refusal {
	selector, err := v1alpha1.SelectorOf(f.Policy.Spec.NodeSelector)
	switch {
	case err != nil:
		return refuse(v1alpha1.ReasonRefused, "the nodeSelector of RemedyPolicy %s is invalid: %v", f.Policy.Name, err)
	case !selector.Matches(labels.Set(f.Node.Labels)):
		return refuse(v1alpha1.ReasonRefused, "RemedyPolicy %s does not select Node %s: see its spec.nodeSelector", f.Policy.Name, f.Node.Name)
	}
	return nil
}

// notNeeded refuses what no condition asks for any more, or what the program that has asked for it
// does not.
func notNeeded(f Facts) *Refusal {
	if request := f.Remediation.Spec.Request; request != nil {
		if over := request.Over(f.Asked); over != "" {
			return refuse(v1alpha1.ReasonNotNeeded, "%s", over)
		}
		return nil
	}
	if Matched(f.Policy.Spec.Match, f.Node) != nil {
		return nil
	}
	return refuse(v1alpha1.ReasonNotNeeded, "no condition matched by RemedyPolicy %s is there any more: %s",
		f.Policy.Name, describeMatch(f.Policy.Spec.Match, f.Node))
}

// Matched returns the first condition of the node that is a problem, with its
// status and reason, or nil if there is none.
func Matched(match []v1alpha1.ConditionMatch, node *corev1.Node) *corev1.NodeCondition {
	for i := range match {
		if c := v1alpha1.FindNodeCondition(node, match[i].Type); match[i].Matches(c) {
			return c
		}
	}
	return nil
}

// describeMatch says for each entry how the node's condition differs.
func describeMatch(match []v1alpha1.ConditionMatch, node *corev1.Node) string {
	parts := make([]string, 0, len(match))
	for _, m := range match {
		is, not := "absent", string(m.Status)
		if c := v1alpha1.FindNodeCondition(node, m.Type); c != nil {
			is = string(c.Status)
			if c.Status == m.Status { // so it is the reason
				is += " for " + c.Reason
				not = "for " + strings.Join(m.Reasons, " or ")
			}
		}
		parts = append(parts, fmt.Sprintf("%s is %s, not %s", m.Type, is, not))
	}
	return strings.Join(parts, "; ")
}
