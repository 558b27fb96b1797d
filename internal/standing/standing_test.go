package standing

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// good are facts that no rule objects to.
func good(t *testing.T) Facts {
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
	return Facts{
		Action: &v1alpha1.NodeAction{
			ObjectMeta: metav1.ObjectMeta{Name: "action", UID: "action-1"},
			Spec: v1alpha1.NodeActionSpec{
				Remediation: "incident", RemediationUID: "remediation-1", Step: 2,
				NodeName: "worker-1", NodeUID: "node-1",
				Policy:   v1alpha1.PolicyReference{Name: "runtime", UID: "policy-1"},
				StepHash: hashOf(t, &policy.Spec.Steps[1]),
			},
		},
		Node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "worker-1", UID: "node-1", Labels: map[string]string{"pool": "workers"}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: "Ready", Status: corev1.ConditionTrue},
				{Type: "RuntimeUnhealthy", Status: corev1.ConditionTrue},
			}},
		},
		Remediation: &v1alpha1.Remediation{
			ObjectMeta: metav1.ObjectMeta{Name: "incident", UID: "remediation-1"},
			Spec:       v1alpha1.RemediationSpec{Steps: policy.Spec.Steps},
			Status:     v1alpha1.RemediationStatus{Action: "action"},
		},
		Policy: policy,
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

// clusterPause pauses the nodes with these labels, or all.
func clusterPause(labels map[string]string) *v1alpha1.RemediationBudget {
	b := &v1alpha1.RemediationBudget{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterPauseBudget},
		Spec:       v1alpha1.RemediationBudgetSpec{Paused: true, PauseReason: "rack move"},
	}
	if labels != nil {
		b.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: labels}
	}
	return b
}

