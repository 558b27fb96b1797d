//go:build e2e

package machine

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/test/e2e/story"
)

// says waits until a condition says this, with these words.
func (n *node) says(condition corev1.NodeConditionType, status corev1.ConditionStatus, reason string, words ...string) corev1.NodeCondition {
	n.Helper()
	n.Until(round, fmt.Sprintf("%s is %s, %s %q", condition, status, reason, words), func() (bool, string) {
		c := n.Condition(condition)
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return false, fmt.Sprintf("%s, %s: %s", c.Status, c.Reason, c.Message)
			}
		}
		return c.Status == status && c.Reason == reason, fmt.Sprintf("%s, %s: %s", c.Status, c.Reason, c.Message)
	})
	return n.Condition(condition)
}

// holds restarts the detector, and waits until it confirms the conditions, which have not changed
// meanwhile.
func (n *node) holds(before ...corev1.NodeCondition) {
	n.Helper()
	n.run("systemctl restart nodemend-detector.service")
	restarted := n.Object()
	for _, b := range before {
		since := story.Condition(restarted, b.Type).LastHeartbeatTime.Time
		n.Until(round, fmt.Sprintf("the detector confirms %s after its restart", b.Type), n.Confirms(b.Type, b.Status, since))
		if now := n.Condition(b.Type); !now.LastTransitionTime.Equal(&b.LastTransitionTime) || now.Reason != b.Reason {
			n.Errorf("after the restart the condition is %+v, and was %+v", now, b)
		}
	}
}
