package remediation

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/attempt"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/internal/deadline"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }

func seconds(n int) v1alpha1.Duration {
	return v1alpha1.Duration{Duration: time.Duration(n) * time.Second}
}

// incident is a remediation of two steps, the first with two attempts, on a
// node whose fault is confirmed; options change it.
func incident(options ...func(*situation)) situation {
	steps := []v1alpha1.Step{
		{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/first"}}, Timeout: seconds(10), VerifyTimeout: seconds(60), Attempts: 2},
		{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/second"}}, Timeout: seconds(10), VerifyTimeout: seconds(60), Attempts: 1},
	}
	match := []v1alpha1.ConditionMatch{{Type: "Sick", Status: "True"}}
	policy := v1alpha1.PolicyReference{Name: "p", UID: "policy-uid"}
	s := situation{
		now: now,
		remediation: &v1alpha1.Remediation{
			ObjectMeta: metav1.ObjectMeta{Name: "n1-0123", UID: "remediation-uid"},
			Spec: v1alpha1.RemediationSpec{
				NodeName: "n1", NodeUID: "node-uid", Policy: policy, Match: match, Steps: steps,
				Recovery: v1alpha1.Recovery{HealthyFor: seconds(30)},
			},
		},
		node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid", Labels: map[string]string{}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
				{Type: "Sick", Status: "True", LastHeartbeatTime: ago(time.Second), LastTransitionTime: ago(time.Hour)},
			}},
		},
		policy: &v1alpha1.RemedyPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: policy.Name, UID: policy.UID},
			Spec:       v1alpha1.RemedyPolicySpec{Match: match, Steps: steps},
		},
		budgets: []v1alpha1.RemediationBudget{{
			ObjectMeta: metav1.ObjectMeta{Name: "all"},
			Spec:       v1alpha1.RemediationBudgetSpec{MaxConcurrent: ptr.To(intstr.FromInt32(1))},
			Status: v1alpha1.RemediationBudgetStatus{Groups: map[string]v1alpha1.BudgetGroup{
				v1alpha1.UngroupedNodes: {Limit: ptr.To[int32](1)},
			}},
		}},
	}
	for _, option := range options {
		option(&s)
	}
	return s
}

func condition(status corev1.ConditionStatus, heartbeat, transition time.Duration) func(*situation) {
	return func(s *situation) {
		c := &s.node.Status.Conditions[0]
		c.Status, c.LastHeartbeatTime, c.LastTransitionTime = status, ago(heartbeat), ago(transition)
	}
}

func at(step, number int32) func(*situation) {
	return func(s *situation) { s.remediation.Status.Step, s.remediation.Status.Attempt = step, number }
}

func progress(reason string) func(*situation) {
	return func(s *situation) {
		meta.SetStatusCondition(&s.remediation.Status.Conditions, metav1.Condition{
			Type: v1alpha1.RemediationProgressing, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: ago(0)})
	}
}

// history adds a record for the current step and attempt.
func history(outcome string, finished time.Duration) func(*situation) {
	return func(s *situation) {
		status := &s.remediation.Status
		status.Actions++
		status.History = append(status.History, v1alpha1.ActionRecord{
			Action: "earlier", Step: status.Step, Attempt: status.Attempt, Outcome: outcome,
			Executed: v1alpha1.Executed(outcome), FinishedAt: ago(finished),
		})
	}
}

// underway makes an action that was created this long ago the current one.
func underway(age time.Duration, change ...func(*v1alpha1.NodeAction)) func(*situation) {
	return func(s *situation) {
		status := &s.remediation.Status
		status.Actions++
		status.Action = actionName(s.remediation, status.Actions)
		action := &v1alpha1.NodeAction{
			ObjectMeta: metav1.ObjectMeta{Name: status.Action},
			Spec: v1alpha1.NodeActionSpec{
				Remediation: s.remediation.Name, RemediationUID: s.remediation.UID,
				Step: status.Step, Attempt: status.Attempt,
				Timeout: seconds(10), ExpiresAt: metav1.NewTime(now.Add(deadline.ClaimTime - age)),
			},
		}
		for _, c := range change {
			c(action)
		}
		s.attempt = actionTells(action)
	}
}

