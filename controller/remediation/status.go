package remediation

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/internal/deadline"
)

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

// heldBack is the decision instead of one to act that the API server, when it was asked, spoke against. It
// keeps what a person has asked for: otherwise that would be decided again at once.
func heldBack(s situation, v gates.Verdict) decision {
	d := begin(s)
	if d.status.Action == "" {
		d.startOver(s)
		d.forgetAnnounced(s)
		d.progressing(s.now, v1alpha1.ReasonWaiting, "waiting to start")
	}
	return d.blocked(s.now, v)
}

// stillRunning waits, with the permit, for what may still run and is not to be
// followed by anything before it is over.
func (d decision) stillRunning(now, until time.Time) decision {
	if d.progress() == "" {
		d.progressing(now, v1alpha1.ReasonWaiting, "")
	}
	message := "an action may still be running until " + clockTime(until)
	if until.Equal(deadline.Never) {
		message, until = "another program is still at work: its object, or the machine that it replaces, is not gone", now // an event tells when
	}
	d.set(now, v1alpha1.RemediationBlocked, metav1.ConditionTrue, v1alpha1.ReasonStillRunning, message)
	d.wait = until.Sub(now)
	return d
}

// allInVain is why a remediation is exhausted as a rule.
const allInVain = "every step was executed and the fault is still there"

func (d decision) exhausted(now time.Time, why string) decision {
	d.set(now, v1alpha1.RemediationProgressing, metav1.ConditionFalse, v1alpha1.ReasonExhausted, why)
	d.set(now, v1alpha1.RemediationRecovered, metav1.ConditionFalse, v1alpha1.ReasonExhausted, "")
	d.unblocked(now)
	return d.rests()
}

// rests holds no permit, and waits for the node to recover, or for a person.
func (d decision) rests() decision {
	d.effect = release
	if d.status.Maintenance != "" {
		d.wait = parkedRecheck
	}
	return d
}

func (d decision) ended(now time.Time, recovered metav1.ConditionStatus, reason, message string) decision {
	d.set(now, v1alpha1.RemediationProgressing, metav1.ConditionFalse, reason, message)
	d.set(now, v1alpha1.RemediationRecovered, recovered, reason, message)
	d.unblocked(now)
	d.status.Action, d.status.Maintenance = "", ""
	endTime := metav1.NewTime(now)
	d.status.EndTime = &endTime
	d.effect, d.wait = release, 0
	return d
}

// message returns that of a condition.
func message(r *v1alpha1.Remediation, conditionType string) string {
	if c := meta.FindStatusCondition(r.Status.Conditions, conditionType); c != nil {
		return c.Message
	}
	return ""
}

func clockTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
