package machines

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
)

// What Cluster API marks its objects with (api/core/v1beta2/common_types.go, machine_types.go and
// cluster_types.go of cluster-api).
const (
	clusterAPIGroup = "cluster.x-k8s.io"
	// controlPlaneGroup is that of the controllers of control planes, by convention.
	controlPlaneGroup = "controlplane.cluster.x-k8s.io"

	machineAnnotation          = "cluster.x-k8s.io/machine"
	machineNamespaceAnnotation = "cluster.x-k8s.io/cluster-namespace"
	clusterLabel               = "cluster.x-k8s.io/cluster-name"
	pausedAnnotation           = "cluster.x-k8s.io/paused"
	skipAnnotation             = "cluster.x-k8s.io/skip-remediation"
	// remediateAnnotation, on a Machine that a MachineHealthCheck selects, has it remediated at
	// once. Its value says nothing to Cluster API, and to us by whom it is.
	remediateAnnotation = "cluster.x-k8s.io/remediate-machine"

	ownerRemediated      = "OwnerRemediated"
	externallyRemediated = "ExternallyRemediated"
)

// machineVersions are those of Cluster API's own kinds that are known, newest first.
func machineVersions() []string { return []string{"v1beta2", "v1beta1"} }

// clusterAPI has the Machines of one Cluster.
type clusterAPI struct {
	objects
	config remote.ClusterAPI
}

// of implements owner.
func (c clusterAPI) of(ctx context.Context, node *corev1.Node, request *v1alpha1.Request) (none runner.Machine, refusal string, err error) {
	o := v1alpha1.ExternalObject{
		APIVersion: clusterAPIGroup + "/v1beta2", Kind: "Machine",
		Namespace: node.Annotations[machineNamespaceAnnotation], Name: node.Annotations[machineAnnotation],
	}
	if o.Namespace != c.config.Namespace {
		return none, fmt.Sprintf("the annotations of node %s name %s, and replace.clusterAPI of remote.yaml allows Machines of namespace %q alone", node.Name, o.String(), c.config.Namespace), nil
	}
	machine, err := read(ctx, c, &o, machineVersions())
	if err != nil {
		return none, "", err
	}
	if machine == nil {
		return none, fmt.Sprintf("there is no %s, which the annotations of node %s name", o.String(), node.Name), nil
	}
	if refusal = c.notOf(machine, node); refusal != "" {
		return none, refusal, nil
	}
	if refusal = left(machine, request); refusal != "" {
		return none, refusal, nil
	}
	if refusal, err = c.paused(ctx); refusal != "" || err != nil {
		return none, refusal, err
	}
	owner, refusal, err := c.maker(ctx, machine)
	if refusal != "" || err != nil {
		return none, refusal, err
	}
	m := runner.Machine{Object: named(machine), Owner: named(owner), Version: machine.GetResourceVersion()}
	m.Method, err = c.method(ctx, machine)
	return m, "", err
}

// notOf says why a Machine is not that of the node. Its annotations can be written by whoever has root
// on the node; spec.providerID of a Node can't be changed, and the Machine's is of Cluster API.
func (c clusterAPI) notOf(machine *unstructured.Unstructured, node *corev1.Node) string {
	o := named(machine)
	if cluster := text(machine, "spec", "clusterName"); cluster != c.config.Cluster {
		return fmt.Sprintf("%s is of Cluster %q, and replace.clusterAPI of remote.yaml says that this cluster is %q", o.String(), cluster, c.config.Cluster)
	}
	name, uid := text(machine, "status", "nodeRef", "name"), text(machine, "status", "nodeRef", "uid")
	provider := text(machine, "spec", "providerID")
	switch {
	case name != node.Name || uid != "" && uid != string(node.UID):
		return fmt.Sprintf("%s, which the annotations of node %s name, is not that of this node: its status.nodeRef is %q. Who has written these annotations?", o.String(), node.Name, name)
	case provider == "" || provider != node.Spec.ProviderID:
		return fmt.Sprintf("%s, which the annotations of node %s name, is not that of this node: its spec.providerID is %q, and that of the node %q", o.String(), node.Name, provider, node.Spec.ProviderID)
	default:
		return ""
	}
}

