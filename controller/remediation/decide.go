package remediation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/internal/deadline"
)

// effect is what a decision wants done besides writing the status.
type effect int

const (
	// nothing but writing the status.
	nothing effect = iota
	// start: take the permits, write the status, create the action it names.
	start
	// create the action that the status already names.
	create
	// void takes the name of the action that the status already names, by an
	// action that has expired: an earlier create of it may still be on its way.
	void
	// cancel the action unless a runner has claimed it.
	cancel
	// release the permits, after the status was written.
	release
	// takeOut: take the permits, write the status, create the maintenance that it
	// names, or change it.
	takeOut
	// calm changes the maintenance, after the status was written, so that nothing more
	// is evicted.
	calm
)

// decision is the outcome: a new status, what to do, and when to look again.
type decision struct {
	status v1alpha1.RemediationStatus
	effect effect
	// cancelled is why an action is cancelled, as its Finished condition says.
	cancelled outcome
	// maintenance is how takeOut and calm want it.
	maintenance v1alpha1.NodeMaintenanceSpec
	// wait is after how long to look again; 0: when something changes.
	wait time.Duration
	// asked is what the gates were asked with, nil if the decision did not depend on
	// them; chain has those that were.
	asked *gates.Input
	chain []gates.Gate
}

// outcome is how an action ended.
type outcome struct{ reason, message string }

// voided is why an action is cancelled that was created only to take its name.
const voided = "something held it back before it was created"

// voidExpiry is when an action expires that no runner may claim.
var voidExpiry = time.Unix(1, 0)

// Reasons of the Blocked condition beside those of the gates.
const (
	reasonNotBlocked = "None"
	// reasonNoReport: the runner claimed an action and is silent since.
	reasonNoReport = "NoReport"
	// ReasonReleaseRequired says that the node is clear, and a person has to give it back.
	ReasonReleaseRequired = "ReleaseRequired"
)

// decide says what comes next. It is pure.
func decide(s situation) decision {
	d := begin(s)
	if isTombstone(s.remediation) {
		return d.ended(s.now, metav1.ConditionUnknown, v1alpha1.ReasonDeleted, deletedMessage(s.remediation))
	}
	if d.status.Action != "" && s.action != nil && s.action.Finished() != nil {
		d.record(s)
	}
	if other := s.duplicated(); other != nil && d.status.Action == "" && d.status.Maintenance == "" {
		return d.ended(s.now, metav1.ConditionUnknown, v1alpha1.ReasonDuplicate,
			fmt.Sprintf("remediation %s of the same node and policy was open already", other.Name))
	}
	if until := s.mayRunUntil(&d.status); d.status.Action == "" && until.After(s.now) {
		return d.stillRunning(s.now, until)
	}
	switch {
	case s.node == nil:
		return d.over(s, v1alpha1.ReasonNodeGone, "the node was deleted or replaced")
	case s.remediation.DeletionTimestamp != nil:
		return d.over(s, v1alpha1.ReasonDeleted, deletedMessage(s.remediation))
	case s.step(d.status.Step) == nil:
		return d.exhausted(s.now, allInVain) // somebody has written a status of their own
	}
	proof := s.proof(&d.status)
	since, isClear := evidence.AllClear(proof.all())
	if d.status.Action != "" {
		return d.underway(s, proof.all(), isClear)
	}
	d.forgetAnnounced(s)
	if d.releasedByAPerson(s) {
		if !isClear {
			return d.ended(s.now, metav1.ConditionFalse, v1alpha1.ReasonReleased,
				fmt.Sprintf("a person has deleted maintenance %s, which gives node %s back", s.remediation.Status.Maintenance, s.node.Name))
		}
		d.status.Maintenance = ""
	}
	if isClear {
		return d.healing(s, since)
	}
	return d.next(s, proof)
}

