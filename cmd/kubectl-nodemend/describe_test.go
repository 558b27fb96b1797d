package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func before(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(-d)) }

// deleted is the tombstone of a remediation that started an hour ago, executed one action, and
// was deleted a second ago.
func deleted() *v1alpha1.Remediation {
	r := &v1alpha1.Remediation{}
	r.Name, r.CreationTimestamp = "n1-0123-deleted", before(0)
	r.Annotations = map[string]string{
		v1alpha1.TombstoneAnnotation:        "n1-0123",
		v1alpha1.TombstoneStartedAnnotation: before(time.Hour).Format(time.RFC3339),
	}
	r.Spec.Trigger = v1alpha1.Trigger{Type: "Sick", Status: "True", LastTransitionTime: before(2 * time.Hour)}
	r.Status.EndTime = ptr.To(before(time.Second))
	r.Status.History = []v1alpha1.ActionRecord{{
		Step: 1, Attempt: 1, Remedy: "command", Outcome: "Failed",
		StartedAt: ptr.To(before(50 * time.Minute)), FinishedAt: before(49 * time.Minute),
	}}
	return r
}

// inOrder reports whether the words come one after the other.
func inOrder(text string, words ...string) bool {
	for _, word := range words {
		_, rest, found := strings.Cut(text, word)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// flat is a text without what folds it.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// says reports whether a text says this, in whatever lines.
func says(text, what string) bool { return strings.Contains(flat(text), flat(what)) }

func TestTheTimelineOfATombstoneBeginsWhenItsRemediationDid(t *testing.T) {
	text := (&tool{clock: clocktesting.NewFakePassiveClock(noon)}).timeline(deleted(), nil)
	if !inOrder(text, "Sick became True", "11:00:00Z  remediation started", "attempt 1 started", "attempt 1 Failed", "ended:") {
		t.Error(text)
	}
}

func TestTheHistorySaysHowLongATombstonesRemediationTook(t *testing.T) {
	text := (&tool{clock: clocktesting.NewFakePassiveClock(noon)}).remediationTable([]v1alpha1.Remediation{*deleted()}, true)
	if !inOrder(text, "AGE", "60m", "59m", "n1-0123-deleted") {
		t.Error(text)
	}
}

func TestTheScriptThatWaitsForApprovalIsShown(t *testing.T) {
	r := stands(1, v1alpha1.ReasonWaiting, "ApprovalRequired")
	r.Spec.Steps[0] = v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "set -eu\nrm -rf /var/lib/cache/*\x1b[2J\n"}, RequireApproval: true}
	const want = "> 1. run its script, after approval\n    | set -eu\n    | rm -rf /var/lib/cache/*\ufffd[2J\n"
	if got := atNoon().timeline(r, nil); !strings.Contains(got, want) {
		t.Errorf("it does not show\n%s\nin\n%s", want, got)
	}
}

func TestARemediationThatNobodyHasLookedAtIsWatchedAsNew(t *testing.T) {
	r := stands(1, "", "")
	r.Status.Conditions, r.Status.State = nil, ""
	if got := remediationChange(r).stands; got != "new" {
		t.Errorf("it stands at %q", got)
	}
}

// Who has asked for a remediation is told, and that nobody is to start it over.
func TestDescribeTellsWhoHasAsked(t *testing.T) {
	r := &v1alpha1.Remediation{}
	r.Name, r.CreationTimestamp, r.Spec.NodeName = "n1-0123", before(time.Hour), "n1"
	r.Spec.Request = &v1alpha1.Request{
		Namespace: "default", Name: "n1", UID: "request",
		Owners: []v1alpha1.RequestOwner{{Group: "remediation.medik8s.io", Kind: "NodeHealthCheck", Name: "workers"}},
	}
	r.Spec.Trigger = v1alpha1.Trigger{
		Type: v1alpha1.RequestTrigger, Status: "True", LastTransitionTime: before(time.Hour),
		Message: "requested by NodeHealthCheck workers, by NodemendRemediation default/n1",
	}
	r.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.RemediationProgressing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonExhausted, LastTransitionTime: before(time.Minute),
	}}
	text := (&tool{clock: clocktesting.NewFakePassiveClock(noon)}).timeline(r, nil)
	if !inOrder(flat(text), "Requested by:", "NodeHealthCheck workers (NodemendRemediation default/n1)",
		"NodeHealthCheck workers goes on without it, and it ends when NodemendRemediation default/n1 is deleted",
		"requested by NodeHealthCheck workers") || strings.Contains(text, "nodemend retry") {
		t.Errorf("it does not tell:\n%s", text)
	}
}

func TestTheReasonIsNotSaidTwice(t *testing.T) {
	r := stands(1, v1alpha1.ReasonWaiting, "DryRun")
	r.Status.BlockedBy, r.Status.Conditions[1].Message = "DryRun", "DryRun: would restart containerd.service now"
	if got := remediationChange(r); got.stands+": "+got.message != "Waiting (DryRun): would restart containerd.service now" {
		t.Errorf("watch says %s: %s", got.stands, got.message)
	}
}