// left says why a Machine is left to others. That it is being remediated by another program means us,
// if a MachineHealthCheck has asked us for it.
func left(machine *unstructured.Unstructured, request *v1alpha1.Request) string {
	o, annotations, all := named(machine), machine.GetAnnotations(), conditions(machine)
	asked := request != nil && request.Namespace == o.Namespace && request.OwnedBy(clusterAPIGroup, o.Kind, o.Name)
	has := func(annotation string) bool { _, is := annotations[annotation]; return is }
	falsely := func(kind string) bool { return all[kind].status == string(metav1.ConditionFalse) }
	switch {
	case machine.GetDeletionTimestamp() != nil:
		return fmt.Sprintf("%s is being deleted since %s", o.String(), stamp(machine.GetDeletionTimestamp().Time))
	case has(pausedAnnotation):
		return fmt.Sprintf("%s is paused: annotation %s", o.String(), pausedAnnotation)
	case has(skipAnnotation):
		return fmt.Sprintf("%s is not to be remediated: annotation %s", o.String(), skipAnnotation)
	case has(remediateAnnotation):
		return fmt.Sprintf("%s is to be remediated already: annotation %s", o.String(), remediateAnnotation)
	case falsely(ownerRemediated):
		return fmt.Sprintf("%s is about to be replaced by its owner: condition %s", o.String(), ownerRemediated)
	case falsely(externallyRemediated) && !asked:
		return fmt.Sprintf("%s is being remediated by another program: condition %s", o.String(), externallyRemediated)
	default:
		return ""
	}
}

// paused says why nothing is done with machines of the Cluster.
func (c clusterAPI) paused(ctx context.Context) (string, error) {
	o := v1alpha1.ExternalObject{APIVersion: clusterAPIGroup + "/v1beta2", Kind: "Cluster", Namespace: c.config.Namespace, Name: c.config.Cluster}
	cluster, err := read(ctx, c, &o, machineVersions())
	if err != nil {
		return "", err
	}
	if cluster == nil {
		return fmt.Sprintf("there is no %s, which replace.clusterAPI of remote.yaml names", o.String()), nil
	}
	paused, _, _ := unstructured.NestedBool(cluster.Object, "spec", "paused")
	_, annotated := cluster.GetAnnotations()[pausedAnnotation]
	switch {
	case paused || annotated:
		return fmt.Sprintf("%s is paused, so nobody would replace its machines", o.String()), nil
	case cluster.GetDeletionTimestamp() != nil:
		return fmt.Sprintf("%s is being deleted, so nobody would replace its machines", o.String()), nil
	default:
		return "", nil
	}
}

// maker returns who makes a new Machine in the place of this one; the refusal says that nobody does.
func (c clusterAPI) maker(ctx context.Context, machine *unstructured.Unstructured) (owner *unstructured.Unstructured, refusal string, err error) {
	o, by := named(machine), "which no MachineSet and no control plane owns as its controller"
	ref, uid := controllerOf(machine)
	if ref != nil {
		by = "which " + ref.String() + " owns"
	}
	gvk := schema.GroupVersionKind{}
	if ref != nil {
		gvk = schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	}
	if gvk.Group != controlPlaneGroup && gvk.GroupKind() != (schema.GroupKind{Group: clusterAPIGroup, Kind: "MachineSet"}) {
		return nil, fmt.Sprintf("nobody is known to make a new machine in the place of %s, %s", o.String(), by), nil
	}
	versions := slices.Compact(append([]string{gvk.Version}, machineVersions()...))
	if owner, err = read(ctx, c, ref, versions); err != nil {
		return nil, "", err
	}
	if why := makesNone(owner, uid); why != "" {
		return nil, fmt.Sprintf("nobody would make a new machine in the place of %s, %s: %s", o.String(), by, why), nil
	}
	if wants, has := number(owner, 1, "spec", "replicas"), number(owner, 0, "status", "replicas"); has > wants {
		return nil, fmt.Sprintf("%s, %s, would not be replaced: its owner has %d machines, and wants %d", o.String(), by, has, wants), nil
	}
	return owner, "", nil
}

// makesNone says why an owner with this UID makes no new machines.
func makesNone(owner *unstructured.Unstructured, uid types.UID) string {
	switch {
	case owner == nil:
		return "it is gone"
	case owner.GetUID() != uid:
		return "it was deleted and created again"
	case owner.GetDeletionTimestamp() != nil:
		return "it is being deleted since " + stamp(owner.GetDeletionTimestamp().Time)
	}
	if _, paused := owner.GetAnnotations()[pausedAnnotation]; paused {
		return "it is paused: annotation " + pausedAnnotation
	}
	return ""
}

