package remediation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// external is a node that another program works on since a day ago: longer than its time.
func external(options ...func(*situation)) situation {
	return incident(append([]func(*situation){
		func(s *situation) {
			s.remediation.Spec.Steps = []v1alpha1.Step{
				{
					External: &v1alpha1.ExternalRemedy{TemplateRef: v1alpha1.TemplateReference{Kind: "SelfNodeRemediationTemplate", Name: "automatic"}},
					Timeout:  seconds(600), VerifyTimeout: seconds(60), Attempts: 1,
				},
				{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "in vain"}, Attempts: 1},
			}
			s.policy.Spec.Steps = s.remediation.Spec.Steps
		},
		at(1, 1),
		underway(24*time.Hour, func(a *v1alpha1.NodeAction) {
			a.Spec.Executor, a.Spec.Timeout = v1alpha1.ExecutorExternal, seconds(600)
			a.Status.Claim = &v1alpha1.Claim{Time: ago(24 * time.Hour), BootID: "boot-1"}
			a.Status.External = &v1alpha1.ExternalStatus{
				Object: v1alpha1.ExternalObject{Kind: "SelfNodeRemediation", Namespace: "medik8s", Name: "n1", UID: "object-uid"}, Said: "Processing=True",
			}
		}),
	}, options...)...)
}

// stopped: its object is to go, and a finalizer keeps it.
func stopped(s *situation) {
	acts(s, func(a *v1alpha1.NodeAction) {
		a.Status.External.Stop = &v1alpha1.ExternalStop{Reason: v1alpha1.ReasonSucceeded, Time: ago(time.Hour), Clear: true}
	})
}

// wellAgain: the node is since an hour ago.
func wellAgain(s *situation) { wellSince(time.Hour)(s) }

func wellSince(long time.Duration) func(*situation) {
	return func(s *situation) { well(s, long) }
}

func well(s *situation, long time.Duration) {
	condition(corev1.ConditionFalse, time.Second, long)(s)
	s.node.Status.Conditions = append(s.node.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: ago(time.Second), LastTransitionTime: ago(time.Hour),
	})
}

// succeeded: the other program says so.
func succeeded(s *situation) {
	acts(s, func(a *v1alpha1.NodeAction) { a.Status.External.Succeeded = true })
}

func bootedAs(id string) func(*situation) {
	return func(s *situation) { s.node.Status.NodeInfo.BootID = id }
}

// begunNow: another program has just begun, and has its time before it.
func begunNow(s *situation) {
	acts(s, func(a *v1alpha1.NodeAction) {
		a.Status.Claim.Time = ago(time.Minute)
		a.Status.External.Stop = &v1alpha1.ExternalStop{Reason: v1alpha1.ReasonFailed, Time: ago(time.Second)}
	})
}

func pausedPolicy(s *situation) { s.policy.Spec.Paused = true }

// However long it takes, its permit is kept and nothing else is begun; and a node that is clear is
// taken back from it, even if everything is paused (I9).
func TestAnotherProgramHasTheNodeUntilItsObjectIsGone(t *testing.T) {
	for name, tt := range map[string]struct {
		s       situation
		effect  effect
		isClear bool
		// blocked by this; says is a part of what the Progressing condition says.
		blocked, says string
		// wait is after how long it looks again; 0: only an event tells more.
		wait time.Duration
	}{
		"it is at work":                          {s: external(), effect: nothing, says: "another program executes n1-0123"},
		"what it says is shown":                  {s: external(), effect: nothing, says: "SelfNodeRemediation medik8s/n1: Processing=True"},
		"the policy is paused meanwhile":         {s: external(pausedPolicy), effect: nothing},
		"the node is clear":                      {s: external(wellAgain), effect: recall, isClear: true},
		"the node is clear for a moment":         {s: external(wellSince(time.Minute)), effect: nothing, wait: 40 * time.Second},
		"and in the boot in which it was":        {s: external(wellSince(time.Minute), bootedAs("boot-1")), effect: nothing, wait: 40 * time.Second},
		"it says that it has succeeded":          {s: external(wellSince(time.Minute), succeeded), effect: recall, isClear: true},
		"the node has booted":                    {s: external(wellSince(time.Minute), bootedAs("boot-2")), effect: recall, isClear: true},
		"the node is clear, and all is paused":   {s: external(wellAgain, pausedPolicy, excluded), effect: recall, isClear: true},
		"the node is clear, and it was told":     {s: external(wellAgain, stopped), effect: nothing, blocked: v1alpha1.ReasonStillRunning},
		"a person wants to start over":           {s: external(retry("1")), effect: recall},
		"the remediation is deleted":             {s: external(byAPerson), effect: recall, blocked: v1alpha1.ReasonStillRunning},
		"the node is gone":                       {s: external(nodeGone), effect: recall, blocked: v1alpha1.ReasonStillRunning},
		"the node is gone, and it was told":      {s: external(nodeGone, begunNow), effect: nothing, blocked: v1alpha1.ReasonStillRunning, wait: 14 * time.Minute},
		"and for long":                           {s: external(nodeGone, stopped), effect: release, blocked: v1alpha1.ReasonStillRunning},
		"a finalizer keeps its object for a day": {s: external(stopped), effect: nothing, blocked: v1alpha1.ReasonStillRunning},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(tt.s)
			if d.effect != tt.effect || d.recalled.Clear != tt.isClear || d.blockedBy() != tt.blocked || d.status.Action == "" || d.status.EndTime != nil {
				t.Errorf("%s: effect %d, %+v, blocked by %q, action %q", d.rule, d.effect, d.recalled, d.blockedBy(), d.status.Action)
			}
			if d.wait != tt.wait {
				t.Errorf("it looks again after %s", d.wait)
			}
			if c := meta.FindStatusCondition(d.status.Conditions, v1alpha1.RemediationProgressing); c != nil && !strings.Contains(c.Message, tt.says) {
				t.Errorf("it says %q", c.Message)
			}
			changeNothing(t, tt.s)
		})
	}
}

// What it says is no proof: evidence decides.
func TestWhatAnotherProgramSaysIsNoProof(t *testing.T) {
	ended := func(reason string) func(*situation) {
		return func(s *situation) { acts(s, finished(reason, time.Second)) }
	}
	for _, reason := range []string{v1alpha1.ReasonSucceeded, v1alpha1.ReasonFailed, v1alpha1.ReasonTimedOut} {
		d := decide(external(ended(reason)))
		if d.progress() != v1alpha1.ReasonVerifying || d.status.Step != 1 || d.status.Action != "" {
			t.Errorf("%s: got %s, step %d, %s", reason, d.progress(), d.status.Step, d.rule)
		}
	}
	d := decide(external(ended(v1alpha1.ReasonInterrupted)))
	if until := d.status.Action; until != "" || d.progress() == v1alpha1.ReasonVerifying {
		t.Errorf("got %s, %s", d.progress(), d.rule)
	}
}
