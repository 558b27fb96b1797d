package remediation

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/gates"
)

// afterAnAttempt are the rules for what was done last, on a node that is not clear.
func afterAnAttempt() []rule {
	return []rule{
		{"exhausted", stillExhausted},
		{"in maintenance", inMaintenance},
		{"verifying", verifying},
		{"not proved", notProved},
		{"no step is left", noStepLeft},
	}
}

// nextAttempt are the rules for the attempt that is next.
func nextAttempt() []rule {
	return []rule{
		{"gate holds", heldByGate},
		{"an earlier maintenance ends", earlierMaintenance},
		{"take out", takeOutOfService},
		{"change the maintenance", changeMaintenance},
		{"taken out", takenOut},
		{"drain aborted", drainAborted},
		{"draining", drains},
		otherwise("start", startAction),
	}
}

// formerActs waits for an action that was begun for a former node of this name and is not known
// to be over. It may still run on the same host, and until it ends nothing counts as evidence.
func formerActs(d decision, s situation) (decision, bool) {
	i := slices.IndexFunc(s.predecessors, func(r v1alpha1.Remediation) bool { return !r.Ended() && r.Status.Action != "" })
	if i < 0 {
		return d, false
	}
	d.progressing(s.now, v1alpha1.ReasonWaiting, fmt.Sprintf("step %d, attempt %d is next", d.status.Step, d.status.Attempt))
	return d.blocked(s.now, gates.Verdict{
		Reason: gates.ReasonNoEvidence, Recheck: gates.EvidenceRecheck,
		Message: fmt.Sprintf("action %s may still be running, which remediation %s began for a former node of this name",
			s.predecessors[i].Status.Action, s.predecessors[i].Name),
	}).calmed(s), true
}

// stillExhausted releases the permits again, since a controller may have stopped right after it
// wrote the status. If the node had not answered, the remediation goes on once the node is Ready,
// unless somebody else does by now.
func stillExhausted(d decision, s situation) (decision, bool) {
	if d.status.Phase() != v1alpha1.PhaseExhausted || s.answersAgain(&d.status) && !s.concluded(&d.status) {
		return d, false
	}
	return d.rests(), true
}

// inMaintenance is for a node that is out of service, after the step that nothing follows. A person
// may have given it back while it was clear.
func inMaintenance(d decision, s situation) (decision, bool) {
	if attempted(&d.status) == nil || !s.step(d.status.Step).Final() || d.status.Maintenance == "" {
		return d, false
	}
	return d.parked(s), true
}

func verifying(d decision, s situation) (decision, bool) {
	last := attempted(&d.status)
	if last == nil || s.staysAway(last) {
		return d, false
	}
	until := last.FinishedAt.Add(s.step(d.status.Step).VerifyTimeout.Duration)
	if !until.After(s.now) {
		return d, false
	}
	d.progressing(s.now, v1alpha1.ReasonVerifying, fmt.Sprintf("%s: %s; waiting for the condition to clear until %s",
		last.Outcome, last.Message, clockTime(until)))
	d.unblocked(s.now)
	d.wait = until.Sub(s.now)
	return d, true
}

// notProved is for an attempt of which nothing proves that it was in vain.
func notProved(d decision, s situation) (decision, bool) {
	last := attempted(&d.status)
	if last == nil || s.staysAway(last) || evidence.AnyFaulty(d.proof.all()) {
		return d, false
	}
	if d.progress() == v1alpha1.ReasonHealing {
		d.progressing(s.now, v1alpha1.ReasonVerifying, fmt.Sprintf("%s: %s", last.Outcome, last.Message))
	}
	return d.blocked(s.now, gates.Evidence(gates.Input{Findings: d.proof.all()})), true
}

func noStepLeft(d decision, s situation) (decision, bool) {
	_, why := s.next(&d.status, d.proof)
	if why == "" {
		return d, false
	}
	return d.exhausted(s.now, why), true
}

func heldByGate(d decision, s situation) (decision, bool) {
	if !d.verdict.Held() {
		return d, false
	}
	d.progressing(s.now, v1alpha1.ReasonWaiting, fmt.Sprintf("step %d, attempt %d is next", d.status.Step, d.status.Attempt))
	return d.blocked(s.now, d.verdict).calmed(s), true
}

// earlierMaintenance is for one of an earlier step: its node is being given back.
func earlierMaintenance(d decision, s situation) (decision, bool) {
	if !s.step(d.status.Step).Disruptive() || d.status.Maintenance != "" || len(s.strays) == 0 {
		return d, false
	}
	d.unblocked(s.now)
	d.progressing(s.now, v1alpha1.ReasonWaiting, "waiting for maintenance "+s.strays[0].Name+" to end")
	d.effect = release
	return d, true
}

