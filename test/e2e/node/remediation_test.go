//go:build e2e

package node_test

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

// shipped applies a policy of deploy/policies, enforced and with the patience of a test.
func (s *scenario) shipped(name string) {
	s.Helper()
	data, err := deploy.Policies.ReadFile("policies/" + name + ".yaml")
	s.Must(err)
	var policy v1alpha1.RemedyPolicy
	s.Must(yaml.UnmarshalStrict(data, &policy))
	spec := policy.Spec
	spec.Mode = v1alpha1.ModeEnforce
	for i := range spec.Match {
		spec.Match[i].For = v1alpha1.Duration{}
	}
	s.apply(name, spec)
}

// onFault applies a policy that does something about the test's own fault.
func (s *scenario) onFault(name string, step v1alpha1.Step) {
	s.Helper()
	s.apply(name, v1alpha1.RemedyPolicySpec{
		Match: []v1alpha1.ConditionMatch{{Type: faultCondition, Status: corev1.ConditionTrue}},
		Steps: []v1alpha1.Step{step},
	})
}

// script is a step that runs a script, with a line in ranFile each time.
func script(text string) v1alpha1.Step {
	return v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "echo ran >>" + ranFile + "\n" + text}}
}

// apply applies a policy to the node with the fault.
func (s *scenario) apply(name string, spec v1alpha1.RemedyPolicySpec) {
	s.Helper()
	spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: s.node.Name}}
	// The node has only just joined, and is broken several times.
	spec.DelayAfterJoin, spec.Cooldown = duration(0), duration(0)
	spec.Recovery.HealthyFor = *duration(3 * time.Second)
	s.Must(s.Create(s.Ctx, &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}))
}

func duration(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }

// remediation returns the node's newest remediation; nil if there is none.
func (s *scenario) remediation() *v1alpha1.Remediation {
	s.Helper()
	var list v1alpha1.RemediationList
	s.Must(s.List(s.Ctx, &list, client.MatchingFields{"spec.nodeName": s.node.Name}))
	var newest *v1alpha1.Remediation
	for i := range list.Items {
		if r := &list.Items[i]; newest == nil || !r.CreationTimestamp.Before(&newest.CreationTimestamp) {
			newest = r
		}
	}
	return newest
}

// reaches tells whether the newest remediation is in a state.
func (s *scenario) reaches(want string) func() (bool, string) {
	return func() (bool, string) {
		r := s.remediation()
		if r == nil {
			return false, "there is no remediation"
		}
		blocked := ""
		if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RemediationBlocked); c != nil && c.Status == metav1.ConditionTrue {
			blocked = c.Reason + ": " + c.Message
		}
		return r.State() == want, fmt.Sprintf("remediation %s, blocked by %q", r.State(), blocked)
	}
}

// claimed returns the action that the node's runner has claimed, once it has one.
func (s *scenario) claimed() *v1alpha1.NodeAction {
	s.Helper()
	var found *v1alpha1.NodeAction
	s.Until(moment, "the runner has claimed an action", func() (bool, string) {
		var list v1alpha1.NodeActionList
		s.Must(s.List(s.Ctx, &list, client.MatchingFields{"spec.nodeName": s.node.Name}))
		for i := range list.Items {
			if list.Items[i].MayRun() {
				found = &list.Items[i]
			}
		}
		_, state := s.reaches("")()
		return found != nil, fmt.Sprintf("%d actions, %s", len(list.Items), state)
	})
	return found
}

// recovered waits until the newest remediation has ended well after these remedies, each
// with its outcome: "command Succeeded". The node is in service.
func (s *scenario) recovered(want ...string) {
	s.Helper()
	s.Until(round, "the node has recovered", s.reaches(v1alpha1.ReasonRecovered))
	got := []string{}
	for _, record := range s.remediation().Status.History {
		got = append(got, record.Remedy+" "+record.Outcome)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		s.Fatalf("the history is %q, want %q", got, want)
	}
	s.Until(moment, "the node is in service", func() (bool, string) {
		spec := s.object(s.node).Spec
		return !spec.Unschedulable, fmt.Sprintf("%+v", spec)
	})
}

// result returns what an action gave.
func (s *scenario) result(name string) *v1alpha1.ActionResult {
	s.Helper()
	action := &v1alpha1.NodeAction{}
	s.Must(s.Get(s.Ctx, client.ObjectKey{Name: name}, action))
	if action.Status.Result == nil {
		s.Fatalf("action %s has no result: %+v", name, action.Status)
	}
	return action.Status.Result
}
