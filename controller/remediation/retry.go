package remediation

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// maxRetry is how many bytes of the annotation's value count.
const maxRetry = 63

// retryAsked reports whether a person has asked to start over and was not heeded
// yet.
func (d *decision) retryAsked(s situation) bool { return asksForRetry(s.remediation, &d.status) }

// AsksForRetry reports whether a person has asked to start over and was not heeded yet.
func AsksForRetry(r *v1alpha1.Remediation) bool { return asksForRetry(r, &r.Status) }

func asksForRetry(r *v1alpha1.Remediation, status *v1alpha1.RemediationStatus) bool {
	asked := retryValue(r)
	return asked != "" && asked != status.Retried
}

func retryValue(r *v1alpha1.Remediation) string {
	value := r.Annotations[v1alpha1.RetryAnnotation]
	if len(value) > maxRetry {
		return strings.ToValidUTF8(value[:maxRetry], "")
	}
	return value
}

// startOver goes back to the first attempt of the first step if a person has asked
// for it and it is a person that the remediation waits for. What was done before
// stays in the history and counts towards no step any more.
func (d *decision) startOver(s situation) {
	usedUp := (&v1alpha1.Remediation{Spec: s.remediation.Spec, Status: d.status}).ApprovalUsedUp()
	if !d.retryAsked(s) || s.concluded(&d.status) || !d.waitsForAPerson() && !usedUp {
		return
	}
	for i := range d.status.History {
		d.status.History[i].Former = true
	}
	d.status.Retried = retryValue(s.remediation)
	d.status.Step, d.status.Attempt = 1, 1
	d.progressing(s.now, v1alpha1.ReasonWaiting, fmt.Sprintf("started over by %s=%s", v1alpha1.RetryAnnotation, d.status.Retried))
	d.set(s.now, v1alpha1.RemediationRecovered, metav1.ConditionUnknown, v1alpha1.ReasonWaiting, "")
	d.noteRetry(s)
}

// WaitsForRetry reports whether an open remediation waits for a person, and starts over
// when one asks for it.
func WaitsForRetry(r *v1alpha1.Remediation) bool {
	if r.Spec.Request != nil && r.Status.Phase() == v1alpha1.PhaseExhausted {
		return false // who has asked for it goes on without us
	}
	d := decision{status: r.Status}
	return d.waitsForAPerson() || r.BlockedBy() == reasonNoReport || r.ApprovalUsedUp()
}

// waitsForAPerson reports whether every step was executed in vain, nobody knows whether
// the last action was executed, or somebody else has switched the node's power.
func (d *decision) waitsForAPerson() bool {
	last := lastRecord(&d.status)
	return d.status.Phase() == v1alpha1.PhaseExhausted ||
		last != nil && !last.Former && !last.Executed && (v1alpha1.MayHaveExecuted(last.Outcome) || last.Outcome == v1alpha1.ReasonPowerWasOff)
}
