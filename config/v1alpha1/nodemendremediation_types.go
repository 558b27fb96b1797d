package v1alpha1

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodemendRemediation asks for the remediation of one node. NodeHealthCheck or a
// MachineHealthCheck creates it from a NodemendRemediationTemplate when a node is
// unhealthy by its own checks, and deletes it when the node is healthy. As long as it
// is there, the node counts as sick, and one Remediation of the policy acts on it, with
// all gates and budgets. Its conditions are those that remediators of NodeHealthCheck
// have.
//
// Whoever may create it can start the steps of a policy without match on any node that
// the policy selects.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=nrmd,categories=nodemend
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`
// +kubebuilder:printcolumn:name="Processing",type=string,JSONPath=`.status.conditions[?(@.type=="Processing")].status`
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="Succeeded")].status`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Processing")].reason`
// +kubebuilder:printcolumn:name="Remediation",type=string,JSONPath=`.status.remediation`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Processing")].message`,priority=1
type NodemendRemediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is asked for. It never changes.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="what a NodemendRemediation asks for never changes",reason=FieldValueForbidden
	Spec NodemendRemediationSpec `json:"spec"`

	// What became of it, written by the controller.
	// +optional
	Status NodemendRemediationStatus `json:"status,omitempty,omitzero"`
}

// NodemendRemediationSpec says what is to be done. Which node it is for, the object
// itself says, as its driver has created it: by its annotation
// remediation.medik8s.io/node-name; or its owner, a Machine of Cluster API; or its
// name.
type NodemendRemediationSpec struct {
	// Name of the RemedyPolicy whose steps are taken. It must have no match: such a
	// policy starts nothing by itself.
	//
	// Example: reboot-then-hold
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Policy string `json:"policy"`
}

// Types of the conditions of a NodemendRemediation, which NodeHealthCheck reads.
const (
	// RequestProcessing is True while the Remediation is under way, and False once
	// nothing more is done: its reason says where it stands.
	RequestProcessing = "Processing"
	// RequestSucceeded is False once nothing more is done and the node is not well, so
	// that the driver escalates; True when it has recovered, or its machine was replaced;
	// else Unknown.
	RequestSucceeded = "Succeeded"
	// RequestNodeGoes is True while a step is under way that has the machine replaced: the
	// Node goes with it. Else it is False.
	RequestNodeGoes = "PermanentNodeDeletionExpected"
)

// Reasons of the conditions of a NodemendRemediation, besides those of its Remediation.
const (
	// ReasonPolicyNotFound: there is no RemedyPolicy of the name that spec.policy has.
	ReasonPolicyNotFound = "PolicyNotFound"
	// ReasonPolicyHasMatch: the RemedyPolicy has a match, so it starts by itself, and not
	// when it is asked for.
	ReasonPolicyHasMatch = "PolicyHasMatch"
	// ReasonNotSelected: the RemedyPolicy does not select the node.
	ReasonNotSelected = "NotSelected"
	// ReasonNodeNotFound: there is no Node of the name that the object says, or it says
	// none.
	ReasonNodeNotFound = "NodeNotFound"
	// ReasonNodeUnclear: the object names one node by its annotation and another one by
	// its name, or now and when it began.
	ReasonNodeUnclear = "NodeUnclear"
	// ReasonWaitsForAnother: another NodemendRemediation has asked for the same policy on
	// the node before.
	ReasonWaitsForAnother = "WaitsForAnother"
)

// NodemendRemediationStatus is what became of a request.
type NodemendRemediationStatus struct {
	// Name of the node that it is for.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// Name of the Remediation that carries it out. There is never another one for it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Remediation string `json:"remediation,omitempty"`

	// Observations: Processing, Succeeded, PermanentNodeDeletionExpected.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodemendRemediationList is a list of requests.
//
// +kubebuilder:object:root=true
type NodemendRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodemendRemediation `json:"items"`
}

