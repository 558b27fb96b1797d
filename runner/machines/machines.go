// Package machines has the machines under nodes replaced by the programs that own them: a Machine of
// Cluster API, which may be in another cluster, a NodeClaim of Karpenter, or a server of a cluster of
// OpenStack's Magnum.
//
// Nothing of theirs is kept or watched: all is read when it is asked for, and what is written names
// the UID and the version that were read. What a node carries finds its machine, and is believed in
// nothing: whoever has root on a node can write most of it. So the machine has to name the node, by
// what only its owner writes.
package machines

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodemend/nodemend/config/remote"
	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/runner"
)

// fieldManager is the name under which API servers record what is written.
const fieldManager = client.FieldOwner("nodemend-remote-runner")

// answerTime is how long an answer is waited for: webhooks of the other programs may be on a dead
// node.
const answerTime = 15 * time.Second

// Options say what Machines has to do with the world. All are required.
type Options struct {
	// Config returns what may be replaced, as the file has it now; nil: nothing.
	Config func() (*remote.Replace, error)
	// Here returns a client of this cluster, Elsewhere one of the cluster of a kubeconfig.
	Here      func() (client.Client, error)
	Elsewhere func(kubeconfig string) (client.Client, error)
}

// Machines implements runner.Machines.
type Machines struct{ o Options }

// New returns Machines.
func New(o Options) *Machines { return &Machines{o} }

// owner is a program that owns machines.
type owner interface {
	of(ctx context.Context, node *corev1.Node, request *v1alpha1.Request) (m runner.Machine, refusal string, err error)
	send(ctx context.Context, machine *runner.Machine, action string) error
	takeBack(ctx context.Context, of *v1alpha1.ReplaceStatus, seen runner.MachineSeen) error
	look(ctx context.Context, of *v1alpha1.ReplaceStatus, action string, now time.Time) (runner.MachineSeen, error)
	group(ctx context.Context, of *v1alpha1.ReplaceStatus) (runner.MachineGroup, error)
}

// Of implements runner.Machines.
func (m *Machines) Of(ctx context.Context, node *corev1.Node, request *v1alpha1.Request) (runner.Machine, string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	group := ""
	_, claimed := node.Labels[nodePoolLabel]
	_, named := node.Annotations[machineAnnotation]
	switch {
	case claimed: // also if the instance of its NodeClaim is a Machine
		group = karpenterGroup
	case named:
		group = clusterAPIGroup
	case strings.HasPrefix(node.Spec.ProviderID, "openstack://"):
		group = openStackGroup
	default:
		return runner.Machine{}, fmt.Sprintf("node %s has neither the annotation %s of Cluster API nor the label %s of Karpenter, and its spec.providerID is not of OpenStack, so nobody would replace its machine",
			node.Name, machineAnnotation, nodePoolLabel), nil
	}
	by, refusal, err := m.owner(group)
	if err != nil || refusal != "" {
		return runner.Machine{}, refusal, err
	}
	found, refusal, err := by.of(ctx, node, request)
	return found, refusal, explained(err)
}

// owner returns the program of an API group, as it is configured.
func (m *Machines) owner(group string) (by owner, refusal string, err error) {
	config, err := m.o.Config()
	if err != nil {
		return nil, "", err
	}
	switch {
	case config == nil:
		return nil, "remote.yaml of the remote runner has no replace: no machine may be replaced", nil
	case group == karpenterGroup && !config.Karpenter:
		return nil, "remote.yaml of the remote runner does not have replace.karpenter: true, so no NodeClaim may be deleted", nil
	case group == karpenterGroup:
		api, err := m.o.Here()
		return karpenter{objects{api}}, "", err
	case group == openStackGroup && config.Magnum == nil:
		return nil, "remote.yaml of the remote runner does not have replace.magnum, so no server of OpenStack may be removed", nil
	case group == openStackGroup:
		api, err := m.o.Here()
		return magnum{nodes: api, config: *config.Magnum}, "", err
	case config.ClusterAPI == nil:
		return nil, "remote.yaml of the remote runner does not have replace.clusterAPI, so no Machine may be deleted", nil
	}
	var api client.Client
	if config.ClusterAPI.Kubeconfig == "" {
		api, err = m.o.Here()
	} else {
		api, err = m.o.Elsewhere(config.ClusterAPI.Kubeconfig)
	}
	return clusterAPI{objects{api}, *config.ClusterAPI}, "", err
}

