package story

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/deploy"
)

// healthyFor is for how long a node of a story has to be healthy.
const healthyFor = 3 * time.Second

// Node is what a story sees of its node through the API.
type Node struct {
	*Story
	// API asks the API server.
	API client.Client
	// NodeName is the name of the Node.
	NodeName string
}

// Object returns the Node.
func (n *Node) Object() *corev1.Node {
	n.Helper()
	object := &corev1.Node{}
	n.Must(n.API.Get(n.Ctx, client.ObjectKey{Name: n.NodeName}, object))
	return object
}

// Condition returns one of the Node's; an empty one if it has none of that type.
func (n *Node) Condition(conditionType corev1.NodeConditionType) corev1.NodeCondition {
	n.Helper()
	return Condition(n.Object(), conditionType)
}

// Condition returns a condition of a Node; an empty one if it has none of that type.
func Condition(node *corev1.Node, conditionType corev1.NodeConditionType) corev1.NodeCondition {
	if c := v1alpha1.FindNodeCondition(node, string(conditionType)); c != nil {
		return *c
	}
	return corev1.NodeCondition{Type: conditionType}
}

// Is tells whether the Node has a condition with this status.
func (n *Node) Is(conditionType corev1.NodeConditionType, status corev1.ConditionStatus) func() (bool, string) {
	return func() (bool, string) {
		c := n.Condition(conditionType)
		return c.Status == status, Describe(c)
	}
}

// Confirms tells whether the Node has a condition with this status that was confirmed by a run of
// its check that has started after a time.
func (n *Node) Confirms(conditionType corev1.NodeConditionType, status corev1.ConditionStatus, after time.Time) func() (bool, string) {
	return func() (bool, string) {
		c := n.Condition(conditionType)
		return c.Status == status && c.LastHeartbeatTime.After(after), Describe(c)
	}
}

// Describe says in a line what a condition says.
func Describe(c corev1.NodeCondition) string {
	return fmt.Sprintf("%s=%s %s: %s (%s)", c.Type, c.Status, c.Reason, c.Message, c.LastHeartbeatTime.UTC().Format(time.TimeOnly))
}

// Remediation returns the node's newest remediation; nil if there is none.
func (n *Node) Remediation() *v1alpha1.Remediation {
	n.Helper()
	var list v1alpha1.RemediationList
	n.Must(n.API.List(n.Ctx, &list, client.MatchingFields{"spec.nodeName": n.NodeName}))
	var newest *v1alpha1.Remediation
	for i := range list.Items {
		if r := &list.Items[i]; newest == nil || !r.CreationTimestamp.Before(&newest.CreationTimestamp) {
			newest = r
		}
	}
	return newest
}

// State is what `kubectl get remediations` shows: the state, and what blocks with its message.
func State(r *v1alpha1.Remediation) (state, blocked string) {
	if r == nil {
		return "", ""
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.RemediationBlocked); c != nil && c.Status == metav1.ConditionTrue {
		blocked = c.Reason + ": " + c.Message
	}
	return r.State(), blocked
}

// Reaches tells whether the newest remediation is in a state.
func (n *Node) Reaches(want string) func() (bool, string) {
	return func() (bool, string) {
		got, blocked := State(n.Remediation())
		return got == want, fmt.Sprintf("remediation %q, blocked by %q", got, blocked)
	}
}

// Result returns what an action gave.
func (n *Node) Result(name string) *v1alpha1.ActionResult {
	n.Helper()
	action := &v1alpha1.NodeAction{}
	n.Must(n.API.Get(n.Ctx, client.ObjectKey{Name: name}, action))
	if action.Status.Result == nil {
		n.Fatalf("action %s has no result: %+v", name, action.Status)
	}
	return action.Status.Result
}

// Shipped returns what a policy of deploy/policies says, enforced and with the patience of a test.
func (s *Story) Shipped(name string) v1alpha1.RemedyPolicySpec {
	s.Helper()
	data, err := deploy.Policies.ReadFile("policies/" + name + ".yaml")
	s.Must(err)
	var policy v1alpha1.RemedyPolicy
	s.Must(yaml.UnmarshalStrict(data, &policy))
	spec := policy.Spec
	spec.Mode = v1alpha1.ModeEnforce
	for i := range spec.Match {
		spec.Match[i].For = v1alpha1.Duration{}
	}
	spec.Recovery.HealthyFor = *Duration(healthyFor)
	return spec
}

// Apply applies a policy to this node alone.
func (n *Node) Apply(name string, spec v1alpha1.RemedyPolicySpec) {
	n.Helper()
	labels := map[string]string{corev1.LabelHostname: n.NodeName}
	spec.NodeSelector = &metav1.LabelSelector{MatchLabels: labels}
	// The node has only just joined, and is broken several times.
	spec.DelayAfterJoin, spec.Cooldown = Duration(0), Duration(0)
	if spec.Recovery.HealthyFor.Duration == 0 {
		spec.Recovery.HealthyFor = *Duration(healthyFor)
	}
	n.Must(n.API.Create(n.Ctx, &v1alpha1.RemedyPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: spec}))
}

// Duration returns one as the API has it.
func Duration(d time.Duration) *v1alpha1.Duration { return &v1alpha1.Duration{Duration: d} }
