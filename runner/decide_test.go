package runner

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

var testNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// goodInput is one for which every check lets the action pass.
func goodInput(t *testing.T) input {
	t.Helper()
	policy := &v1alpha1.RemedyPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "runtime", UID: "policy-1"},
		Spec: v1alpha1.RemedyPolicySpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "workers"}},
			Match: []v1alpha1.ConditionMatch{
				{Type: "RuntimeUnhealthy", Status: corev1.ConditionTrue},
				{Type: "Ready", Status: corev1.ConditionUnknown},
			},
			Steps: []v1alpha1.Step{
				{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/true"}}},
				{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/false"}}},
			},
		},
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "node-1", Labels: map[string]string{"pool": "workers"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: "Ready", Status: corev1.ConditionTrue},
			{Type: "RuntimeUnhealthy", Status: corev1.ConditionTrue},
		}},
	}
	remediation := &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: "incident", UID: "remediation-1"},
		Spec:       v1alpha1.RemediationSpec{Steps: policy.Spec.Steps},
		Status:     v1alpha1.RemediationStatus{Action: "action"},
	}
	action := &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{Name: "action", UID: "action-1"},
		Spec: v1alpha1.NodeActionSpec{
			Remediation: "incident", RemediationUID: "remediation-1", Step: 2,
			NodeName:  "worker-1",
			NodeUID:   "node-1",
			Policy:    v1alpha1.PolicyReference{Name: "runtime", UID: "policy-1"},
			StepHash:  hashOf(t, &policy.Spec.Steps[1]),
			ExpiresAt: metav1.NewTime(testNow.Add(time.Minute)),
		},
	}
	return input{
		action: action, remediation: remediation, policy: policy, node: node,
		remedies: []string{v1alpha1.RemedyCommand, v1alpha1.RemedyReboot, v1alpha1.RemedyRestartUnit},
		nodeName: "worker-1", runnerID: "me", bootID: "boot-1", booted: testNow.Add(-time.Hour), now: testNow,
	}
}

func hashOf(t *testing.T, step *v1alpha1.Step) string {
	t.Helper()
	hash, err := step.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// clusterPause pauses all nodes.
func clusterPause() *v1alpha1.RemediationBudget {
	return &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget},
		Spec:       v1alpha1.RemediationBudgetSpec{Paused: true, PauseReason: "rack move"},
	}
}

func claimBy(runnerID, bootID string) *v1alpha1.Claim {
	return &v1alpha1.Claim{RunnerID: runnerID, BootID: bootID, Time: metav1.NewTime(testNow.Add(-time.Hour))}
}

// asks has NodeHealthCheck workers ask for the remediation.
func asks(in *input) {
	in.asked = &v1alpha1.NodemendRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: "nhc", Name: "worker-1", UID: "request-1",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "remediation.medik8s.io/v1alpha1", Kind: "NodeHealthCheck", Name: "workers"}},
	}}
	request := v1alpha1.NewRequest(in.asked)
	in.remediation.Spec.Request = &request
	in.policy.Spec.Match = nil
}

