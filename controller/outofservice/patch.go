package outofservice

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/optimistic"
)

// operation is one of a JSON patch (RFC 6902).
type operation = optimistic.Operation

const (
	annotationsPath = "/metadata/annotations"
	taintsPath      = "/spec/taints"
)

var markPath = annotationsPath + "/" + strings.ReplaceAll(v1alpha1.OutOfServiceAnnotation, "/", "~1")

// unchanged are the tests that fail if the node is not as it was read: it, its boot, or anything
// else of it, Ready included.
func unchanged(node *corev1.Node) []operation {
	return []operation{
		{Op: "test", Path: "/metadata/uid", Value: node.UID},
		{Op: "test", Path: "/status/nodeInfo/bootID", Value: node.Status.NodeInfo.BootID},
		{Op: "test", Path: "/metadata/resourceVersion", Value: node.ResourceVersion},
	}
}

// setPatch returns the patch that sets the taint and its mark in one step.
func setPatch(node *corev1.Node, mark v1alpha1.OutOfServiceMark) []operation {
	patch := unchanged(node)
	if node.Annotations == nil {
		patch = append(patch, operation{Op: "test", Path: annotationsPath, Value: optimistic.Absent()},
			operation{Op: "add", Path: annotationsPath, Value: map[string]string{v1alpha1.OutOfServiceAnnotation: mark.String()}})
	} else {
		patch = append(patch, operation{Op: "add", Path: markPath, Value: mark.String()})
	}
	if len(node.Spec.Taints) == 0 {
		return append(patch, operation{Op: "add", Path: taintsPath, Value: []corev1.Taint{mark.Taint()}})
	}
	return append(patch, operation{Op: "add", Path: taintsPath + "/-", Value: mark.Taint()})
}

// removePatch returns the patch that takes the taint and its mark away in one step, and nothing
// that somebody else has set.
func removePatch(node *corev1.Node) []operation {
	mark, _ := v1alpha1.OutOfServiceMarkOf(node)
	own, _ := mark.OutOfService(node)
	path := taintsPath + "/" + strconv.Itoa(own)
	return append(unchanged(node),
		operation{Op: "test", Path: markPath, Value: node.Annotations[v1alpha1.OutOfServiceAnnotation]},
		operation{Op: "test", Path: path, Value: node.Spec.Taints[own]},
		operation{Op: "remove", Path: path},
		operation{Op: "remove", Path: markPath})
}

// unmarkPatch returns the patch that takes the mark away of a taint that somebody has taken away.
func unmarkPatch(node *corev1.Node) []operation {
	return append(unchanged(node), operation{Op: "remove", Path: markPath})
}

// tellPatch returns the patch by which the mark says that nothing is left.
func tellPatch(node *corev1.Node) []operation {
	mark, _ := v1alpha1.OutOfServiceMarkOf(node)
	mark.Moved = true
	return append(unchanged(node), operation{Op: "add", Path: markPath, Value: mark.String()})
}
