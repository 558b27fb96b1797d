package runner

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodemend/nodemend/config/v1alpha1"
)

// selectsNode reports whether the policy applies to the node.
func selectsNode(policy *v1alpha1.RemedyPolicy, node *corev1.Node) (bool, error) {
	selector, err := v1alpha1.SelectorOf(policy.Spec.NodeSelector)
	if err != nil {
		return false, err
	}
	return selector.Matches(labels.Set(node.Labels)), nil
}

// matched returns the first condition of the node that is a problem, with its
// status and reason, or nil if there is none.
func matched(match []v1alpha1.ConditionMatch, node *corev1.Node) *corev1.NodeCondition {
	for i := range match {
		if c := v1alpha1.FindNodeCondition(node, match[i].Type); match[i].Matches(c) {
			return c
		}
	}
	return nil
}

// unseenSince returns the matched conditions that no check has reported since a time, at
// which the node booted or an execution ended, "" if one has been or does not say: what was
// wrong before may be well now. Conditions of the kubelet and the network are not judged here, since the node's
// Lease says how fresh those are.
func unseenSince(since time.Time, match []v1alpha1.ConditionMatch, node *corev1.Node) string {
	var unseen []string
	for i := range match {
		c := v1alpha1.FindNodeCondition(node, match[i].Type)
		if !match[i].Matches(c) {
			continue
		}
		if v1alpha1.KubeletOwned(match[i].Type) || match[i].Type == string(corev1.NodeNetworkUnavailable) || c.LastHeartbeatTime.IsZero() || !c.LastHeartbeatTime.Time.Before(since.Truncate(time.Second)) {
			return ""
		}
		unseen = append(unseen, match[i].Type)
	}
	return strings.Join(unseen, " and ")
}

// describeMatch says for each entry how the node's condition differs.
func describeMatch(match []v1alpha1.ConditionMatch, node *corev1.Node) string {
	parts := make([]string, 0, len(match))
	for _, m := range match {
		is, not := "absent", string(m.Status)
		if c := v1alpha1.FindNodeCondition(node, m.Type); c != nil {
			is = string(c.Status)
			if c.Status == m.Status { // so it is the reason
				is += " for " + c.Reason
				not = "for " + strings.Join(m.Reasons, " or ")
			}
		}
		parts = append(parts, fmt.Sprintf("%s is %s, not %s", m.Type, is, not))
	}
	return strings.Join(parts, "; ")
}
