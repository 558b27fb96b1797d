package attempt

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// finishedAction is an action as an API server has it, with all that there can be.
func finishedAction(output string) *v1alpha1.NodeAction {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	return &v1alpha1.NodeAction{
		ObjectMeta: metav1.ObjectMeta{
			Name: "n1-0123-abc-1", UID: "uid", ResourceVersion: "7", CreationTimestamp: at, Labels: map[string]string{"a": "b"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "nodemend"}},
		},
		Spec: v1alpha1.NodeActionSpec{
			NodeName: "n1", NodeUID: "node", Remediation: "n1-0123", RemediationUID: "remediation", Policy: v1alpha1.PolicyReference{Name: "p", UID: "policy"},
			StepHash: "hash", Step: 2, Attempt: 1, Timeout: v1alpha1.Duration{Duration: time.Minute}, ExpiresAt: at,
		},
		Status: v1alpha1.NodeActionStatus{
			Claim:  &v1alpha1.Claim{RunnerID: "runner", BootID: "boot", Time: at, Remedy: "command"},
			Result: &v1alpha1.ActionResult{Output: output},
			Conditions: []metav1.Condition{
				{Type: "Other", Status: metav1.ConditionTrue, Reason: "Other"},
				{Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonInterrupted, Message: strings.Repeat("m", 3000), LastTransitionTime: at},
			},
		},
	}
}

// withoutObject compares what is told, and of texts what a history keeps.
var withoutObject = cmp.Options{cmpopts.IgnoreUnexported(Attempt{}), cmpopts.IgnoreFields(Attempt{}, "Object", "Output"), cmpopts.IgnoreFields(End{}, "Message")}

func TestOfFinishedActionsWhatIsToldIsKept(t *testing.T) {
	whole := finishedAction(strings.Repeat("x", 3000) + "end")
	kept, err := Strip(whole.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	stripped := kept.(*v1alpha1.NodeAction) //nolint:forcetypeassert // a panic is a failed test
	want, got := nodeActions{}.Tell(whole), nodeActions{}.Tell(stripped)
	if diff := cmp.Diff(want, got, withoutObject); diff != "" {
		t.Errorf("what is told has changed:\n%s", diff)
	}
	if want.RunsUntil() != got.RunsUntil() || want.MayRun() != got.MayRun() {
		t.Errorf("it may run until %s, stripped until %s", want.RunsUntil(), got.RunsUntil())
	}
	if !strings.HasSuffix(got.Output, "end") || len(got.Output) != MaxText || len(got.End.Message) > MaxText || !strings.HasPrefix(got.End.Message, "mmm") {
		t.Errorf("got an output of %d bytes and a message of %d", len(got.Output), len(got.End.Message))
	}
	if again, err := Strip(stripped); again != any(stripped) || err != nil {
		t.Errorf("the second time another one comes out: %v", err)
	}
	if stripped.ManagedFields != nil || stripped.Labels != nil || len(stripped.Status.Conditions) != 1 || stripped.Status.Claim.RunnerID != "" {
		t.Errorf("more is kept than is told: %+v", stripped)
	}
}

func TestActionsThatMayBeWrittenStayWhole(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.NodeAction){
		"not finished": func(a *v1alpha1.NodeAction) { a.Status.Conditions = a.Status.Conditions[:1] },
		"leaving":      func(a *v1alpha1.NodeAction) { at := metav1.Now(); a.DeletionTimestamp = &at },
	} {
		whole := finishedAction("output")
		change(whole)
		kept, err := Strip(whole.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		whole.ManagedFields = nil
		if diff := cmp.Diff(any(whole), kept); diff != "" {
			t.Errorf("%s: it has changed:\n%s", name, diff)
		}
	}
}
