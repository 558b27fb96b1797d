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
	// remediateAnnotation, on a Machine, has its MachineHealthCheck remediate it at once;
	// externallyRemediated is False while another program does.
	remediateAnnotation  = "cluster.x-k8s.io/remediate-machine"
	externallyRemediated = "ExternallyRemediated"
	// healthCheckSucceeded is what a MachineHealthCheck says of the node. True ends what it has asked for.
	healthCheckSucceeded = "HealthCheckSucceeded"
)

// said is what an annotation or a condition of a Machine says of it.
type said struct{ by, what string }

// machineAnnotations are those by which people tell what becomes of a Machine.
func machineAnnotations() []said {
	return []said{
		{remediateAnnotation, "is to be remediated"},
		{"cluster.x-k8s.io/skip-remediation", "is not to be remediated"},
		{"cluster.x-k8s.io/paused", "is paused"},
	}
}

// machineConditions are those that are False while a MachineHealthCheck has a Machine remediated. They
// count until that takes the node for well: nobody takes ExternallyRemediated back then, and an owner replaces
// no Machine that is well (core/reconcilers/machinehealthcheck and util/collections of cluster-api 1.14). That
// HealthCheckSucceeded is False says nothing: it is so while nothing is done, too, and stays so when the
// MachineHealthCheck is deleted.
func machineConditions() []said {
	return []said{
		{"OwnerRemediated", "is about to be replaced by its owner"},
		{externallyRemediated, "is being remediated by another program"},
	}
}

// machine asks the Machine of the node. It mostly is in another cluster, and then not found.
func machine(ctx context.Context, c client.Reader, node *corev1.Node, step Step) (Hold, error) {
	key := machineKey(node)
	if key.Name == "" || key.Namespace == "" {
		return Hold{}, nil
	}
	m, err := Machine(ctx, c, key)
	if err != nil {
		return Hold{}, err
	}
	r := step.Request
	return machineHeld(m, node.Name, r != nil && r.Namespace == key.Namespace && r.OwnedBy(MachineGroup, MachineKind, key.Name)), nil
}

// machineKey names the Machine of a node, by what Cluster API has marked it with.
func machineKey(node *corev1.Node) types.NamespacedName {
	return types.NamespacedName{Namespace: node.Annotations[machineNamespaceAnnotation], Name: node.Annotations[machineAnnotation]}
}

// IsOfMachine reports whether the node, as the API server has it, is marked as that of a Machine.
func IsOfMachine(node *corev1.Node, machine types.NamespacedName) bool {
	return machineKey(node) == machine
}

// MachineGroup and MachineKind are those of Cluster API's Machines.
const (
	MachineGroup = "cluster.x-k8s.io"
	MachineKind  = "Machine"
)

// Machine reads a Machine of Cluster API, in the newest of the versions that is served.
func Machine(ctx context.Context, c client.Reader, key types.NamespacedName) (*unstructured.Unstructured, error) {
	return get(ctx, c, MachineGroup, MachineKind, []string{"v1beta2", "v1beta1"}, key)
}

// machineHeld says what holds the node of a Machine. driven: it is for that Machine that a
// MachineHealthCheck has asked us; that it is being remediated means us then.
func machineHeld(m *unstructured.Unstructured, node string, driven bool) Hold {
	held := func(why string) Hold {
		return Hold{Why: fmt.Sprintf("Machine %s/%s of node %s %s", m.GetNamespace(), m.GetName(), node, why)}
	}
	if at := m.GetDeletionTimestamp(); at != nil {
		return held("is being deleted since " + stamp(at.Time))
	}
	for _, s := range machineAnnotations() {
		if _, is := m.GetAnnotations()[s.by]; is && (!driven || s.by != remediateAnnotation) {
			return held(s.what + ": annotation " + s.by)
		}
	}
	statuses := conditions(m)
	if statuses[healthCheckSucceeded] == corev1.ConditionTrue {
		return Hold{}
	}
	for _, s := range machineConditions() {
		if statuses[s.by] == corev1.ConditionFalse && (!driven || s.by != externallyRemediated) {
			return held(s.what + ": condition " + s.by)
		}
	}
	return Hold{}
}