// begin returns a decision that changes nothing yet.
func begin(s situation) decision {
	d := decision{status: *s.remediation.Status.DeepCopy()}
	if d.status.Step == 0 {
		d.status.Step, d.status.Attempt = 1, 1
		d.set(s.now, v1alpha1.RemediationRecovered, metav1.ConditionUnknown, v1alpha1.ReasonWaiting, "")
	}
	d.boot(s)
	return d
}

// boot remembers that the node has booted: it may have done so by itself.
func (d *decision) boot(s situation) {
	if s.node == nil {
		return
	}
	bootID := s.node.Status.NodeInfo.BootID
	if bootID == "" || bootID == d.status.BootID {
		return
	}
	if d.status.BootID != "" {
		d.status.BootedAt = &metav1.Time{Time: s.now}
	}
	d.status.BootID = bootID
}

// over ends a remediation that ends whatever the state of its node, once nothing
// runs any more: a node that was deleted may live on as a machine.
func (d decision) over(s situation, reason, message string) decision {
	switch {
	case d.status.Action == "":
	case s.action == nil && d.progress() == v1alpha1.ReasonStarting && s.step(d.status.Step) != nil:
		d.effect = void
		return d
	case s.action == nil:
		return d.lost(s)
	case s.action.Status.Claim == nil:
		d.effect = cancel
		d.cancelled = outcome{v1alpha1.ReasonCancelled, message}
		return d
	default:
		if until := deadline.Over(s.action); until.After(s.now) {
			return d.stillRunning(s.now, until)
		}
		d.recordUnreported(s, outcome{v1alpha1.ReasonInterrupted, "the runner that claimed it never reported"})
	}
	if reason == v1alpha1.ReasonDeleted && s.maintenance != nil && s.maintenance.DeletionTimestamp == nil && !s.cameBack() && s.sick(&d.status) {
		return d.leftBehind(s, reason, message)
	}
	return d.ended(s.now, metav1.ConditionUnknown, reason, message)
}

// lost remembers that somebody has deleted the action that is under way.
func (d decision) lost(s situation) decision {
	d.recordUnreported(s, outcome{v1alpha1.ReasonLost, "the NodeAction was deleted while it was under way"})
	d.wait = time.Second
	return d
}

// underway waits for the action that the status names.
func (d decision) underway(s situation, findings []evidence.Finding, isClear bool) decision {
	name := d.status.Action
	switch {
	case s.action == nil && d.progress() != v1alpha1.ReasonStarting:
		return d.lost(s)
	case s.action == nil && (isClear || d.backInService(s) || d.ask(s, findings, gates.Chain()).Held()):
		d.effect = void
	case s.action == nil:
		d.effect = create
	case s.action.Status.Claim != nil:
		d.progressing(s.now, v1alpha1.ReasonActing, fmt.Sprintf("runner executes %s", name))
		if d.wait = deadline.Over(s.action).Sub(s.now); d.wait > 0 {
			d.unblocked(s.now)
			return d
		}
		d.wait = 0
		if d.rebooted(s) {
			d.wait = time.Second
			return d
		}
		if isClear || d.retryAsked(s) {
			return d.unreported(s)
		}
		return d.blocked(s.now, gates.Verdict{
			Reason:  reasonNoReport,
			Message: fmt.Sprintf("the runner claimed %s at %s and has not reported since", name, clockTime(s.action.Status.Claim.Time.Time)),
		})
	case isVoid(s.action):
		d.effect = cancel
		d.cancelled = outcome{v1alpha1.ReasonCancelled, voided}
	case isClear:
		d.effect = cancel
		d.cancelled = outcome{v1alpha1.ReasonCancelled, "the condition cleared before a runner claimed the action"}
	case d.backInService(s):
		d.effect = cancel
		d.cancelled = outcome{v1alpha1.ReasonCancelled, "the node was given back, or pods came to it, before a runner claimed the action"}
	case gates.Paused(d.input(s, findings)).Held():
		d.effect = cancel
		d.cancelled = outcome{v1alpha1.ReasonCancelled, gates.Paused(d.input(s, findings)).Message}
	default:
		d.progressing(s.now, v1alpha1.ReasonActing, fmt.Sprintf("action %s waits for the runner on the node", name))
		d.unblocked(s.now)
		if d.wait = deadline.Claimable(s.action).Sub(s.now); d.wait <= 0 {
			d.wait = 0
			d.effect = cancel
			d.cancelled = outcome{v1alpha1.ReasonExpired, fmt.Sprintf("no runner on the node claimed the action within %s", deadline.ClaimTime)}
		}
	}
	return d
}