func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name        string
		change      func(*input)
		wantVerb    verb
		wantReason  string
		wantMessage string // a part of it
	}{
		{
			name:     "a good action is claimed",
			change:   func(*input) {},
			wantVerb: execute,
		},
		{
			name:     "the end of its time still counts as in time",
			change:   func(in *input) { in.now = in.action.Spec.ExpiresAt.Time },
			wantVerb: execute,
		},
		{
			name:     "a claim that may have been sent before is sent again",
			change:   func(in *input) { in.claiming = true },
			wantVerb: execute,
		},
		{
			name: "a claim whose answer was lost is executed",
			change: func(in *input) {
				in.action.Status.Claim = claimBy("me", "boot-1")
				in.claiming = true
			},
			wantVerb: execute,
		},
		{
			name: "a finished action is left alone, whoever claimed it",
			change: func(in *input) {
				in.action.Status.Claim = claimBy("other", "boot-0")
				in.action.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue}}
			},
			wantVerb: leave,
		},
		{
			name:     "an action of another node is left to that node's runner",
			change:   func(in *input) { in.action.Spec.NodeName = "worker-2" },
			wantVerb: leave,
		},
		{
			name:       "a claim of an earlier process of this boot is interrupted",
			change:     func(in *input) { in.action.Status.Claim = claimBy("other", "boot-1") },
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonInterrupted, wantMessage: "its ledger is lost: the remedy may or may not have been executed, and may still be running",
		},
		{
			name: "a claim of a process whose ledger has nothing of it was not started",
			change: func(in *input) {
				in.action.Status.Claim = claimBy("other", "boot-1")
				in.knowsClaim = true
			},
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonNotStarted, wantMessage: "nothing was executed",
		},
		{
			name: "the ledger of this boot knows nothing of another boot",
			change: func(in *input) {
				in.action.Status.Claim = claimBy("other", "boot-0")
				in.knowsClaim = true
			},
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonInterrupted,
		},
		{
			name: "a reboot claimed in an earlier boot has succeeded",
			change: func(in *input) {
				in.action.Status.Claim = claimBy("other", "boot-0")
				in.action.Status.Claim.Remedy = v1alpha1.RemedyReboot
				in.policy, in.node = nil, nil
			},
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonSucceeded, wantMessage: "boot-1",
		},
		{
			name: "a reboot claimed in this boot has not happened",
			change: func(in *input) {
				in.action.Status.Claim = claimBy("other", "boot-1")
				in.action.Status.Claim.Remedy = v1alpha1.RemedyReboot
			},
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonInterrupted,
		},
		{
			name:       "a name that was executed before is refused",
			change:     func(in *input) { in.earlier = &remedy.Order{UID: "action-0", StartedAt: testNow.Add(-time.Hour)} },
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonRefused, wantMessage: "with UID action-0, was executed on this node at 2026-03-01T11:00:00Z",
		},
		{
			name:       "in a pause of the cluster it is refused",
			change:     func(in *input) { in.pause = clusterPause() },
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonRefused, wantMessage: "the cluster is paused by RemediationBudget nodemend-pause (rack move)",
		},
		{
			name: "in a pause it is refused although this process has claimed it",
			change: func(in *input) {
				in.action.Status.Claim = claimBy("me", "boot-1")
				in.claiming = true
				in.pause = clusterPause()
			},
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonRefused,
		},
		{
			name:       "a claim of an earlier boot is interrupted",
			change:     func(in *input) { in.action.Status.Claim = claimBy("other", "boot-0") },
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonInterrupted, wantMessage: "has rebooted since (boot ID boot-0, now boot-1)",
		},
		{
			name: "a claim by somebody else comes before all that says nothing was executed",
			change: func(in *input) {
				in.action.Status.Claim = claimBy("other", "boot-1")
				in.now = testNow.Add(time.Hour)
				in.policy, in.node = nil, nil
			},
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonInterrupted,
		},
		{
			name:       "a claim of its own that it does not remember is interrupted",
			change:     func(in *input) { in.action.Status.Claim = claimBy("me", "boot-1") },
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonInterrupted,
		},
		{
			name:       "an action that is being deleted is cancelled",
			change:     func(in *input) { in.action.DeletionTimestamp = &metav1.Time{Time: testNow} },
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonCancelled,
		},
		{
			name:       "after its time it is expired",
			change:     func(in *input) { in.now = testNow.Add(time.Minute + time.Second) },
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonExpired, wantMessage: "2026-03-01T12:01:01Z, after its expiresAt 2026-03-01T12:01:00Z",
		},
		{
			name: "a remedy of a later version is unsupported",
			change: func(in *input) {
				in.policy.Spec.Steps[1].Command = nil
				in.action.Spec.StepHash = hashOf(t, &in.policy.Spec.Steps[1])
			},
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonUnsupported, wantMessage: "it knows: command, reboot, restartUnit",
		},
		{
			name:     "the node is another machine",
			change:   func(in *input) { in.node.Status.NodeInfo.MachineID, in.machineID = "4567", "0123" },
			wantVerb: finish, wantReason: v1alpha1.ReasonRefused,
			wantMessage: "the kubelet of Node worker-1 runs on another machine: it reports the machine ID 4567, and here /etc/machine-id says 0123",
		},
		{
			name:     "the node is this machine",
			change:   func(in *input) { in.node.Status.NodeInfo.MachineID, in.machineID = "0123", "0123" },
			wantVerb: execute,
		},
		{
			name:     "the machine does not know which it is",
			change:   func(in *input) { in.node.Status.NodeInfo.MachineID = "4567" },
			wantVerb: execute,
		},
		{
			name:     "the kubelet does not say which machine it is",
			change:   func(in *input) { in.machineID = "0123" },
			wantVerb: execute,
		},
		{
			name: "nobody has seen the fault since the node booted",
			change: func(in *input) {
				in.node.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(testNow.Add(-time.Hour - time.Minute))
			},
			wantVerb: finish, wantReason: v1alpha1.ReasonNotNeeded, wantMessage: "the node booted at 2026-03-01T11:00:00Z, and no check has reported RuntimeUnhealthy since",
		},
		{
			name: "nobody has since another action ended",
			change: func(in *input) {
				in.ended = testNow.Add(-time.Minute)
				in.node.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(testNow.Add(-time.Minute - time.Second))
			},
			wantVerb: finish, wantReason: v1alpha1.ReasonNotNeeded, wantMessage: "another action ended here at 2026-03-01T11:59:00Z, and no check has reported RuntimeUnhealthy since",
		},
		{
			name: "somebody has, in the second of the boot",
			change: func(in *input) {
				in.booted = in.booted.Add(900 * time.Millisecond)
				in.node.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(testNow.Add(-time.Hour))
			},
			wantVerb: execute,
		},
		{
			name: "the kubelet's conditions have the Lease to tell how fresh they are",
			change: func(in *input) {
				in.node.Status.Conditions[0].Status = corev1.ConditionUnknown
				in.node.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(testNow.Add(-2 * time.Hour))
				in.node.Status.Conditions[1].LastHeartbeatTime = metav1.NewTime(testNow.Add(-2 * time.Hour))
			},
			wantVerb: execute,
		},
		{
			name:     "what is asked for needs no condition",
			change:   func(in *input) { asks(in); in.node.Status.Conditions = nil },
			wantVerb: execute,
		},
		{
			name:     "when it is asked for no more it is not needed",
			change:   func(in *input) { asks(in); in.asked = nil },
			wantVerb: finish, wantReason: v1alpha1.ReasonNotNeeded, wantMessage: "NodemendRemediation nhc/worker-1 has been deleted",
		},
		{
			name:     "nor when that is being deleted",
			change:   func(in *input) { asks(in); in.asked.DeletionTimestamp = &metav1.Time{Time: testNow} },
			wantVerb: finish, wantReason: v1alpha1.ReasonNotNeeded, wantMessage: "NodemendRemediation nhc/worker-1 is being deleted since",
		},
		{
			name:     "nor when it is another one of the name",
			change:   func(in *input) { asks(in); in.asked.UID = "another" },
			wantVerb: finish, wantReason: v1alpha1.ReasonNotNeeded, wantMessage: "has been deleted",
		},
		{
			name: "nor when its driver has told to stop",
			change: func(in *input) {
				asks(in)
				in.asked.Annotations = map[string]string{v1alpha1.TimedOutAnnotation: "2026-03-01T11:59:59Z"}
			},
			wantVerb: finish, wantReason: v1alpha1.ReasonNotNeeded, wantMessage: `NodeHealthCheck workers has told to stop at "2026-03-01T11:59:59Z"`,
		},
		{
			name:     "nor right after a boot, of which its driver may not know",
			change:   func(in *input) { asks(in); in.booted = testNow.Add(-59 * time.Second) },
			wantVerb: finish, wantReason: v1alpha1.ReasonNotNeeded, wantMessage: "NodeHealthCheck workers has until 2026-03-01T12:00:01Z to find it healthy",
		},
		{
			name:     "or right after another action",
			change:   func(in *input) { asks(in); in.ended = testNow.Add(-59 * time.Second) },
			wantVerb: finish, wantReason: v1alpha1.ReasonNotNeeded, wantMessage: "another action ended here at",
		},
		{
			name: "a claim of its own that was not started ends by the same checks",
			change: func(in *input) {
				in.action.Status.Claim = claimBy("me", "boot-1")
				in.claiming = true
				in.policy = nil
			},
			wantVerb:   finish,
			wantReason: v1alpha1.ReasonSuperseded,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := goodInput(t)
			test.change(&in)
			got := decide(in)
			if got.verb != test.wantVerb || got.outcome.Reason != test.wantReason || !strings.Contains(got.outcome.Message, test.wantMessage) {
				t.Errorf("got %s %s %q, want %s %s with %q in the message",
					got.verb, got.outcome.Reason, got.outcome.Message, test.wantVerb, test.wantReason, test.wantMessage)
			}
		})
	}
}

func TestDecideTakesTheStepFromThePolicyByItsHash(t *testing.T) {
	in := goodInput(t)
	if got := decide(in).step; got == nil || got.Command.Argv[0] != "/bin/false" {
		t.Errorf("got step %+v, want the one with the hash, which runs /bin/false", got)
	}
}

func TestARebootThatHasHappenedIsSaidToBeAsItsStepSays(t *testing.T) {
	in := goodInput(t)
	in.policy.Spec.Steps[1] = v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{Method: v1alpha1.RebootSystemd}}
	in.action.Spec.StepHash = hashOf(t, &in.policy.Spec.Steps[1])
	in.action.Status.Claim = claimBy("other", "boot-0")
	in.action.Status.Claim.Remedy = v1alpha1.RemedyReboot
	if got := decide(in).outcome.Result.Execution; got != v1alpha1.ExecutionSystemd {
		t.Errorf("got %q, want %s", got, v1alpha1.ExecutionSystemd)
	}
	in.policy.Spec.Steps[1].Reboot.Method = v1alpha1.RebootSysRq // edited since
	if got := decide(in).outcome.Result.Execution; got != "" {
		t.Errorf("got %q of another step", got)
	}
}
