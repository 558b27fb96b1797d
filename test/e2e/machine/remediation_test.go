//go:build e2e

package machine

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
)

// shipped applies a policy of deploy/policies to this node alone, enforced and with the
// patience of a test, and otherwise as edit has it.
func (n *node) shipped(name string, edit func(*v1alpha1.RemedyPolicySpec)) {
	n.Helper()
	data, err := deploy.Policies.ReadFile("policies/" + name + ".yaml")
	n.Must(err)
	var policy v1alpha1.RemedyPolicy
	n.Must(yaml.UnmarshalStrict(data, &policy))
	spec := policy.Spec
	spec.Mode = v1alpha1.ModeEnforce
	for i := range spec.Match {
		spec.Match[i].For = v1alpha1.Duration{}
	}
	spec.Recovery.HealthyFor = *duration(3 * time.Second)
	edit(&spec)
	n.apply(name, spec)
}

// apply applies a policy to this node alone.
func (n *node) apply(name string, spec v1alpha1.RemedyPolicySpec) {
	n.Helper()
	spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: n.name}}
	// The node has only just joined, and is broken several times.
	spec.DelayAfterJoin, spec.Cooldown = duration(0), duration(0)
	n.Must(n.plane.Create(n.Ctx, &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: n.name + "-" + name, Labels: map[string]string{corev1.LabelHostname: n.name}},
		Spec:       spec,
	}))
}

func duration(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }

// remediation returns the node's newest remediation; nil if there is none.
func (n *node) remediation() *v1alpha1.Remediation {
	n.Helper()
	var list v1alpha1.RemediationList
	n.Must(n.plane.List(n.Ctx, &list, client.MatchingFields{"spec.nodeName": n.name}))
	var newest *v1alpha1.Remediation
	for i := range list.Items {
		if r := &list.Items[i]; newest == nil || !r.CreationTimestamp.Before(&newest.CreationTimestamp) {
			newest = r
		}
	}
	return newest
}

// state is what `kubectl get remediations` shows.
func state(r *v1alpha1.Remediation) (state, blocked string) {
	if r == nil {
		return "", ""
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RemediationProgressing); c != nil {
		state = c.Reason
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RemediationBlocked); c != nil && c.Status == metav1.ConditionTrue {
		blocked = c.Reason + ": " + c.Message
	}
	return state, blocked
}

// reaches tells whether the newest remediation is in a state.
func (n *node) reaches(want string) func() (bool, string) {
	return func() (bool, string) {
		got, blocked := state(n.remediation())
		return got == want, fmt.Sprintf("remediation %s, blocked by %q", got, blocked)
	}
}

// claimed returns the action that the node's runner has claimed, once it has one that has
// not finished, or has just finished.
func (n *node) claimed(remedy string) *v1alpha1.NodeAction {
	n.Helper()
	var found *v1alpha1.NodeAction
	n.Until(round, "the runner claims a "+remedy, func() (bool, string) {
		actions := n.actions()
		for i := range actions {
			if claim := actions[i].Status.Claim; claim != nil && claim.Remedy == remedy {
				found = &actions[i]
			}
		}
		got, blocked := state(n.remediation())
		return found != nil, fmt.Sprintf("actions %q, remediation %s, blocked by %q", names(actions), got, blocked)
	})
	return found
}

// result returns what an action gave.
func (n *node) result(name string) *v1alpha1.ActionResult {
	n.Helper()
	action := &v1alpha1.NodeAction{}
	n.Must(n.plane.Get(n.Ctx, client.ObjectKey{Name: name}, action))
	if action.Status.Result == nil {
		n.Fatalf("action %s has no result: %+v", name, action.Status)
	}
	return action.Status.Result
}

// executed ends the test with an error unless the newest remediation has executed these
// remedies, in this order, each with its outcome: "reboot Succeeded". What has not been
// executed may not be there either, nor may the node have any other action.
func (n *node) executed(want ...string) {
	n.Helper()
	got, ordered := []string{}, 0
	for _, record := range n.remediation().Status.History {
		got = append(got, record.Remedy+" "+record.Outcome)
		if record.Remedy != v1alpha1.RemedyMaintenance {
			ordered++
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		n.Fatalf("the history is %q, want %q", got, want)
	}
	if actions := n.actions(); len(actions) != ordered {
		n.Fatalf("the node has the actions %s, and the history has %d", names(actions), ordered)
	}
}
