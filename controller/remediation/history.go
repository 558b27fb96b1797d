package remediation

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/internal/cut"
)

const (
	// maxUnexecuted is how many records of actions that have not acted are kept: of the others
	// gates count each.
	maxUnexecuted = 10
	// maxRecords is how many records are kept at all: more than one way through
	// the steps gives. Only who starts over often loses the oldest.
	maxRecords = 180
	// maxText is how many bytes of a message and of the output a record keeps.
	maxText = attempt.MaxText
)

// record moves a finished action into the history, under our own time: the clock
// of the node may be wrong, and later than the truth is the safe side: of the two, where they
// differ by seconds only, it is the later one.
func (d *decision) record(s situation) {
	end := *s.attempt.End
	if s.attempt.Void {
		end = attempt.End{Reason: v1alpha1.ReasonCancelled, Message: voided}
	}
	d.append(s, v1alpha1.ActionRecord{
		Action: s.attempt.Name, Step: s.attempt.Step, Attempt: s.attempt.Number,
		Outcome: end.Reason, Message: head(end.Message), Output: cut.Tail(s.attempt.Output, maxText),
		Executed: v1alpha1.Executed(end.Reason),
	})
}

// recordUnreported moves the action that is under way into the history, although
// nobody has reported how it ended.
func (d *decision) recordUnreported(s situation, how outcome) {
	d.append(s, v1alpha1.ActionRecord{
		Action: d.status.Action, Step: d.status.Step, Attempt: d.status.Attempt,
		Outcome: how.reason, Message: how.message, Executed: v1alpha1.Executed(how.reason),
	})
}

func (d *decision) append(s situation, record v1alpha1.ActionRecord) {
	if step := s.step(record.Step); step != nil {
		record.Remedy = step.Remedy()
	}
	if s.attempt != nil && !s.attempt.Created.IsZero() {
		record.StartedAt = &metav1.Time{Time: s.attempt.Created}
	}
	if v1alpha1.RemedyNamed(record.Remedy).Executor == v1alpha1.ExecutorMaintenance && s.maintenance != nil {
		record.StartedAt = s.maintenance.CreationTimestamp.DeepCopy()
	}
	record.FinishedAt = metav1.NewTime(s.now)
	if s.attempt != nil {
		if end := s.attempt.End; end != nil && end.At.After(s.now) && s.believed(end.At) {
			record.FinishedAt = metav1.NewTime(end.At)
		}
	}
	d.status.History = append(d.status.History, record)
	unexecuted := 0
	for i := range d.status.History {
		if !d.status.History[i].Acted() {
			unexecuted++
		}
	}
	d.status.History = slices.DeleteFunc(d.status.History, func(r v1alpha1.ActionRecord) bool {
		if r.Acted() || unexecuted <= maxUnexecuted {
			return false
		}
		unexecuted--
		return true
	})
	if surplus := len(d.status.History) - maxRecords; surplus > 0 {
		d.status.History = d.status.History[surplus:]
	}
	phase := d.status.Phase()
	d.status.Action = ""
	if phase == v1alpha1.PhaseActionAnnounced { // which it is no longer: without an action, a maintenance would be
		d.progressing(s.now, v1alpha1.ReasonWaiting, head(fmt.Sprintf("%s: %s", record.Outcome, record.Message)))
	}
}

func lastRecord(status *v1alpha1.RemediationStatus) *v1alpha1.ActionRecord {
	if len(status.History) == 0 {
		return nil
	}
	return &status.History[len(status.History)-1]
}

// newRecord returns the record that a change of the status has added, nil if it has
// added none. No change adds two.
func newRecord(before, after *v1alpha1.Remediation) *v1alpha1.ActionRecord {
	last, old := lastRecord(&after.Status), lastRecord(&before.Status)
	if last == nil || old != nil && old.Action == last.Action && old.FinishedAt.Equal(&last.FinishedAt) {
		return nil
	}
	return last
}

// head returns the beginning of a message that is too long to be kept.
func head(message string) string { return cut.Head(message, maxText) }
