package runner

import (
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
	"github.com/nodemend/nodemend/internal/standing"
)

// decideRemote says what the remote runner does with an action, before its claim and, as long
// as nothing was switched, after it.
func decideRemote(in input) decision {
	return first(in, slices.Concat([]check{notRemote, finished, unrecorded, late}, remoteStanding())...)
}

// remoteStanding are the checks of what has to hold until the power is cut, and for as long as
// pods and volumes are to be freed.
func remoteStanding() []check {
	return []check{refused, notSupported, unseen, budgetPaused, inMaintenance, backInService, answering, unidentified}
}

// frees says whether pods and volumes of a node are still to be freed that is proved to be off, and
// whether nobody has begun with that. As long as nobody has, all has to hold that had to for the
// cut but its time: else the node is switched on again at once.
func frees(in input) (hold, await bool) {
	claim := in.action.Status.Claim
	if claim == nil || in.node == nil || in.node.UID != in.action.Spec.NodeUID || in.bootID != claim.BootID {
		return false, false
	}
	if in.now.After(claim.Time.Add(in.action.Spec.Timeout.Duration - backTime)) {
		return false, false
	}
	mark, marked := v1alpha1.OutOfServiceMarkOf(in.node)
	switch own, others := mark.OutOfService(in.node); {
	case others: // their word, and they tell nobody when it is done
		return false, false
	case marked && own >= 0 && mark.Action == in.action.Name && mark.BootID == claim.BootID:
		return !mark.Moved, false
	}
	d := stands(in)
	wanted := d.verb == execute && d.step.Reboot != nil && d.step.Reboot.OutOfService
	return wanted, wanted
}

// stands says whether all holds that had to for the cut, but its time.
func stands(in input) decision {
	return first(in, slices.Concat([]check{notRemote, finished, unrecorded}, remoteStanding())...)
}

// backTime is how long before the step's timeout a machine is not kept off any more for its pods
// and volumes.
const backTime = 6 * time.Minute

// notRemote leaves the action of a node's runner to that.
func notRemote(in input) *decision {
	if in.action.Spec.Executor != v1alpha1.ExecutorRemote {
		return &decision{verb: leave}
	}
	return nil
}

// unrecorded refuses an action that could be deleted while a machine is off by it: nothing else
// would tell the next remote runner to switch it on.
func unrecorded(in input) *decision {
	if slices.Contains(in.action.Finalizers, v1alpha1.PowerFinalizer) {
		return nil
	}
	return finishWith(v1alpha1.ReasonRefused, "nothing was switched: NodeAction %s has no finalizer %s, so once it is deleted nothing would tell of a machine that is off. "+
		"Has somebody removed it, or is the controller of an earlier version?", in.action.Name, v1alpha1.PowerFinalizer)
}

// undone says what was not done.
func (in *input) undone() string {
	if slices.Contains(in.remedies, v1alpha1.RemedyReplace) {
		return "nothing was deleted: "
	}
	return "nothing was switched: "
}

// budgetPaused refuses what was created before somebody paused a budget of the node.
func budgetPaused(in input) *decision {
	for i := range in.holds.Budgets {
		if b := &in.holds.Budgets[i]; b.Pauses(in.node) {
			return finishWith(v1alpha1.ReasonRefused, "%sRemediationBudget %s, which selects node %s, is paused", in.undone(), b.Name, in.nodeName)
		}
	}
	return nil
}

// inMaintenance refuses what was created before somebody else took the node out of service.
func inMaintenance(in input) *decision {
	for i := range in.holds.Maintenances {
		m := &in.holds.Maintenances[i]
		if of := m.Spec.Remediation; m.KeepsActionsFrom(in.node) && (of == nil || of.UID != in.action.Spec.RemediationUID) {
			return finishWith(v1alpha1.ReasonRefused, "%snode %s is in maintenance %s (%s)", in.undone(), in.nodeName, m.Name, m.Spec.Reason)
		}
	}
	return nil
}

