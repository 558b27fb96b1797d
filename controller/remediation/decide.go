package remediation

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/gates"
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
	// await the claim of the action: it is cancelled if another program has the node by now.
	await
	// recall the action, after the status was written: who has begun it is to stop.
	recall
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
	// recalled is why one is recalled.
	recalled attempt.Recall
	// maintenance is how takeOut and calm want it.
	maintenance v1alpha1.NodeMaintenanceSpec
	// wait is after how long to look again; 0: when something changes.
	wait time.Duration
	// rule is the name of the one that decided.
	rule string
	// proof is what the conditions of the node prove; clear that they are, since clearSince.
	proof      proof
	clear      bool
	clearSince time.Time
	// sighting is what is to be remembered if what says since when is still to come.
	sighting sighting
	// asked is what the gates were asked with, nil if the decision did not depend on
	// them; chain has those that were, and verdict what they said.
	asked   *gates.Input
	chain   []gates.Gate
	verdict gates.Verdict
}

// outcome is how an action ended.
type outcome struct{ reason, message string }

// voided is why an action is cancelled that was created only to take its name.
const voided = "something held it back before it was created"

// Reasons of the Blocked condition beside those of the gates.
const (
	reasonNotBlocked = "None"
	// reasonNoReport: the runner claimed an action and is silent since.
	reasonNoReport = "NoReport"
	// ReasonReleaseRequired says that the node is clear, and a person has to give it back.
	ReasonReleaseRequired = "ReleaseRequired"
)

// decide says what comes next. It is pure. Its rules are asked in their order, and the first one
// that applies decides.
func decide(s situation) decision {
	d := comesNext(s)
	for _, f := range d.proof.matched { // what time alone changes wakes nobody
		if left := f.Due.Sub(s.now); left > 0 && (d.wait == 0 || left < d.wait) {
			d.wait = left
		}
	}
	if s.remediation.Spec.Request != nil && d.status.EndTime == nil && (d.wait == 0 || d.wait > requestRecheck) {
		d.wait = requestRecheck
	}
	return d
}

func comesNext(s situation) decision {
	d := begin(s)
	d.recordFinished(s)
	if decided, is := d.by(s, whateverTheNode()...); is {
		return decided
	}
	d.prove(s)
	if d.status.Action != "" {
		return d.decided(s, underWay()...)
	}
	d.forgetAnnounced(s)
	if decided, is := d.by(s, rule{"released by a person", released}, rule{"former node acted on", formerActs}); is {
		return decided
	}
	if d.clear {
		return d.decided(s, whenClear()...)
	}
	d.startOver(s)
	if decided, is := d.by(s, afterAnAttempt()...); is {
		return decided
	}
	d.moveOn(s)
	d.ask(s)
	return d.decided(s, nextAttempt()...)
}

// rule is what comes next in one kind of situation.
type rule struct {
	// name tells people why a decision was made.
	name string
	// decide returns false if the situation is another one. Then it has changed nothing: d has
	// slices of its caller's.
	decide func(d decision, s situation) (decision, bool)
}

// by returns the decision of the first rule that applies; false: none does.
func (d decision) by(s situation, rules ...rule) (decision, bool) {
	for _, r := range rules {
		if decided, applies := r.decide(d, s); applies {
			decided.rule = r.name
			return decided, true
		}
	}
	return d, false
}

// decided is by, for rules of which one always applies: the last one.
func (d decision) decided(s situation, rules ...rule) decision {
	decided, _ := d.by(s, rules...)
	return decided
}

// otherwise makes a rule that always applies.
func otherwise(name string, decide func(decision, situation) decision) rule {
	return rule{name, func(d decision, s situation) (decision, bool) { return decide(d, s), true }}
}

// begin returns a decision that changes nothing yet.
func begin(s situation) decision {
	d := decision{status: *s.remediation.Status.DeepCopy()}
	if d.status.Step == 0 {
		d.status.Step, d.status.Attempt = 1, 1
		d.set(s.now, v1alpha1.RemediationRecovered, metav1.ConditionUnknown, v1alpha1.ReasonWaiting, "")
	}
	d.boot(s)
	d.noteControlPlane(s)
	d.noteApproval(s)
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

// noteControlPlane remembers whether the node is one of the control plane, for when it is gone.
func (d *decision) noteControlPlane(s situation) {
	if s.node != nil {
		d.status.ControlPlane = ptr.To(fleet.ControlPlane(s.node))
	}
}

// recordFinished moves the action that the status names into the history, once it has finished.
func (d *decision) recordFinished(s situation) {
	if !isTombstone(s.remediation) && d.status.Action != "" && s.attempt != nil && s.attempt.End != nil {
		d.record(s)
	}
}

// prove judges the conditions of the node.
func (d *decision) prove(s situation) {
	d.proof = s.proof(&d.status)
	d.clearSince, d.clear = evidence.AllClear(d.proof.all())
	if !d.clear || s.believed(d.clearSince) {
		return
	}
	if d.sighting = s.sighting; !d.sighting.since.Equal(d.clearSince) {
		d.sighting = sighting{at: s.now, since: d.clearSince}
	}
	d.clearSince = d.sighting.at
	for _, f := range d.proof.all() {
		if s.believed(f.Since) && f.Since.After(d.clearSince) {
			d.clearSince = f.Since
		}
	}
}

func (d decision) input(s situation, findings []evidence.Finding) gates.Input {
	remediation := *s.remediation
	remediation.Status = d.status
	return gates.Input{
		Remediation: &remediation, Node: s.node, Policy: s.policy, Findings: findings, Budgets: s.budgets,
		Past: s.past, Former: s.predecessors, Maintenance: s.maintenance, Maintenances: s.held, Ahead: s.ahead, ControlPlane: s.controlPlane, Now: s.now,
	}
}

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