// NodemendRemediationTemplate is what NodeHealthCheck (remediationTemplate,
// escalatingRemediations) and MachineHealthCheck (remediation.templateRef) create
// NodemendRemediations from. For a MachineHealthCheck it has to be in its namespace.
// One is enough for a node: the steps of its policy are gentlest first.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,shortName=nrmdt,categories=nodemend
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.template.spec.policy`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodemendRemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is created.
	// +required
	Spec NodemendRemediationTemplateSpec `json:"spec"`
}

// NodemendRemediationTemplateSpec has the template.
type NodemendRemediationTemplateSpec struct {
	// What NodemendRemediations are created from.
	// +required
	Template NodemendRemediationTemplateResource `json:"template"`
}

// NodemendRemediationTemplateResource is the template itself.
type NodemendRemediationTemplateResource struct {
	// The spec of the NodemendRemediations.
	// +required
	Spec NodemendRemediationSpec `json:"spec"`
}

// NodemendRemediationTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type NodemendRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodemendRemediationTemplate `json:"items"`
}

// TimedOutAnnotation is, on a NodemendRemediation, NodeHealthCheck's word that its time is
// over: nothing more is begun (pkg/annotations of medik8s/common).
const TimedOutAnnotation = "remediation.medik8s.io/nhc-timed-out"

// RequestGrace is for how long after a boot, its return or an action on it a node is left alone that a
// driver has asked for: the driver may not have looked at it since.
const RequestGrace = time.Minute

// RequestTrigger is the type of the trigger of a Remediation that was requested. No
// condition of the node is meant.
const RequestTrigger = "Requested"

// maxOwners is how many owners of a request are kept.
const maxOwners = 4

// NewRequest returns what a remediation keeps of the object that asks for it.
func NewRequest(asked *NodemendRemediation) Request {
	r := Request{Namespace: asked.Namespace, Name: asked.Name, UID: asked.UID}
	for _, owner := range asked.OwnerReferences[:min(len(asked.OwnerReferences), maxOwners)] {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		r.Owners = append(r.Owners, RequestOwner{Group: group, Kind: owner.Kind, Name: owner.Name, UID: owner.UID})
	}
	return r
}

// String is how people write it.
func (r *Request) String() string { return r.Namespace + "/" + r.Name }

// Is reports whether the request is this object.
func (r *Request) Is(asked *NodemendRemediation) bool { return asked != nil && asked.UID == r.UID }

// Withdrawn says how a request was taken back; "" if it was not. asked is the object of its
// name, nil if there is none.
func (r *Request) Withdrawn(asked *NodemendRemediation) string {
	switch {
	case !r.Is(asked):
		return fmt.Sprintf("%s has been deleted", r.describe())
	case asked.DeletionTimestamp != nil:
		return fmt.Sprintf("%s is being deleted since %s", r.describe(), asked.DeletionTimestamp.UTC().Format("2006-01-02T15:04:05Z"))
	default:
		return ""
	}
}

// Stopped says that the driver of a request which is not withdrawn has told to stop; "" if it
// has not.
func (r *Request) Stopped(asked *NodemendRemediation) string {
	if at, is := asked.Annotations[TimedOutAnnotation]; is {
		return fmt.Sprintf("%s has told to stop at %.40q: %s has the annotation %s", r.By(), at, r.describe(), TimedOutAnnotation)
	}
	return ""
}

// Over says why nothing may be begun for the request any more, "" if it stands. asked is the
// object of its name, nil if there is none.
func (r *Request) Over(asked *NodemendRemediation) string {
	if why := r.Withdrawn(asked); why != "" {
		return why
	}
	return r.Stopped(asked)
}

func (r *Request) describe() string { return "NodemendRemediation " + r.String() }

// By names who has made the request: the objects that own it.
func (r *Request) By() string {
	by := ""
	for _, owner := range r.Owners {
		if by != "" {
			by += " and "
		}
		by += owner.Kind + " " + owner.Name
	}
	if by == "" {
		return "whoever has created " + r.describe()
	}
	return by
}

// OwnedBy reports whether an object of this kind, whatever its version, and name has made the
// request.
func (r *Request) OwnedBy(group, kind, name string) bool {
	for i := range r.Owners {
		if o := &r.Owners[i]; o.Group == group && o.Kind == kind && o.Name == name {
			return true
		}
	}
	return false
}
