package v1alpha1

import "strings"

// RemedyExternal is the name of the remedy external.
const RemedyExternal = "external"

// ExternalRemedy has the remediator of another program carry the step out, by the
// contract of NodeHealthCheck (medik8s): SelfNodeRemediation,
// FenceAgentsRemediation, MachineDeletionRemediation, Metal3Remediation, and others
// that keep it. The controller creates the remediator's object from a template,
// follows its status, and deletes it when the node is well, when the remediator
// has failed, or after the step's timeout. What the remediator says is no proof: the
// conditions of the node decide, as after every step.
type ExternalRemedy struct {
	// The template that the object is made from. Its kind without "Template" is that
	// of the object, which gets the template's namespace.
	//
	// Example: {apiVersion: self-node-remediation.medik8s.io/v1alpha1, kind: SelfNodeRemediationTemplate, namespace: medik8s, name: automatic}
	// +required
	TemplateRef TemplateReference `json:"templateRef"`

	// How the node is drained before. If it is left out, the node is only cordoned,
	// and what becomes of its pods is up to the remediator.
	// +optional
	Drain *Drain `json:"drain,omitempty"`
}

// TemplateReference names the template of a remediator's objects.
type TemplateReference struct {
	// Group and version.
	//
	// Example: fence-agents-remediation.medik8s.io/v1alpha1
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v[0-9][a-z0-9]*$`
	APIVersion string `json:"apiVersion"`

	// Kind, which ends in Template.
	//
	// Example: FenceAgentsRemediationTemplate
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*Template$`
	Kind string `json:"kind"`

	// Namespace of the template, and of the objects. Leave it out if the kind has no
	// namespaces.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// Name of the template.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// ObjectKind returns the kind of the objects that are made from the template.
func (t *TemplateReference) ObjectKind() string { return strings.TrimSuffix(t.Kind, "Template") }

// externalRemedy is the remedy external.
var externalRemedy = Remedy{
	Name:       RemedyExternal,
	Executor:   ExecutorExternal,
	Disruptive: true,
	// Nobody knows what a remediator does; most reboot.
	CountsAsReboot: true,
	asked:          func(s *Step) bool { return s.External != nil },
	drain:          func(s *Step) *Drain { return s.External.Drain },
	describe: func(s *Step) string {
		t := &s.External.TemplateRef
		return takeOut(s.External.Drain) + " the node, and leave it to a " + t.ObjectKind() + " of template " + t.Name
	},
	why: func(s *Step) string { return s.External.TemplateRef.ObjectKind() },
}

// String names the object for people: "SelfNodeRemediation medik8s/w17".
func (o *ExternalObject) String() string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return o.Kind + " " + o.Namespace + "/" + o.Name
}