// actionTells returns what an action tells.
func actionTells(action *v1alpha1.NodeAction) *attempt.Attempt {
	a := attempt.By(nil).Tell(action)
	return &a
}

// acted returns the action that is under way.
func acted(s *situation) *v1alpha1.NodeAction {
	return s.attempt.Object.(*v1alpha1.NodeAction) //nolint:forcetypeassert // a panic is a failed test
}

// acts changes the action that is under way.
func acts(s *situation, change func(*v1alpha1.NodeAction)) {
	change(acted(s))
	s.attempt = actionTells(acted(s))
}

func claimed(age time.Duration) func(*v1alpha1.NodeAction) {
	return func(a *v1alpha1.NodeAction) { a.Status.Claim = &v1alpha1.Claim{Time: ago(age)} }
}

func finished(reason string, age time.Duration) func(*v1alpha1.NodeAction) {
	return func(a *v1alpha1.NodeAction) {
		meta.SetStatusCondition(&a.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ActionFinished, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: ago(age)})
	}
}

// killed adds the action of a record, claimed so long ago that it is over.
func killed(name string) func(*situation) {
	return func(s *situation) {
		s.others = append(s.others, *actionTells(&v1alpha1.NodeAction{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.NodeActionSpec{Timeout: seconds(10), ExpiresAt: ago(time.Hour)},
			Status:     v1alpha1.NodeActionStatus{Claim: &v1alpha1.Claim{Time: ago(time.Hour)}},
		}))
	}
}

// blockedBy makes the remediation blocked for a reason since this long, or not if it is "".
func blockedBy(reason string, since time.Duration) func(*situation) {
	return func(s *situation) {
		d := decision{status: s.remediation.Status}
		d.unblocked(ago(since).Time)
		if reason != "" {
			d = d.blocked(ago(since).Time, gates.Verdict{Reason: reason})
		}
		s.remediation.Status = d.status
	}
}

// former adds an action of a remediation that had the same name.
func former(change ...func(*v1alpha1.NodeAction)) func(*situation) {
	return func(s *situation) {
		a := v1alpha1.NodeAction{Spec: v1alpha1.NodeActionSpec{
			Remediation: s.remediation.Name, RemediationUID: "former", Timeout: seconds(10), ExpiresAt: ago(0),
		}}
		for _, c := range change {
			c(&a)
		}
		s.others = append(s.others, *actionTells(&a))
	}
}

// other adds an action of another remediation of the node.
func other(change ...func(*v1alpha1.NodeAction)) func(*situation) {
	return func(s *situation) {
		former(change...)(s)
		s.others[len(s.others)-1].Remediation = "other"
	}
}

func slowClock(a *v1alpha1.NodeAction) {
	a.Status.Claim.Time = metav1.NewTime(a.Status.Claim.Time.Add(-10 * time.Minute))
	for i := range a.Status.Conditions {
		c := &a.Status.Conditions[i]
		c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Add(-10 * time.Minute))
	}
}

func readyFor(age time.Duration) func(*situation) {
	return func(s *situation) {
		s.node.Status.Conditions = append(s.node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: ago(time.Second), LastTransitionTime: ago(age)})
	}
}

func isVoided(a *v1alpha1.NodeAction) { a.Spec.ExpiresAt = metav1.NewTime(time.Unix(1, 0)) }
func expired(a *v1alpha1.NodeAction)  { a.Spec.ExpiresAt = ago(time.Hour) }
func stepOutOfRange(s *situation)     { s.remediation.Status.Step = 99 }
func deselected(s *situation) {
	s.policy.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "others"}}
}
func deleted(s *situation)        { s.attempt = nil }
func excluded(s *situation)       { s.node.Labels[v1alpha1.ExcludeLabel] = "true" }
func nodeGone(s *situation)       { s.node = nil }
func policyDeleted(s *situation)  { s.policy = nil }
func policyReplaced(s *situation) { s.policy.UID = "another" }
func withoutBudget(s *situation)  { s.budgets = nil }
func withCooldown(s *situation) {
	s.policy.Spec.Cooldown = &v1alpha1.Duration{Duration: 2 * time.Minute}
}
func pastOf(r v1alpha1.Remediation) func(*situation) {
	return func(s *situation) { s.past = append(s.past, r) }
}