// heldByPeople says how people keep the machine for themselves; "" if they don't, or if its node
// is gone, of which they could only say it by its name.
func heldByPeople(in input) string {
	if in.node == nil {
		in.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: in.nodeName, UID: in.action.Spec.NodeUID}}
	}
	byPeople := func(in input) *decision { return finishAs(standing.HeldByPeople(in.facts())) }
	for _, check := range []check{byPeople, budgetPaused, inMaintenance} {
		if d := check(in); d != nil {
			return strings.TrimPrefix(d.outcome.Message, in.undone())
		}
	}
	return ""
}

// powerTime is how much of the step's timeout is left for power that goes off late and on slowly:
// after that time nothing is switched off any more.
func powerTime(step *v1alpha1.Step) time.Duration {
	plan := proof.DefaultPlan()
	long := plan.GiveUp + plan.Settled + plan.GiveUp + plan.GiveUp
	if step != nil && step.Reboot != nil && step.Reboot.OutOfService {
		long += plan.Hold
	}
	return long
}

// late refuses what is found too late, and gives up what was claimed and has not begun in time.
func late(in input) *decision {
	claim := in.action.Status.Claim
	if claim == nil {
		return expired(in)
	}
	long := powerTime(stepOf(in))
	if end := claim.Time.Add(in.action.Spec.Timeout.Duration - long); in.now.After(end) {
		return finishWith(v1alpha1.ReasonNotStarted, "nothing was switched: runner %s claimed it at %s, and it is not begun later than %s, %s before its timeout",
			claim.RunnerID, claim.Time.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339), long)
	}
	return nil
}

// answering refuses to act on a machine whose node answers, or of which nobody says that it does
// not.
func answering(in input) *decision {
	if sign := signOfLife(in.node, in.lease, in.now); sign != "" {
		return finishWith(v1alpha1.ReasonNotNeeded, "nothing was switched: node %s answers: %s", in.nodeName, sign)
	}
	ready := v1alpha1.FindNodeCondition(in.node, string(corev1.NodeReady))
	says := func(m v1alpha1.ConditionMatch) bool { return m.Type == string(corev1.NodeReady) && m.Matches(ready) }
	if ready == nil || ready.Status != corev1.ConditionUnknown || in.remediation.Spec.Request == nil && !slices.ContainsFunc(in.policy.Spec.Match, says) {
		return finishWith(v1alpha1.ReasonNotNeeded,
			"nothing was switched: RemedyPolicy %s does not match Ready as it is, Unknown: so nobody says that the node does not answer", in.policy.Name)
	}
	return nil
}

// unidentified refuses what nothing could prove: to be the machine, or that its boot is over.
func unidentified(in input) *decision {
	info := &in.node.Status.NodeInfo
	if info.BootID == "" {
		return finishWith(v1alpha1.ReasonRefused, "node %s has no boot ID (status.nodeInfo.bootID), so nothing could prove that its boot is over", in.nodeName)
	}
	if _, err := power.ParseUUID(info.SystemUUID); err != nil {
		return finishWith(v1alpha1.ReasonRefused, "node %s can't be told from others: its systemUUID: %v", in.nodeName, err)
	}
	if claim := in.action.Status.Claim; claim != nil && claim.BootID != info.BootID {
		return finishWith(v1alpha1.ReasonNotNeeded, "nothing was switched: node %s has booted since the claim: boot ID %s, now %s",
			in.nodeName, claim.BootID, info.BootID)
	}
	return nil
}

// signOfLife says how the node answers, by what the API server has heard of it and by its clock;
// "" if it does not.
func signOfLife(node *corev1.Node, lease *coordinationv1.Lease, now time.Time) string {
	if ready := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady)); ready != nil && ready.Status == corev1.ConditionTrue {
		return "it is Ready"
	}
	if lease != nil {
		renewed := v1alpha1.LeaseRenewed(lease)
		if now.Sub(renewed) <= v1alpha1.Silence {
			return "its kubelet renewed its Lease at " + renewed.UTC().Format(time.RFC3339)
		}
	}
	if written := v1alpha1.LastWritten(node); now.Sub(written) <= v1alpha1.Silence {
		return "something on it wrote its status at " + written.UTC().Format(time.RFC3339)
	}
	return ""
}