func takeOutOfService(d decision, s situation) (decision, bool) {
	step := s.step(d.status.Step)
	if !step.Disruptive() || d.status.Maintenance != "" {
		return d, false
	}
	d.unblocked(s.now)
	d.status.Maintenance = maintenanceName(s.remediation)
	if m := s.maintenance; m != nil && m.DeletionTimestamp == nil { // it came back
		d.status.Maintenance = m.Name
	}
	d.progressing(s.now, v1alpha1.ReasonStarting, "starting maintenance "+d.status.Maintenance)
	d.effect, d.maintenance = takeOut, s.wanted(step)
	return d, true
}

func changeMaintenance(d decision, s situation) (decision, bool) {
	step := s.step(d.status.Step)
	if !step.Disruptive() || equality.Semantic.DeepEqual(s.maintenance.Spec, s.wanted(step)) {
		return d, false
	}
	if !s.drainStuck() {
		d.unblocked(s.now)
	}
	d.progressing(s.now, v1alpha1.ReasonTakingOut, "maintenance "+s.maintenance.Name)
	d.effect, d.maintenance = takeOut, s.wanted(step)
	return d, true
}

// takenOut ends an attempt that is a maintenance.
func takenOut(d decision, s situation) (decision, bool) {
	step := s.step(d.status.Step)
	if step.Kind().Executor != v1alpha1.ExecutorMaintenance || !s.maintenance.Drained() {
		return d, false
	}
	d.append(s, v1alpha1.ActionRecord{
		Action: s.maintenance.Name, Step: d.status.Step, Attempt: d.status.Attempt, Executed: true,
		Outcome: v1alpha1.ReasonSucceeded, Message: head(s.drain().Message),
	})
	return d.parked(s), true
}

func drainAborted(d decision, s situation) (decision, bool) {
	drain := s.drain()
	if !s.step(d.status.Step).Disruptive() || s.maintenance.Drained() || drain.Reason != v1alpha1.ReasonDrainAborted {
		return d, false
	}
	d.unblocked(s.now)
	d.append(s, v1alpha1.ActionRecord{
		Action: s.maintenance.Name, Step: d.status.Step, Attempt: d.status.Attempt,
		Outcome: v1alpha1.ReasonDrainAborted, Message: head(drain.Message),
	})
	d.status.Maintenance = ""
	d.progressing(s.now, v1alpha1.ReasonWaiting, "the drain took too long, the node is given back")
	d.effect, d.wait = release, time.Second
	return d, true
}

// drains waits for the node to be out of service.
func drains(d decision, s situation) (decision, bool) {
	if !s.step(d.status.Step).Disruptive() || s.maintenance.Drained() {
		return d, false
	}
	drain := s.drain()
	d.progressing(s.now, v1alpha1.ReasonTakingOut, head(fmt.Sprintf("maintenance %s: %s", s.maintenance.Name, drain.Message)))
	if s.drainStuck() {
		// It may take for ever, and others need the permit. The drain goes on.
		return d.blocked(s.now, gates.Verdict{Reason: "Drain" + drain.Reason, Message: head(drain.Message)}), true
	}
	d.unblocked(s.now)
	return d, true
}

func startAction(d decision, s situation) decision {
	d.unblocked(s.now)
	d.status.Actions++
	d.status.Action = actionName(s.remediation, d.status.Actions)
	d.progressing(s.now, v1alpha1.ReasonStarting, fmt.Sprintf("starting %s", d.status.Action))
	d.effect = start
	return d
}

// moveOn goes to the attempt that is next.
func (d *decision) moveOn(s situation) {
	at, _ := s.next(&d.status, d.proof)
	d.status.Step, d.status.Attempt = at.step, at.attempt
	if d.status.Phase() == v1alpha1.PhaseExhausted { // no longer: the node answers again
		d.set(s.now, v1alpha1.RemediationRecovered, metav1.ConditionUnknown, v1alpha1.ReasonWaiting, "")
	}
}

// ask asks the gates whether the attempt may start.
func (d *decision) ask(s situation) {
	findings, chain := d.proof.all(), gates.Chain()
	if s.step(d.status.Step).NeedsMatch() {
		findings = d.proof.matched
	}
	if d.draining(s) {
		chain = gates.DuringDrain()
	}
	in := d.input(s, findings)
	d.asked, d.chain, d.verdict = &in, chain, gates.First(in, chain)
}