func TestRefuses(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(*Facts)
		reason  string // none: it may begin
		message string // a part of it
	}{
		{"a good action may begin", func(*Facts) {}, "", ""},
		{"a deleted remediation's action is not executed", func(f *Facts) { f.Remediation = nil }, v1alpha1.ReasonSuperseded, "Remediation incident, which it is part of, has been deleted"},
		{"nor is one of a remediation that was created anew", func(f *Facts) { f.Remediation.UID = "remediation-2" }, v1alpha1.ReasonSuperseded, "has been deleted"},
		{"nor one of a remediation that is being deleted", func(f *Facts) { f.Remediation.DeletionTimestamp = &metav1.Time{Time: now} }, v1alpha1.ReasonSuperseded, "is being deleted"},
		{"an action that its remediation does not wait for is not executed", func(f *Facts) { f.Remediation.Status.Action = "action-2" }, v1alpha1.ReasonSuperseded, `does not wait for it: its status.action is "action-2"`},
		{"a step that requires approval is refused without it", func(f *Facts) { f.Remediation.Spec.Steps[1].RequireApproval = true }, v1alpha1.ReasonRefused, "step 2 of Remediation incident requires approval"},
		{"and executed with it", func(f *Facts) {
			f.Policy.Spec.Steps[1].RequireApproval = true // and so of the remediation
			f.Action.Spec.StepHash = hashOf(t, &f.Policy.Spec.Steps[1])
			f.Remediation.Annotations = map[string]string{v1alpha1.ApprovedStepAnnotation: "2"}
		}, "", ""},
		{"any one of the matched conditions is enough", func(f *Facts) { f.Node.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "Unknown"}} }, "", ""},
		{"on a node that was excluded it is refused", func(f *Facts) { f.Node.Labels[v1alpha1.ExcludeLabel] = "true" }, v1alpha1.ReasonRefused, "nodemend.dev/exclude=true"},
		{"a label that excludes nothing is no reason", func(f *Facts) { f.Node.Labels[v1alpha1.ExcludeLabel] = "false" }, "", ""},
		{"in a pause of the cluster it is refused", func(f *Facts) { f.Pause = clusterPause(nil) }, v1alpha1.ReasonRefused, "the cluster is paused by RemediationBudget nodemend-pause (rack move)"},
		{"a pause of other nodes is no reason", func(f *Facts) { f.Pause = clusterPause(map[string]string{"pool": "storage"}) }, "", ""},
		{"nor is one that is over", func(f *Facts) {
			f.Pause = clusterPause(nil)
			f.Pause.Spec.Paused = false
		}, "", ""},
		{"an action that is being deleted is cancelled", func(f *Facts) { f.Action.DeletionTimestamp = &metav1.Time{Time: now} }, v1alpha1.ReasonCancelled, ""},
		{"without a node it is refused", func(f *Facts) { f.Node = nil }, v1alpha1.ReasonRefused, "no Node worker-1"},
		{"for an earlier node of the same name it is refused", func(f *Facts) { f.Node.UID = "node-2" }, v1alpha1.ReasonRefused, "with UID node-1, this one has UID node-2"},
		{"without its policy it is superseded", func(f *Facts) { f.Policy = nil }, v1alpha1.ReasonSuperseded, "runtime has been deleted"},
		{"with a policy of the same name it is superseded", func(f *Facts) { f.Policy.UID = "policy-2" }, v1alpha1.ReasonSuperseded, "created again"},
		{"with a policy that is being deleted it is superseded", func(f *Facts) { f.Policy.DeletionTimestamp = &metav1.Time{Time: now} }, v1alpha1.ReasonSuperseded, "being deleted"},
		{"of a policy in dry run it is refused", func(f *Facts) { f.Policy.Spec.Mode = v1alpha1.ModeDryRun }, v1alpha1.ReasonRefused, "RemedyPolicy runtime is in mode DryRun"},
		{"of a policy that is paused it is refused", func(f *Facts) { f.Policy.Spec.Paused = true }, v1alpha1.ReasonRefused, "RemedyPolicy runtime is paused"},
		{"of a policy that is enforced it is executed", func(f *Facts) { f.Policy.Spec.Mode = v1alpha1.ModeEnforce }, "", ""},
		{"without its step it is superseded", func(f *Facts) { f.Policy.Spec.Steps[1].Timeout.Duration = time.Hour }, v1alpha1.ReasonSuperseded, "has no step with hash"},
		{"under the number of another step it is refused", func(f *Facts) { f.Action.Spec.Step = 1 }, v1alpha1.ReasonRefused, "which step 1 of Remediation incident is not"},
		{"the approval of another step is none", func(f *Facts) {
			f.Policy.Spec.Steps[1].RequireApproval = true
			f.Action.Spec.StepHash = hashOf(t, &f.Policy.Spec.Steps[1])
			f.Action.Spec.Step = 1
		}, v1alpha1.ReasonRefused, "which step 1 of Remediation incident is not"},
		{"under a number that no step has it is refused", func(f *Facts) { f.Action.Spec.Step = 3 }, v1alpha1.ReasonRefused, "which step 3 of Remediation incident is not"},
		{"on a node that the policy does not select it is refused", func(f *Facts) { f.Node.Labels = nil }, v1alpha1.ReasonRefused, "does not select Node worker-1"},
		{"with an unreadable nodeSelector it is refused", func(f *Facts) {
			f.Policy.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
		}, v1alpha1.ReasonRefused, "nodeSelector of RemedyPolicy runtime is invalid"},
		{"when no matched condition is left it is not needed", func(f *Facts) {
			f.Node.Status.Conditions = []corev1.NodeCondition{{Type: "RuntimeUnhealthy", Status: "False"}}
		}, v1alpha1.ReasonNotNeeded, "RuntimeUnhealthy is False, not True; Ready is absent, not Unknown"},
		{"when the condition has another reason it is not needed", func(f *Facts) {
			f.Policy.Spec.Match[0].Reasons = []string{"Timeout", "Hung"}
			f.Node.Status.Conditions = []corev1.NodeCondition{{Type: "RuntimeUnhealthy", Status: "True"}}
			f.Node.Status.Conditions[0].Reason = "Crash"
		}, v1alpha1.ReasonNotNeeded, "RuntimeUnhealthy is True for Crash, not for Timeout or Hung; Ready is absent"},
		{"when the condition has one of the reasons it is executed", func(f *Facts) {
			f.Policy.Spec.Match[0].Reasons = []string{"Timeout", "Hung"}
			f.Node.Status.Conditions = []corev1.NodeCondition{{Type: "RuntimeUnhealthy", Status: "True"}}
			f.Node.Status.Conditions[0].Reason = "Crash, Hung"
		}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := good(t)
			test.change(&f)
			got := Refuses(f)
			if got == nil {
				got = &Refusal{}
			}
			if got.Reason != test.reason || !strings.Contains(got.Message, test.message) {
				t.Errorf("got %s %q, want %s with %q in the message", got.Reason, got.Message, test.reason, test.message)
			}
		})
	}
}
