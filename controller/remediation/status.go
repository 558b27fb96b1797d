package remediation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
)

// maxUnexecuted is how many records of actions that were not executed are kept.
const maxUnexecuted = 10

func (d *decision) set(now time.Time, conditionType string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&d.status.Conditions, metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message,
		LastTransitionTime: metav1.NewTime(now),
	})
}

func (d *decision) progressing(now time.Time, reason, message string) {
	d.set(now, v1alpha1.RemediationProgressing, metav1.ConditionTrue, reason, message)
}

func (d *decision) unblocked(now time.Time) {
	d.set(now, v1alpha1.RemediationBlocked, metav1.ConditionFalse, reasonNotBlocked, "")
}

// blocked shows what holds the remediation back; meanwhile it holds no permit.
func (d decision) blocked(now time.Time, v gates.Verdict) decision {
	d.set(now, v1alpha1.RemediationBlocked, metav1.ConditionTrue, v.Reason, v.Message)
	d.effect, d.wait = release, v.Recheck
	return d
}

// stillRunning waits, with the permit, for what nobody reports on.
func (d decision) stillRunning(now, until time.Time) decision {
	if d.progress() == "" {
		d.progressing(now, v1alpha1.ReasonWaiting, "")
	}
	d.set(now, v1alpha1.RemediationBlocked, metav1.ConditionTrue, reasonStillRunning,
		"an action that nobody reports on may still be running until "+until.UTC().Format(time.RFC3339))
	d.wait = until.Sub(now)
	return d
}

func (d decision) exhausted(now time.Time) decision {
	d.set(now, v1alpha1.RemediationProgressing, metav1.ConditionFalse, v1alpha1.ReasonExhausted,
		"every step was executed and the fault is still there")
	d.set(now, v1alpha1.RemediationRecovered, metav1.ConditionFalse, v1alpha1.ReasonExhausted, "")
	d.unblocked(now)
	d.effect = release
	return d
}

func (d decision) ended(now time.Time, recovered metav1.ConditionStatus, reason, message string) decision {
	d.set(now, v1alpha1.RemediationProgressing, metav1.ConditionFalse, reason, message)
	d.set(now, v1alpha1.RemediationRecovered, recovered, reason, message)
	d.unblocked(now)
	d.status.Action = ""
	endTime := metav1.NewTime(now)
	d.status.EndTime = &endTime
	d.effect, d.wait = release, 0
	return d
}

// record moves a finished action into the history, under our own time: the clock
// of the node may be wrong, and later than the truth is the safe side.
func (d *decision) record(now time.Time, action *v1alpha1.NodeAction) {
	finished := action.Finished()
	d.append(v1alpha1.ActionRecord{
		Action: action.Name, Step: action.Spec.Step, Attempt: action.Spec.Attempt,
		Outcome: finished.Reason, Message: finished.Message,
		Executed:   v1alpha1.Executed(finished.Reason),
		FinishedAt: metav1.NewTime(now),
	})
}

// recordUnreported moves the action that is under way into the history, although
// nobody has reported how it ended.
func (d *decision) recordUnreported(now time.Time, how outcome) {
	d.append(v1alpha1.ActionRecord{
		Action: d.status.Action, Step: d.status.Step, Attempt: d.status.Attempt,
		Outcome: how.reason, Message: how.message,
		FinishedAt: metav1.NewTime(now),
	})
}

func (d *decision) append(record v1alpha1.ActionRecord) {
	d.status.History = append(d.status.History, record)
	unexecuted := 0
	for i := range d.status.History {
		if !d.status.History[i].Executed {
			unexecuted++
		}
	}
	d.status.History = slices.DeleteFunc(d.status.History, func(r v1alpha1.ActionRecord) bool {
		if r.Executed || unexecuted <= maxUnexecuted {
			return false
		}
		unexecuted--
		return true
	})
	d.status.Action = ""
}

func lastRecord(status *v1alpha1.RemediationStatus) *v1alpha1.ActionRecord {
	if len(status.History) == 0 {
		return nil
	}
	return &status.History[len(status.History)-1]
}

// mayHaveRun reports whether an action that ended so had, or may have had, an
// effect.
func mayHaveRun(outcome string) bool {
	switch outcome {
	case v1alpha1.ReasonInterrupted, v1alpha1.ReasonRebootNotObserved, v1alpha1.ReasonLost:
		return true
	default:
		return v1alpha1.Executed(outcome)
	}
}
