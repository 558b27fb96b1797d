package runner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner/remedy"
)

func TestAnOrderHasAllThatARemedyMayKnow(t *testing.T) {
	in := goodInput(t)
	in.action.Spec.Remediation, in.action.Spec.Step, in.action.Spec.Attempt = "worker-1-abc", 1, 3
	in.remediation.Spec.Steps = in.policy.Spec.Steps[1:] // the policy has got another first step since
	in.policy.Spec.Output = &v1alpha1.OutputPolicy{Keep: v1alpha1.OutputNone}
	in.node.Status.Conditions = []corev1.NodeCondition{
		{Type: "RuntimeUnhealthy", Status: corev1.ConditionFalse, Reason: "Fine"},
		{Type: "Ready", Status: corev1.ConditionUnknown, Reason: "Node\x00Status\xffUnknown\nPATH=/tmp"},
	}
	got := newOrder(in, decide(in), testNow)
	want := remedy.Order{
		Action: "action", UID: "action-1", BootID: "boot-1", StartedAt: testNow,
		Step: in.policy.Spec.Steps[1], Output: in.policy.Spec.Output,
		Env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"HOME=/root",
			"LANG=C.UTF-8",
			"NODEMEND_NODE=worker-1",
			"NODEMEND_POLICY=runtime",
			"NODEMEND_REMEDIATION=worker-1-abc",
			"NODEMEND_ACTION=action",
			"NODEMEND_STEP=2",
			"NODEMEND_ATTEMPT=3",
			"NODEMEND_CONDITION=Ready",
			"NODEMEND_CONDITION_STATUS=Unknown",
			"NODEMEND_CONDITION_REASON=Node\uFFFDStatus\uFFFDUnknown?PATH=/tmp",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsDoneIsSaidInAFewWords(t *testing.T) {
	for _, test := range []struct {
		step v1alpha1.Step
		want string
	}{
		{v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/echo", "a b"}}}, `run ["/bin/echo" "a b"] (Direct)`},
		{v1alpha1.Step{Command: &v1alpha1.CommandRemedy{Script: "exit"}}, "run a script of 4 bytes, SHA-256 "},
		{v1alpha1.Step{RestartUnit: &v1alpha1.RestartUnitRemedy{Name: "containerd.service"}}, "restart containerd.service (Direct)"},
		{v1alpha1.Step{Reboot: &v1alpha1.RebootRemedy{}}, "reboot the node (Direct)"},
	} {
		order := remedy.Order{Step: test.step, Prepared: remedy.Prepared{Execution: v1alpha1.ExecutionDirect}}
		if got := describe(order); !strings.HasPrefix(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
