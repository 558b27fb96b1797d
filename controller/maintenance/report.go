package maintenance

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/internal/cut"
)

// Reasons of events.
const (
	eventCordoned  = "NodeCordoned"
	eventGivenBack = "NodeGivenBack"
)

// events of the Drained condition, by its reason. What is not there is told by nobody.
var drainEvents = map[string]string{
	v1alpha1.ReasonDraining:      "DrainStarted",
	v1alpha1.ReasonVetoed:        "DrainVetoed",
	v1alpha1.ReasonDrained:       "NodeDrained",
	v1alpha1.ReasonDrainTimedOut: "DrainTimedOut",
	v1alpha1.ReasonDrainAborted:  "DrainAborted",
}

// report tells people a change of the status that was written.
func (r *Reconciler) report(before, after *v1alpha1.NodeMaintenance) {
	old, now := before.Condition(v1alpha1.MaintenanceDrained), after.Condition(v1alpha1.MaintenanceDrained)
	if now == nil || old != nil && old.Reason == now.Reason {
		return
	}
	event, told := drainEvents[now.Reason]
	if !told {
		return
	}
	kind := corev1.EventTypeNormal
	if now.Reason == v1alpha1.ReasonDrainTimedOut || now.Reason == v1alpha1.ReasonDrainAborted {
		kind = corev1.EventTypeWarning
	}
	r.tell(after, kind, event, now.Message)
}

// tell tells people something on the maintenance and on its node.
func (r *Reconciler) tell(m *v1alpha1.NodeMaintenance, kind, reason, message string) {
	about := &corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeMaintenance", Name: m.Name, UID: m.UID}
	node := nodeReference(m.Spec.NodeName)
	r.Events.Eventf(about, node, kind, reason, "Maintenance", "%s", note(message))
	r.Events.Eventf(node, about, kind, reason, "Maintenance", "%s", note(m.Name+": "+message))
}

func (r *Reconciler) tellNode(name, kind, reason, message string) {
	r.Events.Eventf(nodeReference(name), nil, kind, reason, "Maintenance", "%s", note(message))
}

// note cuts a message to what an event takes.
func note(message string) string { return cut.Head(message, 1024) }

// nodeReference has its place among the node's events, which name the node by its name
// as UID.
func nodeReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)}
}