// unreported gives up the report of a runner, unless the node was away until just now: its
// detector may have been faster.
func (d decision) unreported(s situation) decision {
	left := s.lateReport()
	if d.blockedBy() == reasonNoReport {
		left = deadline.ReportGrace
	} else if c := meta.FindStatusCondition(d.status.Conditions, v1alpha1.RemediationBlocked); c != nil {
		left = max(left, c.LastTransitionTime.Add(deadline.ReportGrace).Sub(s.now))
	}
	if left > 0 && !d.retryAsked(s) {
		d.progressing(s.now, v1alpha1.ReasonActing, fmt.Sprintf("the node is clear; the runner may still report on %s", d.status.Action))
		d.unblocked(s.now)
		d.effect, d.wait = release, left
		return d
	}
	d.recordUnreported(s, outcome{v1alpha1.ReasonInterrupted, "the runner that claimed it never reported"})
	d.wait = time.Second
	return d
}

// healing waits until the node was clear for long enough, then ends.
func (d decision) healing(s situation, since time.Time) decision {
	if left := since.Add(s.remediation.Spec.Recovery.HealthyFor.Duration).Sub(s.now); left > 0 {
		d.progressing(s.now, v1alpha1.ReasonHealing, "the node is clear since "+clockTime(since))
		d.unblocked(s.now)
		d.wait = left
		return d.calmed(s)
	}
	if s.remediation.Spec.Recovery.Release == v1alpha1.ReleaseManual && s.maintenance != nil && d.status.Maintenance != "" {
		d.progressing(s.now, v1alpha1.ReasonHealing, "the node is clear since "+clockTime(since))
		return d.blocked(s.now, gates.Verdict{
			Reason:  ReasonReleaseRequired,
			Message: fmt.Sprintf("the policy leaves it to a person to give the node back: kubectl delete nodemaintenance %s", d.status.Maintenance),
		}).calmed(s)
	}
	if lastActed(&d.status) != nil {
		return d.ended(s.now, metav1.ConditionTrue, v1alpha1.ReasonRecovered,
			fmt.Sprintf("clear since %s", clockTime(since)))
	}
	return d.ended(s.now, metav1.ConditionTrue, v1alpha1.ReasonRecoveredByItself,
		fmt.Sprintf("clear since %s, no action was executed", clockTime(since)))
}

