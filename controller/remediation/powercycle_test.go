package remediation

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// dead is a node that does not answer, of a policy that restarts a unit, reboots, and switches
// the power.
func dead(options ...func(*situation)) situation {
	return incident(append([]func(*situation){func(s *situation) {
		s.node.Status.Conditions[0] = corev1.NodeCondition{Type: "Ready", Status: corev1.ConditionUnknown, LastTransitionTime: ago(time.Hour)}
		s.leaseRenewed = ago(time.Hour).Time
		s.remediation.Spec.Match = []v1alpha1.ConditionMatch{{Type: "Ready", Status: corev1.ConditionUnknown}}
		s.remediation.Spec.Steps = []v1alpha1.Step{
			{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "kubelet.service"}, Timeout: seconds(10), VerifyTimeout: seconds(60), Attempts: 1},
			{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSysRq}, Timeout: seconds(10), VerifyTimeout: seconds(60), Attempts: 1},
			{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootPowerCycle}, Timeout: seconds(900), VerifyTimeout: seconds(60), Attempts: 1},
			{Maintenance: &v1alpha1.MaintenanceRemedy{Reason: "dead"}, Attempts: 1},
		}
		s.policy.Spec.Match, s.policy.Spec.Steps = s.remediation.Spec.Match, s.remediation.Spec.Steps
	}}, options...)...)
}

func TestPowerIsSwitchedWhenTheRunnerOfADeadNodeDoesNotAnswer(t *testing.T) {
	d := decide(dead(at(1, 1), history(v1alpha1.ReasonExpired, 10*time.Minute), history(v1alpha1.ReasonExpired, 5*time.Minute)))
	if d.status.Step != 3 || d.effect != takeOut {
		t.Errorf("got step %d, %d: %s", d.status.Step, d.effect, d.rule)
	}
	// A reboot from which it has not come back, too.
	d = decide(dead(at(2, 1), history(v1alpha1.ReasonNotBack, 5*time.Minute)))
	if d.status.Step != 3 || d.effect != takeOut {
		t.Errorf("got step %d, %d: %s", d.status.Step, d.effect, d.rule)
	}
	// What the remote runner has done in vain is followed by what needs no power.
	d = decide(dead(at(3, 1), history(v1alpha1.ReasonNotBack, 5*time.Minute)))
	if d.status.Step != 4 {
		t.Errorf("got step %d: %s", d.status.Step, d.rule)
	}
}

func TestPowerIsSwitchedOnlyForWhatIsMatched(t *testing.T) {
	sick := func(s *situation) { // another fault, and a node that has fallen silent while it was out
		s.remediation.Spec.Match = []v1alpha1.ConditionMatch{{Type: "Sick", Status: "True"}}
		s.policy.Spec.Match = s.remediation.Spec.Match
		s.remediation.Status.Maintenance = "m"
		s.maintenance = &v1alpha1.NodeMaintenance{}
	}
	d := decide(dead(at(3, 1), sick))
	if d.status.Step != 4 {
		t.Errorf("got step %d: %s", d.status.Step, d.rule)
	}
}

func TestWhatTheRemoteRunnerDoesNotReportIsWaitedFor(t *testing.T) {
	remote := func(s *situation) {
		acts(s, func(a *v1alpha1.NodeAction) {
			a.Spec.Executor, a.Spec.Timeout = v1alpha1.ExecutorRemote, seconds(10)
			a.Status.Claim = &v1alpha1.Claim{Time: ago(10 * time.Minute), BootID: "boot-1"}
		})
	}
	d := decide(dead(at(3, 1), underway(11*time.Minute), remote))
	if d.blockedBy() != reasonNoReport || d.status.Action == "" {
		t.Errorf("got %s, blocked by %q, action %q", d.rule, d.blockedBy(), d.status.Action)
	}
	booted := func(s *situation) { s.node.Status.NodeInfo.BootID = "boot-2" }
	d = decide(dead(at(3, 1), underway(11*time.Minute), remote, booted))
	if last := lastRecord(&d.status); last == nil || last.Outcome != v1alpha1.ReasonSucceeded {
		t.Errorf("got %s, %+v", d.rule, last)
	}
	s := dead(at(3, 1), underway(11*time.Minute), remote)
	d = decide(s)
	if !strings.HasPrefix(d.who(s), "the remote runner") || !strings.Contains(blockedMessage(d), "the remote runner began") {
		t.Errorf("got %s, %q", d.who(s), blockedMessage(d))
	}
}

func blockedMessage(d decision) string {
	return meta.FindStatusCondition(d.status.Conditions, v1alpha1.RemediationBlocked).Message
}

// A BMC that is plugged in again days after somebody has approved cuts nothing.
func TestAnApprovalOfAPowerCycleIsUsedUp(t *testing.T) {
	tried := func(times int, more ...func(*situation)) situation {
		options := []func(*situation){at(3, 1)}
		for range times {
			options = append(options, history(v1alpha1.ReasonStartFailed, 24*time.Hour))
		}
		approved := func(s *situation) {
			s.remediation.Spec.Steps[2].RequireApproval = true
			s.policy.Spec.Steps = s.remediation.Spec.Steps
			s.remediation.Annotations = map[string]string{v1alpha1.ApprovedStepAnnotation: "3"}
		}
		return dead(append(append(options, approved), more...)...)
	}
	if d := decide(tried(v1alpha1.TriesOfAnApproval - 1)); d.effect != takeOut {
		t.Errorf("got %s, blocked by %q", d.rule, d.blockedBy())
	}
	s := tried(v1alpha1.TriesOfAnApproval)
	d := decide(s)
	if d.blockedBy() != v1alpha1.ReasonStartFailed || !strings.Contains(blockedMessage(d), "the approval counts no more") {
		t.Errorf("got %s, blocked by %q", d.rule, d.blockedBy())
	}
	s.remediation.Status = d.status
	if !WaitsForRetry(s.remediation) {
		t.Error("it does not wait for a person")
	}
	d = decide(tried(v1alpha1.TriesOfAnApproval, func(s *situation) { s.remediation.Annotations[v1alpha1.RetryAnnotation] = "1" }))
	if d.status.Retried != "1" || !d.status.History[0].Former {
		t.Errorf("it does not start over: %s, %+v", d.rule, d.status)
	}
}

// Power that was off is for who has switched it off: it may be about to boot.
func TestAPowerCycleThatCouldNotBeWaitsForAPerson(t *testing.T) {
	for _, outcome := range []string{v1alpha1.ReasonPowerStillOn, v1alpha1.ReasonPowerWasOff} {
		d := decide(dead(at(3, 1), history(outcome, 30*time.Minute)))
		if d.blockedBy() != outcome || !d.waitsForAPerson() {
			t.Errorf("got %s, blocked by %q", d.rule, d.blockedBy())
		}
	}
}
