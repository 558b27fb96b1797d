package external

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodemend/nodemend/config/v1alpha1"
	"github.com/nodemend/nodemend/controller/fleet"
	"github.com/nodemend/nodemend/internal/cut"
)

// The contract of NodeHealthCheck with its remediators: docs/workflow.md and
// internal/controller/resources/manager.go of node-healthcheck-operator, and pkg/annotations and
// pkg/conditions of medik8s/common.
const (
	nodeNameAnnotation     = "remediation.medik8s.io/node-name"
	templateNameAnnotation = "remediation.medik8s.io/template-name"
	// severalAnnotation, "true" on a template: its remediator knows a node by the annotation, so that
	// there may be objects of several templates for it.
	severalAnnotation = "remediation.medik8s.io/multiple-templates-support"
	// timedOutAnnotation, on an object, has its remediator stop.
	timedOutAnnotation = "remediation.medik8s.io/nhc-timed-out"
	controlPlaneLabel  = "remediation.medik8s.io/isControlPlaneNode"
	partOfLabel        = "app.kubernetes.io/part-of"

	processing = "Processing"
	succeeded  = "Succeeded"
	// nodeGoes: that the Node is deleted is part of the remediation.
	nodeGoes = "PermanentNodeDeletionExpected"
)

const (
	// metal3 is the kind whose objects need a Machine as their owner, and tell by a phase.
	metal3 = "Metal3Remediation"
	// machineDeletion is the kind whose remediator deletes the Machine that the node's annotation names.
	machineDeletion = "MachineDeletionRemediation"
	// selfNode is the kind whose older versions tell by a phase alone.
	selfNode = "SelfNodeRemediation"
)

// kindOf is the kind of what is made from a template.
func kindOf(t *v1alpha1.TemplateReference) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(t.APIVersion, t.ObjectKind())
}

// empty is an object without anything but its name.
func empty(o *v1alpha1.ExternalObject) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
	object.SetNamespace(o.Namespace)
	object.SetName(o.Name)
	return object
}

// objectName is that of an attempt's object: the node's, by which most remediators know it, or
// that with a part of its own. It is the same for each try to create the object.
func objectName(template *unstructured.Unstructured, action *v1alpha1.NodeAction) string {
	node := action.Spec.NodeName
	if template.GetAnnotations()[severalAnnotation] != "true" {
		return node
	}
	sum := sha256.Sum256([]byte(action.Name))
	return cut.Head(node, 240) + "-" + hex.EncodeToString(sum[:4])
}

// fromTemplate makes the object of an attempt as NodeHealthCheck makes it, but for its owner. machine
// owns it as well, if there is one.
func fromTemplate(template *unstructured.Unstructured, action *v1alpha1.NodeAction, node *corev1.Node, machine *metav1.OwnerReference) (*unstructured.Unstructured, error) {
	inner, found, err := unstructured.NestedMap(template.Object, "spec", "template")
	if err != nil || !found {
		return nil, fmt.Errorf("%s %s has no spec.template, so nothing can be made from it", template.GetKind(), template.GetName())
	}
	spec, _, err := unstructured.NestedMap(inner, "spec")
	if err != nil {
		return nil, fmt.Errorf("spec.template.spec of %s %s: %w", template.GetKind(), template.GetName(), err)
	}
	gvk := template.GroupVersionKind()
	object := empty(&v1alpha1.ExternalObject{
		APIVersion: template.GetAPIVersion(), Kind: strings.TrimSuffix(gvk.Kind, "Template"),
		Namespace: template.GetNamespace(), Name: objectName(template, action),
	})
	if spec != nil {
		object.Object["spec"] = spec
	}
	object.SetAnnotations(map[string]string{nodeNameAnnotation: node.Name, templateNameAnnotation: template.GetName()})
	labels := map[string]string{partOfLabel: "nodemend"}
	if fleet.ControlPlane(node) {
		labels[controlPlaneLabel] = ""
	}
	object.SetLabels(labels)
	owners := []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeAction", Name: action.Name, UID: action.UID,
	}}
	if machine != nil {
		owners = append(owners, *machine)
	}
	object.SetOwnerReferences(owners)
	return object, nil
}

// ours reports whether the object was created for the action. What is not is never touched.
func ours(object *unstructured.Unstructured, action *v1alpha1.NodeAction) bool {
	if uid := action.Status.External.Object.UID; uid != "" {
		return object.GetUID() == uid
	}
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "NodeAction" && owner.UID == action.UID {
			return true
		}
	}
	return false
}

// told is what the status of an object tells.
type told struct {
	processing, succeeded, failed bool
	// idle: that it is not at work. One that has told nothing may be.
	idle bool
	// goes: that the node is deleted is part of it.
	goes bool
	text string
}

// tell reads the status of an object. What is not there, or of another form, tells nothing.
func tell(object *unstructured.Unstructured) told {
	var t told
	var parts []string
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions") // one that is no list tells nothing
	statuses := map[string]string{}
	for _, item := range list {
		condition, _ := item.(map[string]any)
		kind, _ := condition["type"].(string)
		status, _ := condition["status"].(string)
		reason, _ := condition["reason"].(string)
		message, _ := condition["message"].(string)
		if kind != processing && kind != succeeded && kind != nodeGoes {
			continue
		}
		statuses[kind] = status
		part := kind + "=" + status
		if kind == succeeded && status == string(metav1.ConditionFalse) && message != "" {
			part += " (" + reason + ": " + message + ")"
		} else if reason != "" {
			part += " (" + reason + ")"
		}
		parts = append(parts, part)
	}
	t.processing, t.goes = statuses[processing] == string(metav1.ConditionTrue), statuses[nodeGoes] == string(metav1.ConditionTrue)
	t.idle = statuses[processing] == string(metav1.ConditionFalse)
	t.succeeded, t.failed = statuses[succeeded] == string(metav1.ConditionTrue), statuses[succeeded] == string(metav1.ConditionFalse)

	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase") // or it is no text
	if phase != "" {
		parts = append(parts, "phase "+phase)
	}
	switch _, says := statuses[succeeded]; {
	case object.GetKind() == selfNode && !says:
		t.succeeded = phase == "Fencing-Completed"
		t.processing = phase != "" && !t.succeeded
	case object.GetKind() == metal3:
		t.failed = t.failed || phase == "Failed"
		t.goes = t.goes || phase == "Deleting machine"
		t.processing = t.processing || phase == "Running" || phase == "Waiting"
	}
	if len(parts) == 0 {
		parts = append(parts, "it has told nothing yet")
	}
	t.text = strings.Join(parts, ", ")
	return t
}
