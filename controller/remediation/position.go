package remediation

import (
	"fmt"
	"slices"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
)

// position is an attempt of a step.
type position struct{ step, attempt int32 }

// next returns which attempt is next, after the last one was in vain; why tells that none is
// left.
func (s *situation) next(status *v1alpha1.RemediationStatus, proof proof) (at position, why string) {
	var left bool
	at = position{status.Step, status.Attempt}
	if silent(status) && status.Maintenance == "" && s.answersAgain(status) { // gentler steps were left out
		at = position{lastRecord(status).Step, lastRecord(status).Attempt}
	}
	if last := attempted(status); last != nil && s.staysAway(last) {
		if at, left = s.withoutRunner(at); !left {
			return at, last.Message + "; no step is left that can be done without it"
		}
	} else if last != nil {
		if at, left = s.following(at); !left {
			return at, allInVain
		}
	}
	if s.unanswered(status, at) {
		if at, left = s.withoutRunner(at); !left {
			return at, fmt.Sprintf("node %s is not Ready and its runner does not answer; no step is left that can be done without it", s.node.Name)
		}
	}
	// The runner asks for a matched condition, and not whether the node is Ready.
	if s.step(at.step).NeedsMatch() && !evidence.AnyFaulty(proof.matched) && evidence.AnyFaulty(proof.ready) {
		at, _ = s.skipping(at, (*v1alpha1.Step).NeedsMatch)
	}
	return at, ""
}

// following returns the next attempt of the step, or the first one of the next step; false: at,
// since there is none.
func (s *situation) following(at position) (position, bool) {
	switch {
	case at.attempt < s.step(at.step).Attempts:
		return position{at.step, at.attempt + 1}, true
	case s.step(at.step+1) != nil:
		return position{at.step + 1, 1}, true
	default:
		return at, false
	}
}

// withoutRunner returns the first attempt of the next step that needs no runner; false: at,
// since there is none.
func (s *situation) withoutRunner(at position) (position, bool) {
	return s.skipping(at, (*v1alpha1.Step).NeedsRunner)
}

// skipping returns the first attempt of the next step that is not one to skip; false: at, since
// there is none.
func (s *situation) skipping(at position, skip func(*v1alpha1.Step) bool) (position, bool) {
	for number := at.step + 1; s.step(number) != nil; number++ {
		if !skip(s.step(number)) {
			return position{number, 1}, true
		}
	}
	return at, false
}

// attempted returns the record of the attempt at which the status is, if it was executed; nil: it
// is still to be.
func attempted(status *v1alpha1.RemediationStatus) *v1alpha1.ActionRecord {
	last := lastRecord(status)
	if last == nil || !last.Executed || last.Former || last.Step != status.Step || last.Attempt != status.Attempt {
		return nil
	}
	return last
}

// answersAgain reports whether the node did not answer, when an action was given to its runner
// or after a reboot, and is Ready by now.
func (s *situation) answersAgain(status *v1alpha1.RemediationStatus) bool {
	last := lastRecord(status)
	return last != nil && !last.Former && (last.Outcome == v1alpha1.ReasonExpired || last.Outcome == v1alpha1.ReasonNotBack) && !s.notReady()
}

// staysAway reports whether the node was told to reboot and is still not back.
func (s *situation) staysAway(last *v1alpha1.ActionRecord) bool {
	return last.Outcome == v1alpha1.ReasonNotBack && s.notReady()
}

// maxUnanswered is how often an attempt is given to the runner of a node that is not
// Ready before it is given up.
const maxUnanswered = 2

// unanswered reports whether the attempt was tried in vain on a node that is not Ready: nobody
// claimed it.
func (s *situation) unanswered(status *v1alpha1.RemediationStatus, at position) bool {
	if !s.step(at.step).NeedsRunner() || !s.notReady() {
		return false
	}
	last := status.History[max(0, len(status.History)-maxUnanswered):]
	return len(last) == maxUnanswered && !slices.ContainsFunc(last, func(r v1alpha1.ActionRecord) bool {
		return r.Former || r.Outcome != v1alpha1.ReasonExpired || r.Step != at.step || r.Attempt != at.attempt
	})
}
