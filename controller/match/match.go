// Package match decides which policies apply to a node now, and starts their
// remediations.
package match

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/evidence"
	"github.com/nodemend/nodemend/controller/fleet"
)

// Policy looks for an entry of the policy's match that has held for its time
// on the node. It returns the condition that started first; or, when none has
// held yet, how long until the next one will have (0: none is on its way). A condition
// that is covered, or that its entry ignores for its age, is left out, so that it hides none
// that began later; covered nil: none is. What was seen for entries with debounce, seen tells;
// nil: nobody has, and lastTransitionTime is believed.
func Policy(policy *v1alpha1.RemedyPolicy, node *corev1.Node, now time.Time, seen Seen, covered func(*v1alpha1.Trigger) bool) (trigger *v1alpha1.Trigger, wait time.Duration) {
	var first *v1alpha1.Trigger
	var began time.Time
	for i := range policy.Spec.Match {
		m := &policy.Spec.Match[i]
		c := v1alpha1.FindNodeCondition(node, m.Type)
		// A condition that does not say since when cannot have held.
		if !m.Matches(c) || c.LastTransitionTime.IsZero() || m.Ignores(c, now) {
			continue
		}
		t, since := triggerOf(c), c.LastTransitionTime.Time
		if m.Debounces() && seen != nil {
			known := seen(node, m, now)
			if since = known.Held; known.Status != m.Status || since.IsZero() || m.IgnoresSince(since, now) {
				continue // or something newer is known
			}
			t.SeenSince = &metav1.Time{Time: since}
		}
		if left := since.Add(m.For.Duration).Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		if first != nil && !since.Before(began) || covered != nil && covered(t) {
			continue
		}
		first, began = t, since
	}
	if first == nil && wait == 0 {
		return nil, 0
	}
	// Last, since it costs most, and most nodes are healthy.
	if selected, err := fleet.Selects(policy.Spec.NodeSelector, node); err != nil || !selected {
		return nil, 0
	}
	if first == nil {
		return nil, wait
	}
	return first, 0
}

// Seen tells what was seen of a node for an entry with debounce, as [evidence.Tracker] does.
type Seen func(node *corev1.Node, m *v1alpha1.ConditionMatch, now time.Time) evidence.Seen

func triggerOf(c *corev1.NodeCondition) *v1alpha1.Trigger {
	return &v1alpha1.Trigger{
		Type: string(c.Type), Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime,
	}
}

// Now looks for an entry of the policy's match that is so on the node, for however
// short: what a person may start without waiting. It returns nil if there is none that
// counts, or if the policy does not select the node.
func Now(policy *v1alpha1.RemedyPolicy, node *corev1.Node, now time.Time) *v1alpha1.Trigger {
	hasty := policy.DeepCopy()
	for i := range hasty.Spec.Match {
		hasty.Spec.Match[i].For = v1alpha1.Duration{}
	}
	trigger, _ := Policy(hasty, node, now, nil, nil)
	return trigger
}

// Concerns reports whether a remediation of the policy is due on the node, or
// will be if nothing changes.
func Concerns(policy *v1alpha1.RemedyPolicy, node *corev1.Node, now time.Time, seen Seen) bool {
	trigger, wait := Policy(policy, node, now, seen, nil)
	return trigger != nil || wait > 0
}

// Covers reports whether one of the remediations leaves no room for another of the
// policy and the trigger: it is of the same node and policy, and either open or of
// the same incident.
func Covers(remediations []v1alpha1.Remediation, node *corev1.Node, policy *v1alpha1.RemedyPolicy, trigger *v1alpha1.Trigger) bool {
	return slices.ContainsFunc(remediations, func(r v1alpha1.Remediation) bool { return covers(&r, node, policy, trigger) })
}

func covers(r *v1alpha1.Remediation, node *corev1.Node, policy *v1alpha1.RemedyPolicy, trigger *v1alpha1.Trigger) bool {
	return of(r, node, policy) && (!r.Ended() || r.Covers(trigger, v1alpha1.DebounceOf(policy.Spec.Match, trigger)))
}

func of(r *v1alpha1.Remediation, node *corev1.Node, policy *v1alpha1.RemedyPolicy) bool {
	return r.Spec.NodeUID == node.UID && r.Spec.Policy.UID == policy.UID
}

// Latest returns the UID of the newest of the remediations that are of the node and
// the policy, "" if there is none. Of a tombstone it is that of the remediation in whose
// place it is: who does not see the tombstone yet names the next one alike.
func Latest(remediations []v1alpha1.Remediation, node *corev1.Node, policy *v1alpha1.RemedyPolicy) types.UID {
	var newest *v1alpha1.Remediation
	for i := range remediations {
		r := &remediations[i]
		if of(r, node, policy) && (newest == nil || newest.StartedAt().Time.Before(r.StartedAt().Time)) {
			newest = r
		}
	}
	if newest == nil {
		return ""
	}
	if buried := newest.Annotations[v1alpha1.TombstoneUIDAnnotation]; buried != "" {
		return types.UID(buried)
	}
	return newest.UID
}

// maxNodeName bounds the part of a name that is readable, so that the names of
// remediations and of their actions stay below 253 characters.
const maxNodeName = 200

// NewRemediation returns the remediation of this trigger. Its name follows from
// node, policy and the UID of the latest remediation of both: whatever starts the
// next one, and whoever sees it, creates the same object.
func NewRemediation(policy *v1alpha1.RemedyPolicy, node *corev1.Node, trigger v1alpha1.Trigger, latest types.UID) *v1alpha1.Remediation {
	return named(name(node.Name, fmt.Sprintf("%s/%s/%s", node.UID, policy.UID, latest)), policy, node, trigger)
}

// RequestedName is the name of the remediation that is made for a request, and for no other.
func RequestedName(asked *v1alpha1.NodemendRemediation, node string) string {
	return name(node, string(asked.UID))
}

// NewRequested returns the remediation that is made for a request.
func NewRequested(policy *v1alpha1.RemedyPolicy, node *corev1.Node, asked *v1alpha1.NodemendRemediation) *v1alpha1.Remediation {
	request := v1alpha1.NewRequest(asked)
	r := named(RequestedName(asked, node.Name), policy, node, v1alpha1.Trigger{
		Type: v1alpha1.RequestTrigger, Status: corev1.ConditionTrue, Reason: v1alpha1.RequestTrigger,
		Message:            fmt.Sprintf("requested by %s, by NodemendRemediation %s", request.By(), &request),
		LastTransitionTime: asked.CreationTimestamp,
	})
	r.Spec.Request = &request
	return r
}

func name(node, seed string) string {
	sum := sha256.Sum256([]byte(seed))
	if len(node) > maxNodeName {
		node = strings.TrimRight(node[:maxNodeName], "-.")
	}
	return node + "-" + hex.EncodeToString(sum[:8])
}

func named(name string, policy *v1alpha1.RemedyPolicy, node *corev1.Node, trigger v1alpha1.Trigger) *v1alpha1.Remediation {
	snapshot := policy.Spec.DeepCopy() // the policy may be the cache's own
	return &v1alpha1.Remediation{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{v1alpha1.RemediationFinalizer}},
		Spec: v1alpha1.RemediationSpec{
			NodeName: node.Name,
			NodeUID:  node.UID,
			Policy:   v1alpha1.PolicyReference{Name: policy.Name, UID: policy.UID},
			Trigger:  trigger,
			Match:    snapshot.Match,
			Steps:    snapshot.Steps,
			Recovery: snapshot.Recovery,
		},
	}
}