// ofPredecessor makes the other remediations those of former nodes of the name.
func ofPredecessor(s *situation) { s.past, s.predecessors = nil, s.past }

// pastActed adds another remediation of the policy that acted and ended this long ago.
func pastActed(age time.Duration) func(*situation) {
	past := incident(at(1, 1), history("Succeeded", age)).remediation
	past.Name, past.Status.EndTime = "past", ptr.To(ago(age))
	return pastOf(*past)
}

// pastInterrupted adds another remediation whose last action was interrupted this long ago.
func pastInterrupted(age time.Duration) func(*situation) {
	past := incident(at(1, 1), history("Interrupted", age)).remediation
	past.Name, past.UID, past.Spec.Policy.UID = "past", "past-uid", "another-policy"
	return pastOf(*past)
}

// predecessorActing adds the remediation of a former node of the name, which has an action under
// way.
func predecessorActing(s *situation) {
	r := incident(at(1, 1), underway(time.Hour)).remediation
	r.Name, r.UID, r.Spec.NodeUID = "former", "former-uid", "former-node"
	s.predecessors = append(s.predecessors, *r)
}

func policyEdited(s *situation) {
	s.policy.Spec.Steps = []v1alpha1.Step{{Command: &v1alpha1.CommandRemedy{Argv: []string{"/bin/edited"}}}}
}
func brokenBudget(s *situation) {
	s.budgets[0].Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a b"}}
}
func largeBudget(s *situation) { s.budgets[0].Spec.MaxConcurrent = ptr.To(intstr.FromInt32(10)) }
func budgetHeldBy(remediation, node string) func(*situation) {
	return func(s *situation) {
		s.budgets[0].Status.Groups = map[string]v1alpha1.BudgetGroup{v1alpha1.UngroupedNodes: {Permits: map[string]v1alpha1.Permit{node: {Remediation: remediation}}}}
	}
}

// next is a case of what is decided.
type next struct {
	name    string
	s       situation
	effect  effect
	state   string // the reason of Progressing
	blocked string // the reason of Blocked, "" when it is not
	step    int32
	attempt int32
	wait    time.Duration
}

