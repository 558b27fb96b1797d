//go:build e2e

package node_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// onFault applies a policy that does something about the test's own fault.
func (s *scenario) onFault(name string, step v1alpha1.Step) {
	s.Helper()
	s.Apply(name, v1alpha1.RemedyPolicySpec{
		Match: []v1alpha1.ConditionMatch{{Type: faultCondition, Status: corev1.ConditionTrue}},
		Steps: []v1alpha1.Step{step},
	})
}

// script is a step that runs a script, with a line in ranFile each time.
func script(text string) v1alpha1.Step {
	return v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "echo ran >>" + ranFile + "\n" + text}}
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
		_, state := s.Reaches("")()
		return found != nil, fmt.Sprintf("%d actions, %s", len(list.Items), state)
	})
	return found
}

// begun waits until a script runs: a claimed action may not have been executed yet.
func (s *scenario) begun() {
	s.Helper()
	s.Until(moment, "the script runs", func() (bool, string) {
		ran := s.run("cat " + ranFile + " 2>/dev/null || true")
		return ran != "", ran
	})
}

// recovered waits until the newest remediation has ended well after these remedies, each
// with its outcome: "command Succeeded". The node is in service.
func (s *scenario) recovered(want ...string) {
	s.Helper()
	s.Until(round, "the node has recovered", s.Reaches(v1alpha1.ReasonRecovered))
	got := []string{}
	for _, record := range s.Remediation().Status.History {
		got = append(got, record.Remedy+" "+record.Outcome)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		s.Fatalf("the history is %q, want %q", got, want)
	}
	s.Until(moment, "the node is in service", func() (bool, string) {
		spec := s.Object().Spec
		return !spec.Unschedulable, fmt.Sprintf("%+v", spec)
	})
}
