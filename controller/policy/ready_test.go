package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestWhetherAPolicyCanAct(t *testing.T) {
	reports := func(sick, ill int32) []v1alpha1.ConditionReports {
		return []v1alpha1.ConditionReports{{Type: "Sick", Nodes: sick}, {Type: "Ill", Nodes: ill}}
	}
	type (
		spec   = v1alpha1.RemedyPolicySpec
		counts = Counts
	)
	for _, tt := range []struct {
		name    string
		change  func(*spec, *counts)
		want    string
		message string
	}{
		{"it can", func(*spec, *counts) {}, "True Enforced", "acts on 9 selected nodes"},
		{"on request", func(s *spec, _ *counts) { s.Match = nil }, "True Enforced", "it has no match: it acts on 9 selected nodes when a NodemendRemediation asks for it"},
		{"on some", func(_ *spec, c *counts) { c.WithoutBudget, c.Excluded = 3, 1 }, "True Enforced", "9 selected nodes, but not on all: 3 without a RemediationBudget, 1 labelled nodemend.dev/exclude=true"},
		{"on trial", func(s *spec, _ *counts) { s.Mode = v1alpha1.ModeDryRun }, "True DryRun", "set spec.mode to Enforce"},
		{"paused", func(s *spec, _ *counts) { s.Paused, s.PauseReason = true, "tea" }, "True Paused", "by spec.paused (tea)"},
		{"paused and on trial", func(s *spec, _ *counts) { s.Paused, s.Mode = true, v1alpha1.ModeDryRun }, "True Paused", "by spec.paused;"},
		{"a selector that cannot be read", func(_ *spec, c *counts) { c.Invalid, c.Nodes = errors.New("what"), 0 }, "False SelectorInvalid", "what"},
		{"no node is selected", func(_ *spec, c *counts) { *c = counts{All: 12, Reports: reports(0, 0)} }, "False NoNode", "selects none of 12 nodes"},
		{"there is no node", func(_ *spec, c *counts) { *c = counts{Reports: reports(0, 0)} }, "False NoNode", "there is no node"},
		{"nobody reports anything", func(_ *spec, c *counts) { c.Reports = reports(0, 0) }, "False NotReported", "reports Sick and Ill: no remediation of the policy can start"},
		{"nobody reports one of two", func(_ *spec, c *counts) { c.Reports = reports(9, 0) }, "False NotReported", "reports Ill: no remediation of the policy can count as recovered"},
		{"one node reports", func(_ *spec, c *counts) { c.Reports = reports(1, 1) }, "True Enforced", ""},
		{"on trial, too", func(s *spec, c *counts) { s.Mode, c.Reports = v1alpha1.ModeDryRun, reports(9, 0) }, "False NotReported", ""},
		{"it allows itself nothing", func(s *spec, _ *counts) { s.MaxRemediations = &v1alpha1.Rate{} }, "False NoRemediationAllowed", "spec.maxRemediations.count is 0"},
		{"it allows itself something", func(s *spec, _ *counts) { s.MaxRemediations = &v1alpha1.Rate{Count: 1} }, "True Enforced", ""},
		{"no budget", func(_ *spec, c *counts) { c.WithoutBudget = 9 }, "False NoBudget", "any of 9 selected nodes: create one"},
		{"paused without a budget", func(s *spec, c *counts) { s.Paused, c.WithoutBudget = true, 9 }, "False NoBudget", ""},
		{"a reason for each node", func(_ *spec, c *counts) { c.WithoutBudget, c.Closed, c.Excluded = 2, 3, 4 }, "False NoNodeAllowed", "2 without a RemediationBudget, 3 in a RemediationBudget that gives no permit (maxConcurrent 0), 4 labelled"},
		{"some can't be switched off", func(s *spec, c *counts) {
			c.WithoutFence = 2
			s.Steps = []v1alpha1.Step{{Reboot: &v1alpha1.RebootRemedy{}}, {Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}}}
		}, "True Enforced", "it acts on 9 selected nodes; step 2 switches power, and of 9 selected nodes 2 were not seen to have a switch that would do"},
		{"one is left", func(_ *spec, c *counts) { c.Closed, c.Excluded = 4, 4 }, "True Enforced", "but not on all: 4 in"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, c := &spec{Mode: v1alpha1.ModeEnforce, Match: []v1alpha1.ConditionMatch{{Type: "Sick"}, {Type: "Ill"}}}, &counts{All: 12, Nodes: 9, Reports: reports(9, 8)}
			tt.change(s, c)
			ready := Ready(s, c)
			if strings.Contains(ready.Message, "switch") != (c.WithoutFence > 0) {
				t.Errorf("of switches it says: %s", ready.Message)
			}
			if got := string(ready.Status) + " " + ready.Reason; got != tt.want || !strings.Contains(ready.Message, tt.message) {
				t.Errorf("got %s: %s", got, ready.Message)
			}
		})
	}
}