func TestWhatComesNext(t *testing.T) {
	decideAll(t, []next{
		{"a confirmed fault starts the first step", incident(), start, "Starting", "", 1, 1, 0},
		{"an excluded node is left alone", incident(excluded), release, "Waiting", "Excluded", 1, 1, 0},
		{"a node without a budget is left alone", incident(withoutBudget), release, "Waiting", "NoBudget", 1, 1, 0},
		{"a budget whose selector cannot be read holds", incident(brokenBudget), release, "Waiting", "BudgetInvalid", 1, 1, time.Minute},
		{"a full budget holds", incident(budgetHeldBy("other", "n2")), release, "Waiting", "BudgetExhausted", 1, 1, time.Minute},
		{"a permit held already does not hold", incident(budgetHeldBy("n1-0123", "n1")), start, "Starting", "", 1, 1, 0},
		{"the node's permit held by another remediation holds, even if others are left", incident(budgetHeldBy("other", "n1"), largeBudget), release, "Waiting", "BudgetExhausted", 1, 1, time.Minute},
		{"the node's permit held by another remediation holds", incident(budgetHeldBy("other", "n1")), release, "Waiting", "BudgetExhausted", 1, 1, time.Minute},
		{"a deleted policy holds", incident(policyDeleted), release, "Waiting", "Superseded", 1, 1, 0},
		{"a replaced policy holds", incident(policyReplaced), release, "Waiting", "Superseded", 1, 1, 0},
		{"an edited step holds", incident(policyEdited), release, "Waiting", "Superseded", 1, 1, 0},
		{"a policy that no longer selects the node holds", incident(deselected), release, "Waiting", "Superseded", 1, 1, 0},
		{"a status that somebody has made up is not acted on", incident(at(1, 1), stepOutOfRange), release, "Exhausted", "", 99, 1, 0},
		{"a report from before another remediation's action ended holds", incident(other(finished("Succeeded", 0))), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"also if its runner's clock is a little ahead", incident(other(finished("Succeeded", -2*time.Second)), condition("True", 0, time.Hour)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"a report from while an interrupted action of a former node of the name may still run holds", incident(other(claimed(20*time.Second), finished("Interrupted", 10*time.Second)), condition("True", 5*time.Second, time.Hour)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"a report from while another's interrupted action may still have run holds", incident(pastInterrupted(80*time.Second), condition("True", 20*time.Second, time.Hour)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"also one of a former node of the name", incident(pastInterrupted(80*time.Second), ofPredecessor, condition("True", 20*time.Second, time.Hour)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"no report counts while an action of a former node of the name is not known to be over", incident(predecessorActing), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"nor as recovery", incident(predecessorActing, condition("False", time.Second, time.Hour)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"a report from after that does not", incident(pastInterrupted(80*time.Second), condition("True", 5*time.Second, time.Hour)), start, "Starting", "", 1, 1, 0},
		{"what runs for a former remediation of the name is waited for", incident(former(claimed(0))), nothing, "Waiting", "StillRunning", 1, 1, 100 * time.Second},
		{"even when the node is clear", incident(former(claimed(0)), condition("False", time.Second, time.Hour)), nothing, "Waiting", "StillRunning", 1, 1, 100 * time.Second},
		{"what was reported before that is over says nothing", incident(former(claimed(100*time.Second), expired)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"but it is not waited for for ever", incident(former(claimed(102*time.Second), expired)), start, "Starting", "", 1, 1, 0},
		{"the cooldown after another remediation of the policy holds", incident(withCooldown, pastActed(time.Minute)), release, "Waiting", "Cooldown", 1, 1, time.Minute},
		{"the last permit is left to who comes first", incident(func(s *situation) { s.ahead = map[string]int{"all": 1} }), release, "Waiting", "BudgetExhausted", 1, 1, time.Second},
		{"one node of the control plane at a time", incident(func(s *situation) { s.controlPlane = &gates.ControlPlane{Nodes: 3, ReadyOthers: 2, ActingOn: "n2"} }), release, "Waiting", "ControlPlane", 1, 1, time.Minute},
		{"stale evidence holds", incident(condition("True", time.Hour, time.Hour)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"Unknown holds", incident(condition("Unknown", time.Second, time.Minute)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},

		{"a node that is clear heals", incident(condition("False", time.Second, 10*time.Second)), nothing, "Healing", "", 1, 1, 20 * time.Second},
		{"a node that healed by itself ends it", incident(condition("False", time.Second, 30*time.Second)), release, "RecoveredByItself", "", 1, 1, 0},
		{"healing ends it even when excluded and the policy is gone", incident(excluded, policyDeleted, withoutBudget, condition("False", time.Second, 30*time.Second)), release, "RecoveredByItself", "", 1, 1, 0},
		{"a deleted node ends it", incident(nodeGone), release, "NodeGone", "", 1, 1, 0},
		{"an action that runs on a deleted node is waited for", incident(at(1, 1), underway(time.Second, claimed(0)), nodeGone), nothing, "Waiting", "StillRunning", 1, 1, 159 * time.Second},
		{"an action that was announced for a deleted node has its name taken", incident(at(1, 1), underway(0), deleted, progress("Starting"), nodeGone), void, "Starting", "", 1, 1, 0},
		{"an unclaimed action of a deleted node is cancelled", incident(at(1, 1), underway(time.Second), nodeGone), cancel, "", "", 1, 1, 0},
		{"a deleted node ends it after its action has finished", incident(at(1, 1), underway(time.Second, claimed(0), finished("Succeeded", 0)), nodeGone), release, "NodeGone", "", 1, 1, 0},

		{"an announced action that does not exist is created", incident(at(1, 1), underway(0), deleted, progress("Starting")), create, "Starting", "", 1, 1, 0},
		{"the name of an announced action is taken when the node is clear: its first create may still arrive", incident(at(1, 1), underway(0), deleted, progress("Starting"), condition("False", time.Second, time.Hour)), void, "Starting", "", 1, 1, 0},
		{"and when a gate holds by now", incident(at(1, 1), underway(0), deleted, progress("Starting"), excluded), void, "Starting", "", 1, 1, 0},
		{"an action that only takes a name is cancelled", incident(at(1, 1), underway(0, isVoided), progress("Starting")), cancel, "Starting", "", 1, 1, 0},
		{"or was found expired, and is repeated later", incident(at(1, 1), underway(0, isVoided, finished("Expired", 0))), release, "Waiting", "Cancelled", 1, 1, 30 * time.Second},
		{"its first create came first: it runs", incident(at(1, 1), underway(time.Second, claimed(time.Second)), excluded), nothing, "Acting", "", 1, 1, 159 * time.Second},
		{"an unclaimed action is waited for", incident(at(1, 1), underway(10*time.Second)), nothing, "Acting", "", 1, 1, deadline.ClaimTime + deadline.ClaimGrace - 10*time.Second},
		{"an unclaimed action is cancelled after its time", incident(at(1, 1), underway(deadline.ClaimTime+deadline.ClaimGrace)), cancel, "Acting", "", 1, 1, 0},
		{"an unclaimed action is cancelled when the node is clear", incident(at(1, 1), underway(time.Second), progress("Acting"), condition("False", time.Second, time.Second)), cancel, "Acting", "", 1, 1, 0},
		{"an unclaimed action is cancelled when somebody pauses", incident(at(1, 1), underway(time.Second), progress("Acting"), paused), cancel, "Acting", "", 1, 1, 0},
		{"a claimed action is not", incident(at(1, 1), underway(time.Second, claimed(time.Second)), paused), nothing, "Acting", "", 1, 1, 159 * time.Second},
		{"a claimed action is not cancelled when the node is clear", incident(at(1, 1), underway(time.Second, claimed(time.Second)), condition("False", time.Second, time.Hour)), nothing, "Acting", "", 1, 1, 159 * time.Second},
		{"excluding the node does not stop what runs", incident(at(1, 1), underway(time.Second, claimed(time.Second)), excluded), nothing, "Acting", "", 1, 1, 159 * time.Second},
		{"a silent runner is reported", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting")), release, "Acting", "NoReport", 1, 1, 0},
		{"and is given up once the node is clear", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"), condition("False", time.Second, 2*time.Second)), nothing, "Acting", "", 1, 1, time.Second},
		{"unless the node was away until just now, and its detector was faster", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"), readyFor(20*time.Second), condition("False", time.Second, 2*time.Second)), release, "Acting", "", 1, 1, 40 * time.Second},
		{"a minute later it is given up, too", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"), readyFor(time.Minute), condition("False", time.Second, 2*time.Second)), nothing, "Acting", "", 1, 1, time.Second},
		{"or nobody had heard of it, and its kubelet is slower still", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"), blockedBy("NoReport", time.Hour), condition("False", time.Second, 2*time.Second)), release, "Acting", "", 1, 1, time.Minute},
		{"which is waited for only so long", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"), blockedBy("", 20*time.Second), condition("False", time.Second, 2*time.Second)), release, "Acting", "", 1, 1, 40 * time.Second},
		{"as for any other", incident(at(1, 1), underway(time.Hour, claimed(time.Hour)), progress("Acting"), blockedBy("", time.Minute), condition("False", time.Second, 2*time.Second)), nothing, "Acting", "", 1, 1, time.Second},
		{"a node's slow clock does not make its runner silent", incident(at(1, 1), underway(time.Second, claimed(time.Second), slowClock)), nothing, "Acting", "", 1, 1, 159 * time.Second},
		{"a deleted action is not repeated", incident(at(1, 1), underway(time.Second), deleted, progress("Acting")), nothing, "Acting", "", 1, 1, time.Second},

		{"after an execution the effect is awaited", incident(at(1, 1), underway(20*time.Second, claimed(20*time.Second), finished("Succeeded", 5*time.Second))), nothing, "Verifying", "", 1, 1, 60 * time.Second},
		{"a node's slow clock does not shorten it", incident(at(1, 1), underway(20*time.Second, claimed(20*time.Second), finished("Succeeded", 5*time.Second), slowClock)), nothing, "Verifying", "", 1, 1, 60 * time.Second},
		{"a failed execution is verified all the same", incident(at(1, 1), underway(20*time.Second, claimed(20*time.Second), finished("Failed", 5*time.Second))), nothing, "Verifying", "", 1, 1, 60 * time.Second},
		{"the fault confirmed afterwards leads to the next attempt", incident(at(1, 1), history("Succeeded", time.Minute)), start, "Starting", "", 1, 2, 0},
		{"after the last attempt comes the next step", incident(at(1, 2), history("Failed", time.Minute)), start, "Starting", "", 2, 1, 0},
		{"after the last step it is exhausted", incident(at(2, 1), history("TimedOut", time.Minute)), release, "Exhausted", "", 2, 1, 0},
		{"exhausted stays exhausted", incident(at(2, 1), history("TimedOut", time.Minute), progress("Exhausted")), release, "Exhausted", "", 2, 1, 0},
		{"exhausted ends when the node recovers", incident(at(2, 1), history("TimedOut", time.Hour), progress("Exhausted"), condition("False", time.Second, time.Minute)), release, "Recovered", "", 2, 1, 0},
		{"no evidence after an execution never advances", incident(at(1, 1), history("Succeeded", time.Minute), condition("True", 2*time.Minute, time.Hour)), release, "", "NoEvidence", 1, 1, 30 * time.Second},
		{"a report from before the end of the action never advances", incident(at(1, 1), history("Succeeded", 60*time.Second), condition("True", 60*time.Second, time.Hour)), release, "", "NoEvidence", 1, 1, 30 * time.Second},
		{"a node that is clear after an execution heals", incident(at(1, 1), history("Succeeded", 20*time.Second), condition("False", time.Second, 10*time.Second)), nothing, "Healing", "", 1, 1, 20 * time.Second},
		{"clear for long enough ends it as recovered", incident(at(1, 1), history("Succeeded", time.Minute), condition("False", time.Second, 40*time.Second)), release, "Recovered", "", 1, 1, 0},
		{"a False from before the end of the action is no recovery", incident(at(1, 1), history("Succeeded", 20*time.Second), condition("False", 25*time.Second, 40*time.Second)), nothing, "Verifying", "", 1, 1, 40 * time.Second},

		{"an attempt without a runner is repeated later", incident(at(1, 1), history("Expired", 10*time.Second)), release, "Waiting", "RunnerAway", 1, 1, 20 * time.Second},
		{"and is repeated as the same attempt", incident(at(1, 1), history("Expired", 30*time.Second)), start, "Starting", "", 1, 1, 0},
		{"less and less often", incident(at(1, 1), history("Expired", time.Hour), history("Expired", 50*time.Second)), release, "Waiting", "RunnerAway", 1, 1, 10 * time.Second},
		{"a command that could not be started consumes nothing", incident(at(1, 1), underway(5*time.Second, claimed(2*time.Second), finished("StartFailed", 2*time.Second))), release, "Waiting", "StartFailed", 1, 1, 30 * time.Second},
		{"an interrupted action is not repeated", incident(at(1, 1), history("Interrupted", time.Hour)), release, "Waiting", "Interrupted", 1, 1, 0},
		{"an interrupted action may still be running", incident(at(1, 1), history("Interrupted", time.Minute)), nothing, "Waiting", "StillRunning", 1, 1, 10 * time.Second},
		{"a lost action may still be running, on a node that is clear, too", incident(at(1, 1), history("Lost", time.Minute), condition("False", time.Second, time.Hour)), nothing, "Waiting", "StillRunning", 1, 1, 10 * time.Second},
		{"a lost action may have run after a report", incident(at(1, 1), history("Lost", 100*time.Second), condition("False", 31*time.Second, time.Hour)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"and had ended before another", incident(at(1, 1), history("Lost", 100*time.Second), condition("False", 29*time.Second, time.Hour)), release, "Recovered", "", 1, 1, 0},
		{"a False from while an interrupted action may still have run is no recovery", incident(at(1, 1), history("Interrupted", 80*time.Second), condition("False", 20*time.Second, time.Minute)), release, "Waiting", "NoEvidence", 1, 1, 30 * time.Second},
		{"unless its runner must have killed it before", incident(at(1, 1), history("Interrupted", 5*time.Second), killed("earlier"), condition("False", time.Second, time.Minute)), release, "Recovered", "", 1, 1, 0},
		{"an interrupted action may have helped", incident(at(1, 1), history("Interrupted", time.Hour), condition("False", time.Second, time.Minute)), release, "Recovered", "", 1, 1, 0},
	})
}

func decideAll(t *testing.T, tests []next) {
	t.Helper()
	versions := earlier(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.s.remediation.DeepCopy()
			d := decide(tt.s)
			recordStatus(t, d)
			continues(t, tt.s, d, versions)
			changeNothing(t, tt.s)
			got := v1alpha1.Remediation{Status: d.status}
			if d.effect != tt.effect || d.wait != tt.wait {
				t.Errorf("got effect %d, wait %s; want effect %d, wait %s", d.effect, d.wait, tt.effect, tt.wait)
			}
			if got.State() != tt.state || got.BlockedBy() != tt.blocked {
				t.Errorf("got state %q, blocked by %q; want state %q, blocked by %q", got.State(), got.BlockedBy(), tt.state, tt.blocked)
			}
			if d.status.Step != tt.step || d.status.Attempt != tt.attempt {
				t.Errorf("got step %d, attempt %d; want step %d, attempt %d", d.status.Step, d.status.Attempt, tt.step, tt.attempt)
			}
			over := slices.Contains([]string{"Recovered", "RecoveredByItself", "Released", "NodeGone", "Deleted"}, tt.state)
			if over != got.Ended() {
				t.Errorf("state %s with end time %v", tt.state, d.status.EndTime)
			}
			if d.effect == start && (d.status.Action == "" || d.status.Actions != before.Status.Actions+1) {
				t.Errorf("starting %q as number %d", d.status.Action, d.status.Actions)
			}
			if !equalStatus(before, tt.s.remediation) {
				t.Error("deciding changed its input")
			}
		})
	}
}

// changeNothing asks all rules that decide asks about the situation. Those that do not apply must
// leave alone what they were given: the conditions of a decision are its caller's.
func changeNothing(t *testing.T, s situation) {
	t.Helper()
	d := begin(s)
	d.recordFinished(s)
	apply := func(rules ...rule) (decided bool) {
		for _, r := range rules {
			before := d.status.DeepCopy()
			if _, applies := r.decide(d, s); applies {
				return true
			}
			if !equality.Semantic.DeepEqual(before, &d.status) {
				t.Errorf("%q does not apply, and has changed the status", r.name)
			}
		}
		return false
	}
	if apply(whateverTheNode()...) {
		return
	}
	d.prove(s)
	if d.status.Action != "" {
		apply(underWay()...)
		return
	}
	d.forgetAnnounced(s)
	if apply(rule{"released by a person", released}, rule{"former node acted on", formerActs}) {
		return
	}
	if d.clear {
		apply(whenClear()...)
		return
	}
	d.startOver(s)
	if apply(afterAnAttempt()...) {
		return
	}
	d.moveOn(s)
	d.ask(s)
	apply(nextAttempt()...)
}

func equalStatus(a, b *v1alpha1.Remediation) bool {
	return len(a.Status.History) == len(b.Status.History) && len(a.Status.Conditions) == len(b.Status.Conditions) &&
		a.Status.Action == b.Status.Action && a.Status.Step == b.Status.Step
}

func TestAFinishedActionIsRemembered(t *testing.T) {
	for reported, want := range map[time.Duration]time.Duration{
		time.Second:      0,
		-2 * time.Second: -2 * time.Second, // the controller's clock may be a little behind
		-time.Minute:     0,                // but that far it is not
	} {
		s := incident(at(1, 1), underway(time.Minute, claimed(time.Minute), finished("Failed", reported)))
		d := decide(s)
		if d.status.Action != "" || len(d.status.History) != 1 {
			t.Fatalf("got action %q and history %v", d.status.Action, d.status.History)
		}
		if r := d.status.History[0]; r.Action != s.attempt.Name || r.Outcome != "Failed" || !r.Executed || !r.FinishedAt.Equal(ptr.To(ago(want))) {
			t.Errorf("reported to have ended %s ago: got %+v", reported, r)
		}
	}
}

func TestOnlyTheNewestUnexecutedActionsAreKept(t *testing.T) {
	options := []func(*situation){at(1, 1), history("Succeeded", 5*time.Hour), history("Interrupted", 5*time.Hour), at(1, 2)}
	for range maxUnexecuted {
		options = append(options, history("Expired", 4*time.Hour))
	}
	options = append(options, underway(time.Hour, finished("Expired", 0)))
	d := decide(incident(options...))
	if n := len(d.status.History); n != maxUnexecuted+2 {
		t.Errorf("got %d records, want the executed one, that which may have been, and %d more", n, maxUnexecuted)
	}
	if h := d.status.History; h[0].Outcome != "Succeeded" || h[1].Outcome != "Interrupted" || d.status.Actions != maxUnexecuted+3 {
		t.Errorf("got first records %+v of %d actions", h[:2], d.status.Actions)
	}
}

func TestDecidingAgainChangesNothing(t *testing.T) {
	for _, s := range []situation{
		incident(excluded), incident(withoutBudget), incident(condition("True", time.Hour, time.Hour)),
		incident(at(1, 1), underway(10*time.Second)), incident(at(1, 1), history("Succeeded", 5*time.Second)),
		incident(condition("False", time.Second, 10*time.Second)),
	} {
		first := decide(s)
		s.remediation.Status = first.status
		s.now = s.now.Add(5 * time.Second)
		second := decide(s)
		for i, c := range second.status.Conditions {
			if c != first.status.Conditions[i] {
				t.Errorf("5 s later %s changed from %+v to %+v: that is a write for nothing", c.Type, first.status.Conditions[i], c)
			}
		}
	}
}

// A replaced worker is gone, and holds up the control plane if nobody knows that it was none of it.
func TestWhatANodeWasIsRememberedWhenItIsGone(t *testing.T) {
	s := incident()
	if s.remediation.Status = decide(s).status; ptr.Deref(s.remediation.Status.ControlPlane, true) {
		t.Error("a worker is taken for one of the control plane")
	}
	s.node.Labels[fleet.ControlPlaneLabel] = ""
	if s.remediation.Status = decide(s).status; !ptr.Deref(s.remediation.Status.ControlPlane, false) {
		t.Error("that it has become one of the control plane was not seen")
	}
	s.node = nil
	if !ptr.Deref(decide(s).status.ControlPlane, false) {
		t.Error("that it was one of the control plane was forgotten")
	}
}

func TestTheNamesOfActionsDiffer(t *testing.T) {
	r := incident().remediation
	first, second := actionName(r, 1), actionName(r, 2)
	r.UID = "re-created"
	if again := actionName(r, 1); again == first || first == second || !strings.HasPrefix(first, r.Name) {
		t.Errorf("got %s, %s, %s", first, second, again)
	}
}
