package v1alpha1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// OutOfServiceAnnotation on a node says that Nodemend has set the taint out-of-service of that
// node; its value is an [OutOfServiceMark]. Without it the taint is somebody else's, and stays so.
const OutOfServiceAnnotation = "nodemend.dev/out-of-service"

// outOfServiceValue is what the value of our taint begins with. The boot ID follows.
const outOfServiceValue = "nodemend-"

// OutOfServiceMark says for what Nodemend has set a node's taint out-of-service.
//
// +kubebuilder:object:generate=false
type OutOfServiceMark struct {
	// BootID is the boot that is over, as the proof says.
	BootID string
	// Action is the name of the NodeAction that has the proof; of a NodeMaintenance that has it,
	// what [ProofOfMaintenance] returns.
	Action string
	// Moved: no pod that the taint ends and no VolumeAttachment of the node was left.
	Moved bool
}

const moved = "moved"

// maintenancePrefix is what no name of a NodeAction begins with.
const maintenancePrefix = "maintenance/"

// ProofOfMaintenance is the Action of a mark whose proof a NodeMaintenance has.
func ProofOfMaintenance(name string) string { return maintenancePrefix + name }

// Maintenance returns the name of the NodeMaintenance that has the proof; false: a NodeAction has it.
func (m OutOfServiceMark) Maintenance() (name string, is bool) {
	return strings.CutPrefix(m.Action, maintenancePrefix)
}

// String is the value of the annotation: "BOOTID ACTION", or "BOOTID maintenance/NAME", and " moved"
// in the end.
func (m OutOfServiceMark) String() string {
	if m.Moved {
		return m.BootID + " " + m.Action + " " + moved
	}
	return m.BootID + " " + m.Action
}

// Taint returns the taint that belongs to the mark.
func (m OutOfServiceMark) Taint() corev1.Taint {
	return corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: outOfServiceValue + m.BootID, Effect: corev1.TaintEffectNoExecute}
}

// OutOfServiceMarkOf returns the mark of a node; false: it has none, or one that says nothing.
func OutOfServiceMarkOf(node *corev1.Node) (m OutOfServiceMark, ok bool) {
	words := strings.Split(node.Annotations[OutOfServiceAnnotation], " ")
	if len(words) < 2 || len(words) > 3 || words[0] == "" || words[1] == "" || len(words) == 3 && words[2] != moved {
		return m, false
	}
	return OutOfServiceMark{BootID: words[0], Action: words[1], Moved: len(words) == 3}, true
}

// OutOfService returns the index of the mark's own taint among those of the node, -1 if it is not
// there, and whether the node has a taint out-of-service of somebody else.
func (m OutOfServiceMark) OutOfService(node *corev1.Node) (own int, others bool) {
	want := m.Taint()
	isOwn := func(t corev1.Taint) bool {
		return t.Key == want.Key && t.Value == want.Value && t.Effect == want.Effect
	}
	return slices.IndexFunc(node.Spec.Taints, isOwn), slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == want.Key && !isOwn(t)
	})
}

// IsOutOfService reports whether anybody has set the taint out-of-service of the node.
func IsOutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}
