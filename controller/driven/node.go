package driven

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/others"
)

// nodeNameAnnotation, on a request, names its node (pkg/annotations of medik8s/common).
const nodeNameAnnotation = "remediation.medik8s.io/node-name"

// nodeOf returns the name of the node that a request is for: by the annotation of NodeHealthCheck, by
// the Machine that owns it, or by its own name.
func (r *Reconciler) nodeOf(ctx context.Context, asked *v1alpha1.NodemendRemediation) (name string, unclear verdict, err error) {
	owner := machineOf(asked)
	annotated := asked.Annotations[nodeNameAnnotation]
	if owner == nil || annotated != "" {
		name, unclear = named(asked.Name, annotated)
		return name, unclear, nil
	}
	machine, err := others.Machine(ctx, r.Live, types.NamespacedName{Namespace: asked.Namespace, Name: owner.Name})
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return "", verdict{v1alpha1.ReasonNodeNotFound, fmt.Sprintf("there is no Machine %s/%s in this cluster, whose node it is for", asked.Namespace, owner.Name)}, nil
	case err != nil:
		return "", verdict{}, fmt.Errorf("reading Machine %s/%s: %w", asked.Namespace, owner.Name, err)
	}
	name, unclear = nodeOfMachine(machine, owner.UID)
	return name, unclear, nil
}

// named returns the node's name by that of the request, and by its annotation if there is one. A
// NodeHealthCheck names its objects as the node, with an ending if there may be several.
func named(request, annotated string) (node string, unclear verdict) {
	switch {
	case annotated == "" || annotated == request:
		return request, verdict{}
	case strings.HasPrefix(request, annotated+"-"):
		return annotated, verdict{}
	default:
		return "", verdict{v1alpha1.ReasonNodeUnclear, fmt.Sprintf(
			"the annotation %s says %s, and the name of the object, %s, says another node", nodeNameAnnotation, annotated, request)}
	}
}

// machineOf returns the Machine of Cluster API that owns the request, nil if none does.
func machineOf(asked *v1alpha1.NodemendRemediation) *v1alpha1.RequestOwner {
	request := v1alpha1.NewRequest(asked)
	for i := range request.Owners {
		if owner := &request.Owners[i]; owner.Group == others.MachineGroup && owner.Kind == others.MachineKind {
			return owner
		}
	}
	return nil
}

// nodeOfMachine returns the name of the Machine's node.
func nodeOfMachine(machine *unstructured.Unstructured, uid types.UID) (name string, unclear verdict) {
	if machine.GetUID() != uid {
		return "", verdict{v1alpha1.ReasonNodeNotFound, fmt.Sprintf("Machine %s/%s, whose node it is for, has been created anew", machine.GetNamespace(), machine.GetName())}
	}
	name, _, _ = unstructured.NestedString(machine.Object, "status", "nodeRef", "name") // or it has none
	if name == "" {
		return "", verdict{v1alpha1.ReasonNodeNotFound, fmt.Sprintf("Machine %s/%s has no node: its status.nodeRef is empty", machine.GetNamespace(), machine.GetName())}
	}
	return name, verdict{}
}

// ofThisCluster says why a node of the name that a Machine says is not the Machine's: Machines of other
// clusters are in a management cluster, too, whose nodes may have the same names. Cluster API marks
// the nodes of its Machines.
func (l *look) ofThisCluster() verdict {
	owner := machineOf(l.asked)
	if owner == nil || l.node == nil || l.asked.Annotations[nodeNameAnnotation] != "" {
		return verdict{}
	}
	if others.IsOfMachine(l.node, types.NamespacedName{Namespace: l.asked.Namespace, Name: owner.Name}) {
		return verdict{}
	}
	return verdict{v1alpha1.ReasonNodeUnclear, fmt.Sprintf("Node %s is not that of Machine %s/%s, by its annotations: the Machine is of another cluster",
		l.node.Name, l.asked.Namespace, owner.Name)}
}