// begun returns the program of a machine for which an action was claimed.
func (m *Machines) begun(of *v1alpha1.ReplaceStatus) (owner, error) {
	by, refusal, err := m.owner(schema.FromAPIVersionAndKind(of.Machine.APIVersion, of.Machine.Kind).Group)
	if err == nil && refusal != "" {
		err = fmt.Errorf("%s is being replaced, and can't be looked at: %s", of.Machine.String(), refusal)
	}
	return by, err
}

// Send implements runner.Machines.
func (m *Machines) Send(ctx context.Context, machine runner.Machine, action string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	by, err := m.begun(&v1alpha1.ReplaceStatus{Machine: machine.Object})
	if err != nil {
		return err
	}
	if err := by.send(ctx, &machine, action); err != nil {
		return fmt.Errorf("having %s replaced: %w", machine.Object.String(), explained(err))
	}
	return nil
}

// TakeBack implements runner.Machines.
func (m *Machines) TakeBack(ctx context.Context, of *v1alpha1.ReplaceStatus, seen runner.MachineSeen) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	by, err := m.begun(of)
	if err != nil {
		return err
	}
	if err := by.takeBack(ctx, of, seen); err != nil {
		return fmt.Errorf("taking back the mark of %s: %w", of.Machine.String(), explained(err))
	}
	return nil
}

// objects are those of an owner that has its machines in an API server of Kubernetes.
type objects struct{ client.Client }

// send has one deleted, or marked.
func (o objects) send(ctx context.Context, machine *runner.Machine, action string) (err error) {
	if machine.Method == v1alpha1.ReplaceRemediate {
		err = mark(ctx, o, &machine.Object, machine.Version, action)
	} else {
		err = o.Delete(ctx, empty(&machine.Object), client.Preconditions{UID: &machine.Object.UID, ResourceVersion: &machine.Version})
	}
	if apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err) {
		return nil
	}
	return err
}

// takeBack takes a mark away.
func (o objects) takeBack(ctx context.Context, of *v1alpha1.ReplaceStatus, seen runner.MachineSeen) error {
	return mark(ctx, o, &of.Machine, seen.Version, "")
}

// seen reads a machine, and has state say what its owner tells of it.
func (o objects) seen(ctx context.Context, of *v1alpha1.ReplaceStatus, state func(*unstructured.Unstructured) runner.MachineSeen) (runner.MachineSeen, error) {
	versions := []string{schema.FromAPIVersionAndKind(of.Machine.APIVersion, of.Machine.Kind).Version}
	machine, err := read(ctx, o, &of.Machine, versions)
	if err != nil || machine == nil || machine.GetUID() != of.Machine.UID {
		return runner.MachineSeen{}, err
	}
	seen := state(machine)
	seen.There, seen.Version = true, machine.GetResourceVersion()
	if at := machine.GetDeletionTimestamp(); at != nil {
		seen.Leaving = true
		seen.Said = fmt.Sprintf("it is being deleted since %s, and waits for its finalizers (%s)%s",
			stamp(at.Time), strings.Join(machine.GetFinalizers(), ", "), seen.Said)
	} else if seen.Said = strings.TrimPrefix(seen.Said, "; "); seen.Said == "" {
		seen.Said = "it is there"
	}
	return seen, nil
}

// mark sets the mark for remediation in the name of an action, or takes it away: "". It fails with a
// conflict unless the machine is in the version that was read.
func mark(ctx context.Context, api client.Client, o *v1alpha1.ExternalObject, version, action string) error {
	var value any // null: the annotation goes, and the others stay
	if action != "" {
		value = action
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.UID, "resourceVersion": version, "annotations": map[string]any{remediateAnnotation: value},
	}})
	if err != nil {
		return err
	}
	return api.Patch(ctx, empty(o), client.RawPatch(types.MergePatchType, patch), fieldManager)
}

// Look implements runner.Machines.
func (m *Machines) Look(ctx context.Context, of *v1alpha1.ReplaceStatus, action string, now time.Time) (runner.MachineSeen, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	by, err := m.begun(of)
	if err != nil {
		return runner.MachineSeen{}, err
	}
	seen, err := by.look(ctx, of, action, now)
	return seen, explained(err)
}

