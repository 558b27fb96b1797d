package remediation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
)

const (
	// maxDecisions is how many decisions of people are kept.
	maxDecisions = 20
	// maxUser is how many bytes of a user's name are kept.
	maxUser = 256
)

// noteApproval writes down what a person has approved, and who it was, so that it is known
// when the annotations are gone.
func (d *decision) noteApproval(s situation) {
	if isTombstone(s.remediation) { // which remembers, and is never spoken to
		return
	}
	var known v1alpha1.PersonsDecision
	if last := d.status.LastDecision(v1alpha1.DecisionApproved); last != nil {
		known = *last
	}
	step, by := s.remediation.ApprovedStep(), ""
	if step > 0 {
		by = cut.Head(s.remediation.ApprovedBy(), maxUser)
	}
	if step != known.Step || by != known.By {
		d.note(s.now, v1alpha1.PersonsDecision{What: v1alpha1.DecisionApproved, Step: step, By: by})
	}
}

// noteRetry writes down who has started over.
func (d *decision) noteRetry(s situation) {
	d.note(s.now, v1alpha1.PersonsDecision{What: v1alpha1.DecisionRetried, By: cut.Head(s.remediation.RetriedBy(), maxUser)})
}

func (d *decision) note(now time.Time, decided v1alpha1.PersonsDecision) {
	decided.At = metav1.NewTime(now)
	d.status.Decisions = append(d.status.Decisions, decided)
	d.status.Decisions = d.status.Decisions[max(0, len(d.status.Decisions)-maxDecisions):]
}
