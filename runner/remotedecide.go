package runner

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/power"
	"github.com/nodemend/nodemend/internal/power/proof"
)

// silence is how long nothing may have been heard of a node that does not answer: the node
// controller's grace period, in which a kubelet renews its Lease five times.
const silence = 50 * time.Second

// decideRemote says what the remote runner does with an action, before its claim and, as long
// as nothing was switched, after it.
func decideRemote(in input) decision {
	return first(in, slices.Concat([]check{notRemote, finished, deletedUnclaimed, late}, standing(), []check{answering, unidentified}))
}

// notRemote leaves the action of a node's runner to that.
func notRemote(in input) *decision {
	if in.action.Spec.Executor != v1alpha1.ExecutorRemote {
		return &decision{verb: leave}
	}
	return nil
}

func deletedUnclaimed(in input) *decision {
	if in.action.Status.Claim != nil {
		return nil
	}
	return deleted(in)
}

// powerTime is how much of the step's timeout is left for power that goes off and on slowly:
// after that time nothing is switched off any more.
func powerTime() time.Duration {
	plan := proof.DefaultPlan()
	return plan.GiveUp + plan.Settled + plan.GiveUp
}

// late refuses what is found too late, and gives up what was claimed and has not begun in time.
func late(in input) *decision {
	claim := in.action.Status.Claim
	if claim == nil {
		return expired(in)
	}
	if end := claim.Time.Add(in.action.Spec.Timeout.Duration - powerTime()); in.now.After(end) {
		return finishWith(v1alpha1.ReasonNotStarted, "nothing was switched: runner %s claimed it at %s, and it is not begun later than %s, %s before its timeout",
			claim.RunnerID, claim.Time.UTC().Format(time.RFC3339), end.UTC().Format(time.RFC3339), powerTime())
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
	if ready == nil || ready.Status != corev1.ConditionUnknown || !slices.ContainsFunc(in.policy.Spec.Match, func(m v1alpha1.ConditionMatch) bool {
		return m.Type == string(corev1.NodeReady) && m.Matches(ready)
	}) {
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
		renewed := lastWrite(lease.ManagedFields, nil)
		if renewed.IsZero() && lease.Spec.RenewTime != nil {
			renewed = lease.Spec.RenewTime.Time
		}
		if now.Sub(renewed) <= silence {
			return "its kubelet renewed its Lease at " + renewed.UTC().Format(time.RFC3339)
		}
	}
	if written := lastWrite(node.ManagedFields, onNode()); now.Sub(written) <= silence {
		return "something on it wrote its status at " + written.UTC().Format(time.RFC3339)
	}
	return ""
}

// onNode are the names under which what runs on a node writes its status.
func onNode() []string { return []string{"kubelet", "nodemend-detector", "node-problem-detector"} }

// lastWrite returns when one of these has written last, as the API server notes it; nil: anybody.
func lastWrite(fields []metav1.ManagedFieldsEntry, managers []string) (last time.Time) {
	for i := range fields {
		if at := fields[i].Time; at != nil && at.After(last) && (managers == nil || slices.Contains(managers, fields[i].Manager)) {
			last = at.Time
		}
	}
	return last
}
