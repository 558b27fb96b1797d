package remediation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// says makes people say this by annotations.
func says(annotations map[string]string) func(*situation) {
	return func(s *situation) { s.remediation.Annotations = annotations }
}

func approvedBy(step, by string) func(*situation) {
	annotations := map[string]string{v1alpha1.ApprovedStepAnnotation: step}
	if by != "" {
		annotations[v1alpha1.ApprovedByAnnotation] = by
	}
	return says(annotations)
}

// remembered are decisions that were seen before.
func remembered(decisions ...v1alpha1.PersonsDecision) func(*situation) {
	return func(s *situation) { s.remediation.Status.Decisions = decisions }
}

// inShort are decisions in short: "Approved 2 jane".
func inShort(decisions []v1alpha1.PersonsDecision) []string {
	var all []string
	for _, d := range decisions {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %d %s", d.What, d.Step, d.By)))
	}
	return all
}

func TestWhatPeopleDecideIsWrittenDownWithTheirName(t *testing.T) {
	jane := v1alpha1.PersonsDecision{What: v1alpha1.DecisionApproved, Step: 2, By: "jane"}
	exhausted := []func(*situation){at(2, 1), history("TimedOut", time.Minute), progress("Exhausted")}
	for _, tt := range []struct {
		name string
		s    situation
		want []string
	}{
		{"nobody has said anything", incident(), nil},
		{"jane approves, by the plugin", incident(approvedBy("2", "2 jane")), []string{"Approved 2 jane"}},
		{"somebody approves by hand", incident(approvedBy("2", "")), []string{"Approved 2"}},
		{"jane has approved an earlier step, somebody a later one by hand", incident(approvedBy("3", "2 jane"), remembered(jane)), []string{"Approved 2 jane", "Approved 3"}},
		{"it is known already", incident(approvedBy("2", "2 jane"), remembered(jane)), []string{"Approved 2 jane"}},
		{"bob approves it, too", incident(approvedBy("2", "2 bob"), remembered(jane)), []string{"Approved 2 jane", "Approved 2 bob"}},
		{"the approval is taken back", incident(remembered(jane)), []string{"Approved 2 jane", "Approved 0"}},
		{"what is no number approves nothing", incident(approvedBy("all", "all jane")), nil},
		{"a long name is cut", incident(approvedBy("2", "2 "+strings.Repeat("j", 300))), []string{"Approved 2 " + strings.Repeat("j", 253) + "…"}},
		{"jane starts over", incident(append(exhausted, says(map[string]string{v1alpha1.RetryAnnotation: "7", v1alpha1.RetriedByAnnotation: "7 jane"}))...), []string{"Retried 0 jane"}},
		{"somebody starts over by hand", incident(append(exhausted, retry("7"))...), []string{"Retried 0"}},
		{"a retry that is not heeded yet", incident(says(map[string]string{v1alpha1.RetryAnnotation: "7", v1alpha1.RetriedByAnnotation: "7 jane"})), nil},
		{"a tombstone is not spoken to", incident(says(map[string]string{v1alpha1.TombstoneAnnotation: "x"}), remembered(jane)), []string{"Approved 2 jane"}},
	} {
		d := decide(tt.s)
		if diff := cmp.Diff(tt.want, inShort(d.status.Decisions)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		for _, decided := range d.status.Decisions[len(tt.s.remediation.Status.Decisions):] {
			if !decided.At.Time.Equal(tt.s.now) {
				t.Errorf("%s: it was seen at %s, want %s", tt.name, decided.At, tt.s.now)
			}
		}
		again := tt.s
		again.remediation = tt.s.remediation.DeepCopy()
		again.remediation.Status.Decisions = d.status.Decisions
		if more := begin(again); len(more.status.Decisions) != len(d.status.Decisions) {
			t.Errorf("%s: it is written down twice: %v", tt.name, inShort(more.status.Decisions))
		}
	}
}

func TestWhoStartsOverIsWrittenDownThoughTheStartIsHeldBack(t *testing.T) {
	s := incident(at(2, 1), history("TimedOut", time.Minute), progress("Exhausted"), says(map[string]string{v1alpha1.RetryAnnotation: "7", v1alpha1.RetriedByAnnotation: "7 jane"}))
	d := heldBack(s, gates.Verdict{Reason: gates.ReasonBudgetExhausted})
	if diff := cmp.Diff([]string{"Retried 0 jane"}, inShort(d.status.Decisions)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnlyTheNewestDecisionsAreKept(t *testing.T) {
	s := incident()
	for step := range 30 {
		approvedBy(fmt.Sprint(step+1), "")(&s)
		s.remediation.Status.Decisions = begin(s).status.Decisions
	}
	kept := s.remediation.Status.Decisions
	if len(kept) != maxDecisions || kept[0].Step != 11 || kept[maxDecisions-1].Step != 30 {
		t.Errorf("got %v", inShort(kept))
	}
}