// Group implements runner.Machines.
func (m *Machines) Group(ctx context.Context, of *v1alpha1.ReplaceStatus) (runner.MachineGroup, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	by, err := m.begun(of)
	if err != nil {
		return runner.MachineGroup{}, err
	}
	group, err := by.group(ctx, of)
	return group, explained(err)
}

// empty is an object without anything but its name.
func empty(o *v1alpha1.ExternalObject) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	object.SetNamespace(o.Namespace)
	object.SetName(o.Name)
	return object
}

// named says which object one is.
func named(object *unstructured.Unstructured) v1alpha1.ExternalObject {
	return v1alpha1.ExternalObject{
		APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
	}
}

// read returns the object, in the first of these versions of its group that is served; nil: there is
// none. A kind that is not served in any of them is an error: nobody knows then.
func read(ctx context.Context, api client.Client, o *v1alpha1.ExternalObject, versions []string) (object *unstructured.Unstructured, err error) {
	gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	for _, version := range versions {
		object = empty(o)
		object.SetGroupVersionKind(gvk.GroupKind().WithVersion(version))
		if err = api.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Name}, object); !notServed(err) {
			break
		}
	}
	switch {
	case err == nil:
		return object, nil
	case apierrors.IsNotFound(err) && !notServed(err):
		return nil, nil
	default:
		return nil, fmt.Errorf("reading %s: %w", o.String(), err)
	}
}

// list returns the objects of a kind, in the first of the versions that is served. That none is served
// is told as such: no such object is there.
func list(ctx context.Context, api client.Client, kind schema.GroupKind, versions []string, options ...client.ListOption) (items []unstructured.Unstructured, served bool, err error) {
	for _, version := range versions {
		found := &unstructured.UnstructuredList{}
		found.SetGroupVersionKind(kind.WithVersion(version).GroupVersion().WithKind(kind.Kind + "List"))
		if err = api.List(ctx, found, options...); !notServed(err) {
			items = found.Items
			break
		}
	}
	if notServed(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, fmt.Errorf("listing %s: %w", kind, err)
	}
	return items, true, nil
}

// notServed reports whether the API server does not serve the kind, in this version.
func notServed(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err)
}

// explained adds what to do where an API server refuses.
func explained(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; the rights that replace needs: docs/others.md", err)
	}
	if notServed(err) {
		return fmt.Errorf("%w; is this the cluster, and the version, of the program that owns the machine?", err)
	}
	return err
}

// controllerOf returns who is named as the controller of an object, nil if nobody is.
func controllerOf(object *unstructured.Unstructured) (o *v1alpha1.ExternalObject, uid types.UID) {
	for _, ref := range object.GetOwnerReferences() {
		if ref.Controller != nil && *ref.Controller {
			return &v1alpha1.ExternalObject{APIVersion: ref.APIVersion, Kind: ref.Kind, Namespace: object.GetNamespace(), Name: ref.Name}, ref.UID
		}
	}
	return nil, ""
}

// text is a string of an object, "" if it is not there, or something else.
func text(object *unstructured.Unstructured, fields ...string) string {
	value, _, _ := unstructured.NestedString(object.Object, fields...)
	return value
}

// number is a number of an object, or what it is if it is left out.
func number(object *unstructured.Unstructured, leftOut int64, fields ...string) int64 {
	value, found, err := unstructured.NestedInt64(object.Object, fields...)
	if !found || err != nil {
		return leftOut
	}
	return value
}

// condition is one of an object.
type condition struct{ status, reason, message string }

func (c condition) String() string {
	return strings.Join(slices.DeleteFunc([]string{c.status, c.reason, c.message}, func(s string) bool { return s == "" }), ", ")
}

// conditions of an object, by their types.
func conditions(object *unstructured.Unstructured) map[string]condition {
	items, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // none that is not there, or no list
	all := map[string]condition{}
	for _, item := range items {
		fields, _ := item.(map[string]any)
		field := func(name string) string { value, _ := fields[name].(string); return value }
		all[field("type")] = condition{field("status"), field("reason"), field("message")}
	}
	return all
}

// tell appends what these conditions of an object say, if they say more than their status.
func tell(object *unstructured.Unstructured, kinds ...string) (said string) {
	all := conditions(object)
	for _, kind := range kinds {
		if c, is := all[kind]; is && (c.reason != "" || c.message != "") {
			said += "; " + kind + ": " + c.String()
		}
	}
	return said
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
