package maintenance

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fieldmanager"
	"github.com/nodemend/nodemend/controller/optimistic"
	"github.com/nodemend/nodemend/controller/others"
)

const (
	uidPath           = "/metadata/uid"
	annotationsPath   = "/metadata/annotations"
	unschedulablePath = "/spec/unschedulable"
	conditionsPath    = "/status/conditions/"
)

var (
	unschedulableField = fieldpath.MakePathOrDie("spec", "unschedulable")
	markField          = fieldpath.MakePathOrDie("metadata", "annotations", v1alpha1.CordonedAnnotation)
)

// markPath is that of the annotation that marks a cordon as ours.
var markPath = annotationsPath + "/" + strings.ReplaceAll(v1alpha1.CordonedAnnotation, "/", "~1")

// operation is one of a JSON patch (RFC 6902).
type operation = optimistic.Operation

// cordonPatch returns the patch that cordons the node and marks the cordon as ours, in
// one step that fails if anybody else has cordoned it meanwhile, if it is another node of
// that name, or if it was not Ready and is now: the permit may be for a node that is out
// already. It returns nil if the node is cordoned: a cordon without the mark
// is somebody else's, and stays so. busy: Karpenter is not to repair the node meanwhile.
func cordonPatch(node *corev1.Node, mark string, busy bool) []operation {
	if node.Spec.Unschedulable {
		return nil
	}
	patch := []operation{
		{Op: "test", Path: uidPath, Value: node.UID},
		{Op: "test", Path: unschedulablePath, Value: optimistic.Absent()},
		{Op: "add", Path: unschedulablePath, Value: true},
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			path := conditionsPath + strconv.Itoa(i)
			patch = append([]operation{{Op: "test", Path: path + "/type", Value: c.Type}, {Op: "test", Path: path + "/status", Value: c.Status}}, patch...)
		}
	}
	if former, marked := marked(node); marked { // somebody has uncordoned it
		return append(patch, operation{Op: "test", Path: markPath, Value: former})
	}
	veto := busy && mayVeto(node)
	if node.Annotations == nil {
		marks := map[string]string{v1alpha1.CordonedAnnotation: mark}
		if veto {
			marks[others.DoNotRepairAnnotation], marks[v1alpha1.RepairHeldAnnotation] = "true", mark
		}
		return append(patch, operation{Op: "test", Path: annotationsPath, Value: optimistic.Absent()},
			operation{Op: "add", Path: annotationsPath, Value: marks})
	}
	patch = append(patch, operation{Op: "add", Path: markPath, Value: mark})
	if veto {
		patch = append(patch, operation{Op: "test", Path: vetoPath, Value: optimistic.Absent()},
			operation{Op: "add", Path: vetoPath, Value: "true"}, operation{Op: "add", Path: vetoMarkPath, Value: mark})
	}
	return patch
}

// uncordonPatch returns the patch that takes back our cordon and what we have forbidden Karpenter, with their
// marks, in one step that fails if a mark is not what it was. It returns nil for a node without one.
func uncordonPatch(node *corev1.Node) []operation {
	mark, marked := marked(node)
	if !marked {
		return liftPatch(node)
	}
	patch := []operation{{Op: "test", Path: markPath, Value: mark}, {Op: "remove", Path: markPath}}
	if node.Spec.Unschedulable && cordonIsOurs(node) {
		patch = append(patch, operation{Op: "remove", Path: unschedulablePath})
	}
	return append(patch, liftPatch(node)...)
}

// cordonIsOurs reports whether the cordon of a node that has our mark is as we have set it.
func cordonIsOurs(node *corev1.Node) bool {
	return fieldmanager.Ours(node.ManagedFields, unschedulableField, markField)
}

// touched reports whether the node has a mark of ours.
func touched(node *corev1.Node) bool {
	_, cordoned := marked(node)
	return cordoned || vetoed(node)
}

// marked returns the mark of our cordon.
func marked(node *corev1.Node) (mark string, ok bool) {
	mark, ok = node.Annotations[v1alpha1.CordonedAnnotation]
	return mark, ok
}
