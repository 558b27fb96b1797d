// Package match decides which policies apply to a node now, and starts their
// remediations.
package match

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
)

// Policy looks for an entry of the policy's match that has held for its time
// on the node. It returns the condition that started first; or, when none has
// held yet, how long until the next one will have (0: none is on its way).
func Policy(policy *v1alpha1.RemedyPolicy, node *corev1.Node, now time.Time) (trigger *v1alpha1.Trigger, wait time.Duration) {
	if selected, err := fleet.Selects(policy.Spec.NodeSelector, node); err != nil || !selected {
		return nil, 0
	}
	for _, m := range policy.Spec.Match {
		c := fleet.Condition(node, m.Type)
		// A condition that does not say since when cannot have held.
		if c == nil || c.Status != m.Status || c.LastTransitionTime.IsZero() {
			continue
		}
		if left := c.LastTransitionTime.Add(m.For.Duration).Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		if trigger == nil || c.LastTransitionTime.Time.Before(trigger.LastTransitionTime.Time) {
			trigger = &v1alpha1.Trigger{
				Type: m.Type, Status: c.Status, Reason: c.Reason, Message: c.Message,
				LastTransitionTime: c.LastTransitionTime,
			}
		}
	}
	if trigger != nil {
		return trigger, 0
	}
	return nil, wait
}

// maxNodeName bounds the part of a name that is readable, so that the names of
// remediations and of their actions stay below 253 characters.
const maxNodeName = 200

// NewRemediation returns the remediation of this trigger. Its name follows from
// node, policy and trigger: whoever sees the same incident creates the same
// object.
func NewRemediation(policy *v1alpha1.RemedyPolicy, node *corev1.Node, trigger v1alpha1.Trigger) *v1alpha1.Remediation {
	incident := fmt.Sprintf("%s/%s/%s/%s/%d", node.UID, policy.UID, trigger.Type, trigger.Status,
		trigger.LastTransitionTime.Unix())
	sum := sha256.Sum256([]byte(incident))
	name := node.Name
	if len(name) > maxNodeName {
		name = strings.TrimRight(name[:maxNodeName], "-.")
	}
	return &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-" + hex.EncodeToString(sum[:8])},
		Spec: v1alpha1.RemediationSpec{
			NodeName: node.Name,
			NodeUID:  node.UID,
			Policy:   v1alpha1.PolicyReference{Name: policy.Name, UID: policy.UID},
			Trigger:  trigger,
			Match:    policy.Spec.Match,
			Steps:    policy.Spec.Steps,
			Recovery: policy.Spec.Recovery,
		},
	}
}