// method says how the Machine is replaced: by its owner's own remediation, with its limits, where a
// MachineHealthCheck selects it that does not leave that to another program.
func (c clusterAPI) method(ctx context.Context, machine *unstructured.Unstructured) (v1alpha1.ReplaceMethod, error) {
	kind := schema.GroupKind{Group: clusterAPIGroup, Kind: "MachineHealthCheck"}
	checks, _, err := list(ctx, c, kind, machineVersions(), client.InNamespace(machine.GetNamespace()))
	if err != nil {
		return "", err
	}
	method := v1alpha1.ReplaceDelete
	for i := range checks {
		check := &checks[i]
		_, paused := check.GetAnnotations()[pausedAnnotation]
		if paused || check.GetDeletionTimestamp() != nil || text(check, "spec", "clusterName") != c.config.Cluster || !selects(check, machine) {
			continue
		}
		_, newer, _ := unstructured.NestedMap(check.Object, "spec", "remediation", "templateRef")
		_, older, _ := unstructured.NestedMap(check.Object, "spec", "remediationTemplate")
		if newer || older { // it would ask that program, which may be us
			return v1alpha1.ReplaceDelete, nil
		}
		method = v1alpha1.ReplaceRemediate
	}
	return method, nil
}

// selects reports whether a MachineHealthCheck selects the Machine. An empty selector selects none.
func selects(check, machine *unstructured.Unstructured) bool {
	fields, _, _ := unstructured.NestedMap(check.Object, "spec", "selector")
	if len(fields) == 0 {
		return false
	}
	var of metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &of); err != nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(&of)
	return err == nil && !selector.Empty() && selector.Matches(labels.Set(machine.GetLabels()))
}

// look implements owner.
func (c clusterAPI) look(ctx context.Context, of *v1alpha1.ReplaceStatus, action string, _ time.Time) (runner.MachineSeen, error) {
	return c.seen(ctx, of, func(machine *unstructured.Unstructured) runner.MachineSeen { return c.state(machine, action) })
}

// state is what is known of a Machine that is there, for an action of this name.
func (clusterAPI) state(machine *unstructured.Unstructured, action string) runner.MachineSeen {
	all := conditions(machine)
	seen := runner.MachineSeen{
		Marked:  machine.GetAnnotations()[remediateAnnotation] == action,
		Leaving: begun(all[ownerRemediated]),
		Said:    tell(machine, ownerRemediated, "Deleting"),
	}
	if seen.Marked && !seen.Leaving {
		seen.Said = "; it is marked with " + remediateAnnotation + ", and its owner has not begun" + tell(machine, "HealthCheckSucceeded", ownerRemediated)
	}
	return seen
}

// begun reports whether the owner of a Machine that is to be remediated may have begun with it. An owner that says
// that it can't, or not yet, has not, and takes back what it has said once the mark is gone: MachineSet and
// KubeadmControlPlane both give these reasons.
func begun(remediated condition) bool {
	waits := remediated.reason == "CannotBeRemediated" || remediated.reason == "RemediationDeferred"
	return remediated.status == string(metav1.ConditionFalse) && !waits
}

// group implements owner.
func (c clusterAPI) group(ctx context.Context, of *v1alpha1.ReplaceStatus) (runner.MachineGroup, error) {
	group := runner.MachineGroup{Wants: -1}
	versions := slices.Compact(append([]string{schema.FromAPIVersionAndKind(of.Owner.APIVersion, of.Owner.Kind).Version}, machineVersions()...))
	owner, err := read(ctx, c, &of.Owner, versions)
	if err != nil {
		return group, err
	}
	if owner == nil || owner.GetUID() != of.Owner.UID || owner.GetDeletionTimestamp() != nil {
		group.Gone = of.Owner.String() + ": " + makesNone(owner, of.Owner.UID)
		return group, nil
	}
	group.Wants = int32(min(number(owner, 1, "spec", "replicas"), 1<<30)) //nolint:gosec // bounded
	kind := schema.GroupKind{Group: clusterAPIGroup, Kind: "Machine"}
	all, _, err := list(ctx, c, kind, machineVersions(), client.InNamespace(c.config.Namespace), client.MatchingLabels{clusterLabel: c.config.Cluster})
	if err != nil {
		return group, err
	}
	for i := range all {
		machine := &all[i]
		_, uid := controllerOf(machine)
		if name := text(machine, "status", "nodeRef", "name"); uid == of.Owner.UID && machine.GetDeletionTimestamp() == nil && name != "" {
			group.Nodes = append(group.Nodes, name)
		}
	}
	return group, nil
}