// next verifies the last action, moves on to the next attempt or step, and
// starts it when no gate holds.
func (d decision) next(s situation, proof proof) decision {
	d.startOver(s)
	if d.progress() == v1alpha1.ReasonExhausted {
		// Again, for a controller that stopped right after it wrote the status.
		d.effect = release
		if d.status.Maintenance != "" {
			d.wait = parkedRecheck
		}
		return d
	}
	if last := lastRecord(&d.status); last != nil && last.Executed && !last.Former &&
		last.Step == d.status.Step && last.Attempt == d.status.Attempt {
		verifyUntil := last.FinishedAt.Add(s.step(d.status.Step).VerifyTimeout.Duration)
		switch left := verifyUntil.Sub(s.now); {
		case s.step(d.status.Step).Maintenance != nil:
			return d.parked(s)
		case last.Outcome == v1alpha1.ReasonNotBack:
			if !d.advanceWithoutRunner(s) {
				return d.exhausted(s.now, last.Message+"; no step is left that can be done without it")
			}
		case left > 0:
			d.progressing(s.now, v1alpha1.ReasonVerifying, fmt.Sprintf("%s: %s; waiting for the condition to clear until %s",
				last.Outcome, last.Message, clockTime(verifyUntil)))
			d.unblocked(s.now)
			d.wait = left
			return d
		case !evidence.AnyFaulty(proof.all()):
			return d.blocked(s.now, gates.Evidence(gates.Input{Findings: proof.all()}))
		case !d.advance(s):
			return d.exhausted(s.now, allInVain)
		}
	}
	if s.unanswered(&d.status) && !d.advanceWithoutRunner(s) {
		return d.exhausted(s.now, fmt.Sprintf("node %s is not Ready and its runner does not answer; no step is left that can be done without it", s.node.Name))
	}
	// The runner asks for a matched condition, and not whether the node is Ready.
	if s.step(d.status.Step).NeedsRunner() && !evidence.AnyFaulty(proof.matched) && evidence.AnyFaulty(proof.ready) {
		d.advanceWithoutRunner(s)
	}
	step, findings := s.step(d.status.Step), proof.all()
	if step.NeedsRunner() {
		findings = proof.matched
	}
	chain := gates.Chain()
	if d.draining(s) {
		chain = gates.DuringDrain()
	}
	if verdict := d.ask(s, findings, chain); verdict.Held() {
		d.progressing(s.now, v1alpha1.ReasonWaiting, fmt.Sprintf("step %d, attempt %d is next", d.status.Step, d.status.Attempt))
		return d.blocked(s.now, verdict).calmed(s)
	}
	if step.Disruptive() {
		if taking, isIn := d.takeOut(s); isIn {
			return taking
		}
	}
	d.unblocked(s.now)
	d.status.Actions++
	d.status.Action = actionName(s.remediation, d.status.Actions)
	d.progressing(s.now, v1alpha1.ReasonStarting, fmt.Sprintf("starting %s", d.status.Action))
	d.effect = start
	return d
}

// ask asks these gates whether the attempt that is next may start.
func (d *decision) ask(s situation, findings []evidence.Finding, chain []gates.Gate) gates.Verdict {
	in := d.input(s, findings)
	d.asked, d.chain = &in, chain
	return gates.First(in, chain)
}

func (d decision) input(s situation, findings []evidence.Finding) gates.Input {
	remediation := *s.remediation
	remediation.Status = d.status
	return gates.Input{
		Remediation: &remediation, Node: s.node, Policy: s.policy, Findings: findings, Budgets: s.budgets,
		Past: s.past, Maintenances: s.held, Ahead: s.ahead, ControlPlane: s.controlPlane, Now: s.now,
	}
}

// advance moves to the next attempt or step; false when there is none.
func (d *decision) advance(s situation) bool {
	switch {
	case d.status.Attempt < s.step(d.status.Step).Attempts:
		d.status.Attempt++
	case int(d.status.Step) < len(s.remediation.Spec.Steps):
		d.status.Step, d.status.Attempt = d.status.Step+1, 1
	default:
		return false
	}
	return true
}

// isVoid reports whether the action was created only to take its name.
func isVoid(action *v1alpha1.NodeAction) bool { return !action.Spec.ExpiresAt.After(voidExpiry) }

// actionName is the name of the n-th action of a remediation. The UID is part
// of it: a remediation that was deleted and re-created starts over.
func actionName(r *v1alpha1.Remediation, n int32) string {
	sum := sha256.Sum256([]byte(r.UID))
	return fmt.Sprintf("%s-%s-%d", r.Name, hex.EncodeToString(sum[:3]), n)
}

func (d *decision) progress() string {
	return (&v1alpha1.Remediation{Status: d.status}).State()
}

func (d *decision) blockedBy() string {
	return (&v1alpha1.Remediation{Status: d.status}).BlockedBy()
}
