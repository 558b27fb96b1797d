package gauges

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
)

// What is told of a condition that nobody reports, in the place of its status.
const (
	// conditionStale: there was a report, too long ago.
	conditionStale = "Stale"
	// conditionAbsent: there never was one, though another condition is reported, for a
	// condition of a check that of another check: its check is off on this node.
	conditionAbsent = "Absent"
	// conditionMissing: there never was one, nor of those others.
	conditionMissing = "Missing"
	// conditionNotReady: nor is one expected, since the node is not Ready, or only for a
	// short time.
	conditionNotReady = "NotReady"
)

// settleTime is how long a node has to be Ready until every check is expected to
// have reported.
const settleTime = 10 * time.Minute

// collectConditions counts nodes by each condition that a policy for them matches, and has
// counters show every policy.
func (c *Collector) collectConditions(ctx context.Context, out chan<- prometheus.Metric) {
	var list v1alpha1.RemedyPolicyList
	if c.Reader.List(ctx, &list, client.UnsafeDisableDeepCopy) != nil {
		return
	}
	for i := range list.Items {
		c.Expect(&list.Items[i])
	}
	type key struct{ condition, status string }
	now, conditions, count := c.Clock.Now(), matched(list.Items), map[key]int{}
	nodes, _ := c.Nodes()
	for _, node := range nodes {
		for condition, selectors := range conditions {
			if slices.ContainsFunc(selectors, func(s labels.Selector) bool { return s.Matches(labels.Set(node.Labels)) }) {
				count[key{condition, c.reported(node, condition, now)}]++
			}
		}
	}
	for k, n := range count {
		tell(out, c.conditions, n, k.condition, k.status)
	}
}

// matched returns the conditions that policies match, and of which nodes. A selector
// that cannot be read selects none.
func matched(policies []v1alpha1.RemedyPolicy) map[string][]labels.Selector {
	all := map[string][]labels.Selector{}
	for i := range policies {
		selector, err := v1alpha1.SelectorOf(policies[i].Spec.NodeSelector)
		if err != nil {
			continue
		}
		for _, m := range policies[i].Spec.Match {
			all[m.Type] = append(all[m.Type], selector)
		}
	}
	return all
}

// reported returns the status of a node's condition if it is reported, else which of
// the above is so. What a kubelet reports is told as it is: the node controller changes
// it when the kubelet is away.
func (c *Collector) reported(node *corev1.Node, condition string, now time.Time) string {
	report := v1alpha1.FindNodeCondition(node, condition)
	if report != nil && (evidence.NeedsLease(condition) || now.Sub(report.LastHeartbeatTime.Time) <= evidence.MaxAge(report.Status)) {
		if !slices.Contains([]corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse}, report.Status) {
			return string(corev1.ConditionUnknown) // the API server takes any text, of any length, as a status
		}
		return string(report.Status)
	}
	ready := v1alpha1.FindNodeCondition(node, string(corev1.NodeReady))
	switch {
	case ready == nil || ready.Status != corev1.ConditionTrue || now.Sub(ready.LastTransitionTime.Time) < settleTime:
		return conditionNotReady
	case report != nil:
		return conditionStale
	case c.othersReported(node, condition):
		return conditionAbsent
	default:
		return conditionMissing
	}
}

// othersReported reports whether somebody who may report the condition has reported others of
// the node. That is the detector for a condition of a check: what other agents of a node report
// does not tell that it is there.
func (c *Collector) othersReported(node *corev1.Node, condition string) bool {
	ofCheck := slices.Contains(c.Checked, condition)
	return slices.ContainsFunc(node.Status.Conditions, func(other corev1.NodeCondition) bool {
		if ofCheck {
			return slices.Contains(c.Checked, string(other.Type))
		}
		return !evidence.NeedsLease(string(other.Type))
	})
}
