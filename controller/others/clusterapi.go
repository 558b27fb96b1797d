package others

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// machineAnnotation and machineNamespaceAnnotation, on a node, name its Machine
	// (api/core/v1beta2/machine_types.go and cluster_types.go of cluster-api).
	machineAnnotation          = "cluster.x-k8s.io/machine"
	machineNamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
)

// said is what an annotation or a condition of a Machine says of it.
type said struct{ by, what string }

// machineAnnotations are those by which people tell what becomes of a Machine.
func machineAnnotations() []said {
	return []said{
		{"cluster.x-k8s.io/remediate-machine", "is to be remediated"},
		{"cluster.x-k8s.io/skip-remediation", "is not to be remediated"},
		{"cluster.x-k8s.io/paused", "is paused"},
	}
}

// machineConditions are those that are False while a MachineHealthCheck has a Machine remediated.
// HealthCheckSucceeded is none of them: it is also False while nothing is done, and stays so when the
// MachineHealthCheck is deleted.
func machineConditions() []said {
	return []said{
		{"OwnerRemediated", "is about to be replaced by its owner"},
		{"ExternallyRemediated", "is being remediated by another program"},
	}
}

// machine asks the Machine of the node. It mostly is in another cluster, and then not found.
func machine(ctx context.Context, c client.Reader, node *corev1.Node, _ Step) (Hold, error) {
	key := types.NamespacedName{Namespace: node.Annotations[machineNamespaceAnnotation], Name: node.Annotations[machineAnnotation]}
	if key.Name == "" || key.Namespace == "" {
		return Hold{}, nil
	}
	m, err := get(ctx, c, "cluster.x-k8s.io", "Machine", []string{"v1beta2", "v1beta1"}, key)
	if err != nil {
		return Hold{}, err
	}
	return machineHeld(m, node.Name), nil
}

func machineHeld(m *unstructured.Unstructured, node string) Hold {
	held := func(why string) Hold {
		return Hold{Why: fmt.Sprintf("Machine %s/%s of node %s %s", m.GetNamespace(), m.GetName(), node, why)}
	}
	if at := m.GetDeletionTimestamp(); at != nil {
		return held("is being deleted since " + stamp(at.Time))
	}
	for _, s := range machineAnnotations() {
		if _, is := m.GetAnnotations()[s.by]; is {
			return held(s.what + ": annotation " + s.by)
		}
	}
	statuses := conditions(m)
	for _, s := range machineConditions() {
		if statuses[s.by] == corev1.ConditionFalse {
			return held(s.what + ": condition " + s.by)
		}
	}
	return Hold{}
}
