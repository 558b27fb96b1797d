//go:build e2e

package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/test/e2e/story"
)

// cut is what was known of a node when its machine lost the cable.
type cut struct {
	at         time.Time
	conditions []string
	// incident is the name of the newest remediation.
	incident string
	actions  []v1alpha1.NodeAction
	cordoned bool
}

// late is how long a request that was sent before may take to arrive.
const late = 5 * time.Second

// cutOff takes the cable from the machine.
func (n *node) cutOff() {
	n.Helper()
	n.kubelet.cutOff.Store(true)
	n.Must(n.machine.SetLink(n.Ctx, false))
	n.Log("the machine is cut off from the API server")
	n.cut = cut{at: time.Now(), conditions: n.transitions(), incident: n.incident(), actions: n.actions(), cordoned: n.Object().Spec.Unschedulable}
}

// reconnect puts the cable back, once the machine was without for as long as an outage
// takes. Meanwhile the cluster has to have missed the node, its conditions have to have
// stayed as they were, and nothing may have been started. These actions were not to be
// reported before.
func (n *node) reconnect(unreported ...*v1alpha1.NodeAction) {
	n.Helper()
	n.Until(moment, "the node is given up", n.Is(corev1.NodeReady, corev1.ConditionUnknown))
	left := time.Until(n.cut.at.Add(outage))
	n.Until(max(0, left)+moment, "the machine was cut off for "+outage.String(), func() (bool, string) {
		return time.Since(n.cut.at) >= outage, ""
	})
	n.unheard(unreported)
	n.Must(n.machine.SetLink(n.Ctx, true))
	n.kubelet.cutOff.Store(false)
	n.Until(moment, "the node is Ready again", n.Is(corev1.NodeReady, corev1.ConditionTrue))
}

// unheard ends the test with an error if anything has come from the machine, or was
// ordered, since it was cut off.
func (n *node) unheard(unreported []*v1alpha1.NodeAction) {
	n.Helper()
	if now := n.transitions(); !slices.Equal(now, n.cut.conditions) {
		n.Fatalf("nobody has heard of the node, and its conditions have changed from %q to %q", n.cut.conditions, now)
	}
	for _, c := range n.Object().Status.Conditions {
		if ours(c) && c.LastHeartbeatTime.After(n.cut.at.Add(late)) {
			n.Fatalf("although the machine was cut off at %s: %s", n.cut.at.UTC().Format(time.TimeOnly), story.Describe(c))
		}
	}
	if now := n.incident(); now != n.cut.incident {
		n.Fatalf("although nobody has heard of the node, remediation %q was started after %q", now, n.cut.incident)
	}
	if now := n.Object().Spec.Unschedulable; now != n.cut.cordoned {
		n.Fatalf("although nobody has heard of the node, it was cordoned: %t, and now: %t", n.cut.cordoned, now)
	}
	now := n.actions()
	if names(now) != names(n.cut.actions) {
		n.Fatalf("although nobody has heard of the node, it has the actions %s, and had %s", names(now), names(n.cut.actions))
	}
	for _, action := range unreported {
		i := slices.IndexFunc(now, func(a v1alpha1.NodeAction) bool { return a.Name == action.Name })
		if i < 0 || now[i].Finished() != nil {
			n.Fatalf("action %s has ended before the cable was back: %+v", action.Name, now)
		}
	}
}

// transitions are the Node's conditions that a check has set, and when they changed.
func (n *node) transitions() []string {
	n.Helper()
	var all []string
	for _, c := range n.Object().Status.Conditions {
		if ours(c) {
			all = append(all, fmt.Sprintf("%s=%s since %s", c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.TimeOnly)))
		}
	}
	return all
}

// ours reports whether a condition is one that the node's detector sets: none of the kubelet's, nor of who
// looks at the machine from outside.
func ours(c corev1.NodeCondition) bool {
	return !v1alpha1.KubeletOwned(string(c.Type)) && c.Type != v1alpha1.NodeFenceable
}

// incident returns the name of the node's newest remediation, "" if there is none.
func (n *node) incident() string {
	n.Helper()
	if r := n.Remediation(); r != nil {
		return r.Name
	}
	return ""
}

// actions returns all that were ordered of the node.
func (n *node) actions() []v1alpha1.NodeAction {
	n.Helper()
	var list v1alpha1.NodeActionList
	n.Must(n.plane.List(n.Ctx, &list, client.MatchingFields{"spec.nodeName": n.name}))
	slices.SortFunc(list.Items, func(a, b v1alpha1.NodeAction) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

func names(actions []v1alpha1.NodeAction) string {
	var all []string
	for i := range actions {
		all = append(all, actions[i].Name)
	}
	return strings.Join(all, ", ")
}
