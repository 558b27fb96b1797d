package remediation

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/index"
)

// Explanation is what the controller would decide about a remediation now, and why.
type Explanation struct {
	// Status is what the decision would make of it.
	Status v1alpha1.RemediationStatus
	// Rule is the name of the rule that decides.
	Rule string
	// Findings is what the node's conditions prove, in the order of the match.
	Findings []evidence.Finding
	// Answers of the gates that the decision depends on, in their order, about the
	// attempt that is next: none while something is under way, awaited, or over.
	Answers []Answer
	// Budgets that select the node, in name order.
	Budgets []v1alpha1.RemediationBudget
	// Wait is after how long the controller would look again; 0: when something
	// changes.
	Wait time.Duration
}

// Answer is what one gate says.
type Answer struct {
	// Gate is its name.
	Gate string
	// Verdict of the gate.
	Verdict gates.Verdict
}

// Progressing returns the Progressing condition of the explained status.
func (e *Explanation) Progressing() metav1.Condition {
	return e.condition(v1alpha1.RemediationProgressing)
}

// Blocked returns the Blocked condition of the explained status.
func (e *Explanation) Blocked() metav1.Condition { return e.condition(v1alpha1.RemediationBlocked) }

func (e *Explanation) condition(kind string) metav1.Condition {
	if c := meta.FindStatusCondition(e.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// Explainer tells what the controller would decide, from what the API server has now. It is for
// one look: what there are thousands of is read once.
type Explainer struct {
	live  client.Client
	store *index.Snapshot
	clock clock.PassiveClock
}

// NewExplainer returns one that has read nothing.
func NewExplainer(ctx context.Context, c client.Client, clk clock.PassiveClock) (*Explainer, error) {
	live, err := index.Live(ctx, c)
	return &Explainer{live: live, store: index.NewSnapshot(c), clock: clk}, err
}

// Explain decides about an open remediation, which need not exist, exactly as the
// controller does, and changes nothing. The node must exist. It fails rather than decide
// by half of what there is.
func (e *Explainer) Explain(ctx context.Context, remediation *v1alpha1.Remediation) (Explanation, error) {
	if remediation.CreationTimestamp.IsZero() { // it would be the first in every queue
		remediation = remediation.DeepCopy()
		remediation.CreationTimestamp = metav1.NewTime(e.clock.Now())
	}
	s, err := observer{cache: e.live, live: e.live, store: e.store, clock: e.clock}.observe(ctx, remediation)
	if err == nil {
		err = e.store.Err()
	}
	if err != nil {
		return Explanation{}, err
	}
	if s.node == nil {
		return Explanation{}, fmt.Errorf("node %s of remediation %s is gone", remediation.Spec.NodeName, remediation.Name)
	}
	d := decide(s)
	verdict, err := askOthers(ctx, e.live, s, d)
	if err != nil {
		return Explanation{}, err
	}
	if verdict.Held() {
		asked, chain := d.asked, d.chain
		d = heldBack(s, verdict)
		d.asked, d.chain, d.rule = asked, chain, "another program has the node"
	}
	told := Explanation{Status: d.status, Rule: d.rule, Wait: d.wait, Findings: s.proof(&d.status).matched, Budgets: s.budgets}
	if d.asked == nil {
		return told, nil
	}
	for _, gate := range d.chain {
		answer := Answer{gate.Name, gate.Ask(*d.asked)}
		if gate.Name == verdict.Reason {
			answer.Verdict = verdict
		}
		told.Answers = append(told.Answers, answer)
	}
	return told, nil
}
