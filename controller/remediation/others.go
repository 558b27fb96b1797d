package remediation

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/controller/gates"
	"github.com/nodemend/nodemend/controller/others"
)

// disturbs reports whether what was decided takes the node out of service, or acts on one that is out, or
// whether somebody is about to.
func (d *decision) disturbs(s situation) bool {
	acts := d.effect == start || d.effect == create || d.effect == takeOut || d.effect == await
	return acts && s.step(d.status.Step).Disruptive()
}

// askOthers asks the API server whether another program has the node of a disruptive step that is
// about to start, or waits for its runner. Where that must not be read, nobody knows, and the step is held.
func askOthers(ctx context.Context, live client.Reader, s situation, d decision) (gates.Verdict, error) {
	if !d.disturbs(s) {
		return gates.Verdict{}, nil
	}
	step := gates.OtherStep(s.step(d.status.Step), s.now)
	step.Request = s.remediation.Spec.Request
	hold, err := others.Ask(ctx, live, s.node.Name, s.node.UID, step)
	if err != nil {
		return gates.Verdict{}, err
	}
	if hold.Why == "" {
		return gates.Verdict{}, nil
	}
	return gates.Verdict{Reason: gates.ReasonOtherHealer, Message: hold.Why, Recheck: gates.BudgetRecheck}, nil
}

// asks is how many ask others at the same time: fewer than there are workers, for an answer may
// take until nobody waits for it any more, and what frees a node or gives it back asks nobody.
const asks = workers / 2

// othersMeanwhile is askOthers for the controller: what it can't read, since it has no right to or
// another program's API does not answer, holds this step, and no one else's; an action that waits for
// its runner it does not end. It reports whether it
// has asked: if too many do, it is this one's turn later, which wakes it.
func (r *Reconciler) othersMeanwhile(ctx context.Context, s situation, d decision) (verdict gates.Verdict, asked bool, err error) {
	if !d.disturbs(s) {
		return gates.Verdict{}, true, nil
	}
	if !r.asking.Take(asks, s.remediation.Name) {
		return gates.Verdict{}, false, nil
	}
	defer r.asking.Leave(asks, &r.doorbell)
	verdict, err = askOthers(ctx, r.Live, s, d)
	if err == nil || ctx.Err() != nil || apierrors.IsNotFound(err) {
		return verdict, true, err
	}
	if d.effect == await { // what was begun when nobody had the node ends only if somebody has it
		ctrl.LoggerFrom(ctx).Info("Whether another program has the node by now is not known: the action goes on waiting for its runner",
			"node", s.node.Name, "action", d.status.Action, "why", err.Error())
		return gates.Verdict{}, true, nil
	}
	hint := ""
	if apierrors.IsForbidden(err) {
		hint = "; grant the controller what docs/others.md says"
	}
	return gates.Verdict{
		Reason: gates.ReasonOtherHealer, Recheck: gates.BudgetRecheck,
		Message: fmt.Sprintf("whether another program has node %s is not known: %.200s%s", s.node.Name, err, hint),
	}, true, nil
}
