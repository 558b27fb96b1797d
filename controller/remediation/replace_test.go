package remediation

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// replacing is a node whose machine is being replaced since so long ago, for which there was an hour.
func replacing(since time.Duration, options ...func(*situation)) situation {
	return incident(append([]func(*situation){
		func(s *situation) {
			s.remediation.Spec.Steps = []v1alpha1.Step{{Replace: &v1alpha1.ReplaceRemedy{}, Timeout: seconds(3600), VerifyTimeout: seconds(60), Attempts: 1}}
			s.policy.Spec.Steps = s.remediation.Spec.Steps
		},
		at(1, 1),
		underway(since, func(a *v1alpha1.NodeAction) {
			a.Spec.Executor, a.Spec.Timeout = v1alpha1.ExecutorRemote, seconds(3600)
			a.Status.Claim = &v1alpha1.Claim{Time: ago(since), BootID: "boot-1", Remedy: v1alpha1.RemedyReplace}
			a.Status.Replace = &v1alpha1.ReplaceStatus{
				RunnerID: "remote",
				Machine:  v1alpha1.ExternalObject{Kind: "Machine", Namespace: "fleet", Name: "m", UID: "m-uid"},
				Owner:    v1alpha1.ExternalObject{Kind: "MachineSet", Namespace: "fleet", Name: "workers"},
				Method:   v1alpha1.ReplaceDelete, Wanted: 3, Said: "it is being deleted",
			}
		}),
	}, options...)...)
}

// The permit is kept until the machine is gone and a new node is Ready, however long that takes, and
// nothing takes the deletion back.
func TestAMachineThatIsBeingReplacedHasItsNodeUntilItIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		s              situation
		effect         effect
		blocked, state string
		wait           time.Duration
	}{
		"it is under way":                     {s: replacing(10 * time.Minute), effect: nothing, state: v1alpha1.ReasonActing, wait: 55 * time.Minute},
		"the policy is paused meanwhile":      {s: replacing(10*time.Minute, pausedPolicy), effect: nothing, state: v1alpha1.ReasonActing, wait: 55 * time.Minute},
		"the node is clear":                   {s: replacing(10*time.Minute, wellAgain), effect: nothing, state: v1alpha1.ReasonActing, wait: 55 * time.Minute},
		"a person wants to start over":        {s: replacing(10*time.Minute, retry("1")), effect: nothing, state: v1alpha1.ReasonActing, wait: 55 * time.Minute},
		"the remediation is deleted":          {s: replacing(10*time.Minute, byAPerson), effect: nothing, state: v1alpha1.ReasonActing, wait: 55 * time.Minute},
		"the node is gone":                    {s: replacing(10*time.Minute, nodeGone), effect: nothing, state: v1alpha1.ReasonActing, wait: 55 * time.Minute},
		"its time is over":                    {s: replacing(62 * time.Minute), effect: nothing, state: v1alpha1.ReasonActing, wait: 3 * time.Minute},
		"a finalizer keeps it for a day":      {s: replacing(24 * time.Hour), effect: nothing, state: v1alpha1.ReasonActing, blocked: v1alpha1.ReasonStillRunning},
		"and the machine alone, without node": {s: replacing(24*time.Hour, nodeGone), effect: release, state: v1alpha1.ReasonWaiting, blocked: v1alpha1.ReasonStillRunning},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tt.s)
			if d.effect != tt.effect || d.blockedBy() != tt.blocked || d.progress() != tt.state || d.status.Action == "" || d.status.EndTime != nil || d.wait != tt.wait {
				t.Errorf("%s: effect %d, blocked by %q, %s, action %q, looks again after %s", d.rule, d.effect, d.blockedBy(), d.progress(), d.status.Action, d.wait)
			}
			changeNothing(t, tt.s)
		})
	}
	d := decide(replacing(10 * time.Minute))
	if says := message(&v1alpha1.Remediation{Status: d.status}, v1alpha1.RemediationProgressing); !strings.Contains(says, "the remote runner executes n1-0123") || !strings.Contains(says, "Machine fleet/m of MachineSet fleet/workers: it is being deleted") {
		t.Errorf("it says %q", says)
	}
}

// How the replacement has ended is what the remediation ends as.
func TestARemediationEndsAsItsMachineWasReplaced(t *testing.T) {
	ends := func(reason string) func(*situation) {
		return func(s *situation) { acts(s, finished(reason, time.Second)) }
	}
	for name, tt := range map[string]struct {
		s     situation
		state string
		ended bool
	}{
		"replaced":                      {replacing(time.Hour, ends(v1alpha1.ReasonReplaced), nodeGone), v1alpha1.ReasonReplaced, true},
		"no new node":                   {replacing(time.Hour, ends(v1alpha1.ReasonNotReplaced), nodeGone), v1alpha1.ReasonNotReplaced, true},
		"refused, and somebody else":    {replacing(time.Hour, ends(v1alpha1.ReasonRefused), nodeGone), v1alpha1.ReasonNodeGone, true},
		"the Node stays":                {replacing(time.Hour, ends(v1alpha1.ReasonTimedOut)), v1alpha1.ReasonVerifying, false},
		"nobody would replace it":       {replacing(time.Hour, ends(v1alpha1.ReasonRefused)), v1alpha1.ReasonWaiting, false},
		"a deletion, when it was done":  {replacing(time.Hour, ends(v1alpha1.ReasonReplaced), nodeGone, byAPerson), v1alpha1.ReasonReplaced, true},
		"a node of an earlier approval": {replacing(time.Hour, nodeGone, func(s *situation) { s.attempt, s.remediation.Status.Action = nil, "" }), v1alpha1.ReasonNodeGone, true},
	} {
		d := decide(tt.s)
		if d.progress() != tt.state || (d.status.EndTime != nil) != tt.ended {
			t.Errorf("%s: got %s, ended %v, by %s", name, d.progress(), d.status.EndTime, d.rule)
		}
	}
	in := &v1alpha1.Remediation{Status: decide(replacing(time.Hour, ends(v1alpha1.ReasonNotReplaced), nodeGone)).status}
	before := replacing(time.Hour).remediation
	var warned bool
	for _, n := range notes(before, in) {
		warned = warned || n.reason == eventEnded && n.kind == "Warning"
	}
	if !warned || in.Status.Conditions == nil || in.Status.EndTime.IsZero() || in.Status.EndTime.After(metav1.NewTime(now).Time) {
		t.Errorf("nobody is warned: %+v", notes(before, in))
	}
}
