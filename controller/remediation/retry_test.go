package remediation

import (
	"strings"
	"testing"
	"time"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

func retry(value string) func(*situation) {
	return func(s *situation) {
		s.remediation.Annotations = map[string]string{v1alpha1.RetryAnnotation: value}
	}
}

func retried(s *situation) { s.remediation.Status.Retried = "1" }

// allFormer makes all records so far former ones.
func allFormer(s *situation) {
	for i := range s.remediation.Status.History {
		s.remediation.Status.History[i].Former = true
	}
}

func TestWhatComesNextWhenAPersonStartsOver(t *testing.T) {
	exhausted := []func(*situation){at(2, 1), history("TimedOut", time.Minute), progress("Exhausted")}
	with := func(more ...func(*situation)) situation { return incident(append(exhausted[:3:3], more...)...) }
	decideAll(t, []next{
		{"an exhausted one starts over", with(retry("1")), start, "Starting", "", 1, 1, 0},
		{"with another value again", with(retry("2"), retried), start, "Starting", "", 1, 1, 0},
		{"once", with(retry("1"), retried), release, "Exhausted", "", 2, 1, 0},
		{"and is held by gates as any", with(retry("1"), excluded), release, "Waiting", "Excluded", 1, 1, 0},
		{"not while the node is clear", with(retry("1"), condition("False", time.Second, 10*time.Second)), nothing, "Healing", "", 2, 1, 20 * time.Second},
		{"one that was interrupted starts over", incident(at(1, 2), history("Interrupted", time.Hour), retry("1")), start, "Starting", "", 1, 1, 0},
		{"one whose action was lost, too", incident(at(1, 2), history("Lost", time.Hour), retry("1")), start, "Starting", "", 1, 1, 0},
		{"and one whose node did not reboot", incident(at(1, 2), history("RebootNotObserved", time.Hour), retry("1")), start, "Starting", "", 1, 1, 0},
		{"not while it may still be running", incident(at(1, 2), history("Interrupted", time.Minute), retry("1")), nothing, "Waiting", "StillRunning", 1, 2, 10 * time.Second},
		{"a silent runner is given up", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"), retry("1")), nothing, "Acting", "", 1, 1, time.Second},
		{"one that is being verified goes on", incident(at(1, 2), history("Succeeded", 20*time.Second), retry("1")), nothing, "Verifying", "", 1, 2, 40 * time.Second},
		{"one whose attempt was not executed goes on", incident(at(1, 2), history("Refused", time.Second), retry("1")), release, "Waiting", "Refused", 1, 2, 29 * time.Second},
		{"what was executed before does not count as this attempt", incident(at(1, 1), history("Succeeded", time.Hour), allFormer, retried, retry("1")), start, "Starting", "", 1, 1, 0},
		{"what was not executed before does not hold it", incident(at(1, 1), history("Interrupted", time.Hour), allFormer, retried, retry("1")), start, "Starting", "", 1, 1, 0},
	})
}

func TestStartingOverKeepsTheHistory(t *testing.T) {
	d := decide(incident(at(2, 1), history("TimedOut", time.Minute), progress("Exhausted"), retry("because")))
	if d.status.Retried != "because" || len(d.status.History) != 1 || !d.status.History[0].Former {
		t.Errorf("got retried %q, history %+v", d.status.Retried, d.status.History)
	}
	refused := heldBack(incident(at(2, 1), history("TimedOut", time.Minute), progress("Exhausted"), retry("because")), gates.Verdict{Reason: gates.ReasonBudgetExhausted})
	if refused.status.Retried != "because" || refused.status.Step != 1 || !refused.status.History[0].Former {
		t.Errorf("one that is refused its permit has not started over: %+v", refused.status)
	}
	again := incident(at(2, 1), history("TimedOut", time.Minute), progress("Exhausted"), retry(strings.Repeat("x", 1000)))
	if d := decide(again); len(d.status.Retried) != maxRetry {
		t.Errorf("a value of any length is kept: %d bytes", len(d.status.Retried))
	}
	again.remediation.Status = decide(again).status
	again.remediation.Status.Action = ""
	if d := decide(again); d.status.Retried != again.remediation.Status.Retried || d.status.Step != 1 {
		t.Error("a long value was heeded twice")
	}

	once := incident(at(1, 1), history("Interrupted", time.Hour), allFormer, retried, retry("2"), excluded)
	if d := decide(once); d.status.Retried != "1" {
		t.Error("one that has started over and waits for something else was started over again")
	}
}

func TestARetryIsForWhatWaitsForAPerson(t *testing.T) {
	heldBy := func(s situation) *v1alpha1.Remediation {
		s.remediation.Status = decide(s).status
		return s.remediation
	}
	for _, tt := range []struct {
		name string
		r    *v1alpha1.Remediation
		want bool
	}{
		{"exhausted", heldBy(incident(at(2, 1), history("TimedOut", time.Minute))), true},
		{"its runner is silent", heldBy(incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"))), true},
		{"interrupted", heldBy(incident(at(1, 1), history("Interrupted", time.Hour))), true},
		{"interrupted, and held by another gate as well", heldBy(incident(at(1, 1), history("Interrupted", time.Hour), excluded)), true},
		{"its action runs", heldBy(incident(at(1, 1), underway(time.Second, claimed(time.Second)))), false},
		{"refused, and tried again", heldBy(incident(at(1, 1), history("Refused", time.Second))), false},
		{"excluded", heldBy(incident(excluded)), false},
	} {
		if got := WaitsForRetry(tt.r); got != tt.want {
			t.Errorf("%s: %t, want %t (%s)", tt.name, got, tt.want, tt.r.BlockedBy())
		}
	}
}
