package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// stands is a remediation with a gentle step and a reboot that requires approval.
func stands(step int32, state, blockedBy string, changes ...func(*v1alpha1.Remediation)) *v1alpha1.Remediation {
	r := &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "n1-0123", Annotations: map[string]string{}}}
	r.Spec.NodeName = "n1"
	r.Spec.Steps = []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{}}, {Reboot: &v1alpha1.RebootRemedy{}, RequireApproval: true}}
	r.Status.Step = step
	r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.RemediationProgressing, Reason: state, LastTransitionTime: before(time.Hour)}}
	if blockedBy != "" {
		r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: v1alpha1.RemediationBlocked, Status: metav1.ConditionTrue, Reason: blockedBy})
	}
	for _, change := range changes {
		change(r)
	}
	return r
}

func annotated(key, value string) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) { r.Annotations[key] = value }
}

func seen(what string, step int32, name string, ago time.Duration) func(*v1alpha1.Remediation) {
	return func(r *v1alpha1.Remediation) {
		r.Status.Decisions = append(r.Status.Decisions, v1alpha1.PersonsDecision{What: what, Step: step, By: name, At: before(ago)})
	}
}

func hasEnded(r *v1alpha1.Remediation) { r.Status.EndTime = ptr.To(before(0)) }

func TestDescribeSaysWhatPeopleHaveDecidedAndCanDo(t *testing.T) {
	approvedStep, approvedBy := v1alpha1.ApprovedStepAnnotation, v1alpha1.ApprovedByAnnotation
	exhausted := []string{
		"Exhausted: since 2026-03-01T11:00:00Z; it ends by itself once node n1 has recovered",
		" to start over with step 1: kubectl nodemend retry n1-0123",
		` to take the node out of service: kubectl nodemend maintenance start n1 --reason "exhausted"`,
	}
	for _, tt := range []struct {
		name string
		r    *v1alpha1.Remediation
		want []string
	}{
		{"a later step requires it", stands(1, "Acting", ""), []string{"Approval: step 2 (reboot) needs it"}},
		{"a new one", stands(0, "", ""), []string{"Approval: step 2 (reboot) needs it"}},
		{"it waits", stands(2, "Waiting", "ApprovalRequired"), []string{"Approval: step 2 (reboot) waits for it; to approve: kubectl nodemend approve n1-0123"}},
		{"another gate holds it", stands(2, "Waiting", "Paused"), []string{"Approval: step 2 (reboot) needs it"}},
		{"by the plugin, the controller has not seen it yet", stands(2, "Waiting", "ApprovalRequired", annotated(approvedStep, "2"), annotated(approvedBy, "2 jane")),
			[]string{"Approval: up to step 2, by jane"}},
		{"by the plugin", stands(2, "Acting", "", annotated(approvedStep, "2"), annotated(approvedBy, "2 jane"), seen("Approved", 2, "jane", time.Minute)),
			[]string{"Approval: up to step 2, by jane at 2026-03-01T11:59:00Z"}},
		{"by hand", stands(2, "Acting", "", annotated(approvedStep, "2"), seen("Approved", 2, "", time.Minute)),
			[]string{"Approval: up to step 2, by somebody (no name recorded) at 2026-03-01T11:59:00Z"}},
		{"jane an earlier step, somebody this one by hand", stands(2, "Acting", "", annotated(approvedStep, "2"), annotated(approvedBy, "1 jane"), seen("Approved", 1, "jane", time.Hour)),
			[]string{"Approval: up to step 2, by somebody (no name recorded)"}},
		{"an earlier step alone", stands(2, "Waiting", "ApprovalRequired", annotated(approvedStep, "1"), annotated(approvedBy, "1 jane")),
			[]string{"Approval: up to step 1, by jane", " step 2 (reboot) waits for it; to approve: kubectl nodemend approve n1-0123"}},
		{"taken back", stands(2, "Waiting", "ApprovalRequired", seen("Approved", 2, "jane", time.Hour), seen("Approved", 0, "", time.Minute)),
			[]string{"Approval: step 2 (reboot) waits for it; to approve: kubectl nodemend approve n1-0123"}},
		{"the annotation is gone, as of a tombstone", stands(2, "Deleted", "", hasEnded, seen("Approved", 2, "jane", time.Hour)),
			[]string{"Approval: up to step 2, by jane at 2026-03-01T11:00:00Z"}},
		{"never asked for", stands(2, "Recovered", "", hasEnded), nil},
		{"exhausted", stands(1, "Exhausted", "", annotated(approvedStep, "x"), func(r *v1alpha1.Remediation) { r.Spec.Steps = r.Spec.Steps[:1] }), exhausted},
		{"exhausted and out of service", stands(1, "Exhausted", "", func(r *v1alpha1.Remediation) { r.Spec.Steps, r.Status.Maintenance = r.Spec.Steps[:1], "m" }), exhausted[:2]},
		{"started over", stands(3, "Waiting", "", annotated(v1alpha1.RetryAnnotation, "7"), func(r *v1alpha1.Remediation) { r.Status.Retried = "7" }, seen("Retried", 0, "jane", time.Minute)),
			[]string{"Retry: started over by jane at 2026-03-01T11:59:00Z"}},
		{"started over before names were written down", stands(3, "Waiting", "", annotated(v1alpha1.RetryAnnotation, "7"), func(r *v1alpha1.Remediation) { r.Status.Retried = "7" }),
			[]string{"Retry: started over by somebody (no name recorded)"}},
		{"a retry that is not heeded", stands(3, "Acting", "", annotated(v1alpha1.RetryAnnotation, "7"), annotated(v1alpha1.RetriedByAnnotation, "7 jane")),
			[]string{"Retry: asked for by jane; heeded once the remediation waits for a person"}},
		{"a retry that the controller has not seen", stands(3, "Exhausted", "", annotated(v1alpha1.RetryAnnotation, "7"), func(r *v1alpha1.Remediation) { r.Status.Maintenance = "m" }),
			append([]string{"Retry: asked for by somebody (no name recorded); heeded as soon as the controller looks"}, exhausted[:2]...)},
	} {
		var got []string
		for _, row := range decisions(tt.r, nil) {
			got = append(got, strings.Join(row, " "))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestTheTimelineSaysWhoHasDecided(t *testing.T) {
	r := stands(2, "Waiting", "", seen("Retried", 0, "jane", time.Hour), seen("Approved", 2, "bob", 50*time.Minute), seen("Approved", 0, "", 40*time.Minute))
	text := (&tool{}).timeline(r, nil)
	if !inOrder(text, "11:00:00Z  started over with step 1 by jane", "11:10:00Z  approved up to step 2 by bob", "11:20:00Z  approval taken back by somebody (no name recorded)") {
		t.Error(text)
	}
}

func TestAPauseSaysWhoWhenWhyAndHowItEnds(t *testing.T) {
	budget := func(changes ...func(*v1alpha1.RemediationBudget)) *v1alpha1.RemediationBudget {
		b := &v1alpha1.RemediationBudget{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "u", Generation: 3}}
		for _, change := range changes {
			change(b)
		}
		return b
	}
	byJane := func(b *v1alpha1.RemediationBudget) {
		b.Annotations = map[string]string{v1alpha1.PausedByAnnotation: v1alpha1.Signed(v1alpha1.Paused(b), "jane")}
	}
	written := func(b *v1alpha1.RemediationBudget) {
		b.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "nodemend", Time: ptr.To(before(0)), FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:nodes":{}}}`)},
			{Manager: "kubectl-patch", Time: ptr.To(before(time.Hour)), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{}}}`)},
		}
	}
	for _, tt := range []struct {
		name, called, reason string
		obj                  *v1alpha1.RemediationBudget
		want                 string
	}{
		{"by the plugin", "budget/workers", "move", budget(byJane, written), "budget workers, by jane at 2026-03-01T11:00:00Z or before: move"},
		{"by hand", "budget/workers", "", budget(written), "budget workers, by somebody (no name recorded) at 2026-03-01T11:00:00Z or before"},
		{"by hand, after jane had resumed", "budget/workers", "", budget(byJane, func(b *v1alpha1.RemediationBudget) { b.Generation++ }), "budget workers, by somebody (no name recorded)"},
		{"the cluster", "", "storm", budget(byJane), "the cluster, by jane: storm"},
	} {
		got := paused(tt.obj, tt.called, tt.reason)
		want := []string{tt.want, strings.TrimSpace("to resume: kubectl nodemend resume " + tt.called)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
