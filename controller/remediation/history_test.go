package remediation

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

func TestWhatIsRememberedOfAnAction(t *testing.T) {
	long := strings.Repeat("é", 3000) // two bytes each
	s := incident(at(1, 1), underway(time.Minute, claimed(time.Minute), finished("Failed", time.Second)))
	acts(&s, func(a *v1alpha1.NodeAction) {
		a.CreationTimestamp = ago(time.Minute)
		a.Status.Result = &v1alpha1.ActionResult{Output: "x" + long}
		a.Status.Conditions[0].Message = "x" + long
	})
	r := decide(s).status.History[0]
	if r.Remedy != "command" || r.StartedAt == nil || !r.StartedAt.Time.Equal(s.attempt.Created) {
		t.Errorf("got remedy %q, started %v", r.Remedy, r.StartedAt)
	}
	if len(r.Output) != maxText || !utf8.ValidString(r.Output) || !strings.HasSuffix(r.Output, "é") {
		t.Errorf("got %d bytes of output", len(r.Output))
	}
	if len(r.Message) > maxText || len(r.Message) < maxText-4 || !utf8.ValidString(r.Message) || !strings.HasPrefix(r.Message, "xé") {
		t.Errorf("got a message of %d bytes", len(r.Message))
	}
	s.attempt.Output = "é" + strings.Repeat("x", maxText-1)
	if out := decide(s).status.History[0].Output; out != strings.Repeat("x", maxText-1) {
		t.Errorf("half a character is kept: %q", out[:4])
	}
}

func TestTheHistoryIsBounded(t *testing.T) {
	s := incident(at(1, 1))
	for range maxRecords + 5 {
		history("Succeeded", time.Hour)(&s)
	}
	allFormer(&s)
	s.remediation.Status.History[0].Action = "oldest"
	underway(time.Minute, claimed(time.Minute), finished("Failed", time.Second))(&s)
	records := decide(s).status.History
	if len(records) != maxRecords || records[0].Action == "oldest" || records[maxRecords-1].Outcome != "Failed" {
		t.Errorf("got %d records", len(records))
	}
}

func TestWhatAnotherRemediationDidIsNoEvidenceForThisOne(t *testing.T) {
	past := incident(at(1, 1), history("Succeeded", 0)).remediation
	past.Status.EndTime = &metav1.Time{Time: now}
	s := incident(func(s *situation) { s.past = []v1alpha1.Remediation{*past} })
	if d := decide(s); (&v1alpha1.Remediation{Status: d.status}).BlockedBy() != "NoEvidence" {
		t.Errorf("a report from before its action has ended counts: effect %d", d.effect)
	}
	s.past[0].Status.History[0].FinishedAt = ago(2 * time.Second)
	if d := decide(s); d.effect != start {
		t.Error("a later report does not count")
	}
}
