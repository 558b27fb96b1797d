package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RemediationBudget limits how many of the selected nodes are acted on at
// once. A node that no budget selects is left alone; a node that several
// budgets select needs a permit of each.
//
// The limit is enforced by the API server: a write that would hold more
// permits than allowed is refused, whoever sends it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rbud,categories=nodemend
// +kubebuilder:printcolumn:name="Max Concurrent",type=string,JSONPath=`.spec.maxConcurrent`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Limit",type=integer,JSONPath=`.status.limit`
// +kubebuilder:printcolumn:name="Acting On",type=string,JSONPath=`.status.permits`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.permits) || self.status.permits.size() <= (type(self.spec.maxConcurrent) == int ? self.spec.maxConcurrent : (has(self.status.limit) ? self.status.limit : 0)) || (has(oldSelf.status) && has(oldSelf.status.permits) && self.status.permits.all(n, n in oldSelf.status.permits))",messageExpression="'budget exhausted: %d permits asked, %d allowed'.format([self.status.permits.size(), type(self.spec.maxConcurrent) == int ? self.spec.maxConcurrent : (has(self.status.limit) ? self.status.limit : 0)])"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.permits) || !has(self.status) || !has(self.status.permits) || oldSelf.status.permits.all(n, !(n in self.status.permits) || self.status.permits[n].remediation == oldSelf.status.permits[n].remediation)",message="the permit of this node is held by another remediation"
type RemediationBudget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The limits.
	// +required
	Spec RemediationBudgetSpec `json:"spec"`

	// The permits given out; written by the controller.
	// +optional
	Status RemediationBudgetStatus `json:"status,omitempty,omitzero"`
}

// RemediationBudgetSpec holds the limits of a group of nodes.
type RemediationBudgetSpec struct {
	// Nodes that share this budget. All nodes when left out.
	//
	// Example: {matchLabels: {pool: workers}}
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="must not be empty: give matchLabels or matchExpressions, or leave nodeSelector out to select all nodes"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// How many of these nodes may be acted on or verified at once: a number,
	// or a percentage of the selected nodes, "10%". A percentage is rounded
	// down, but is at least 1 (0% is 0). 0 stops all new actions.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 100000 or a percentage from \"0%\" to \"100%\""
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`
}

// RemediationBudgetStatus is kept by the controller.
type RemediationBudgetStatus struct {
	// Number of nodes that the budget selects.
	// +optional
	Nodes *int32 `json:"nodes,omitempty"`

	// Number of permits that spec.maxConcurrent allows for that many nodes. The
	// API server caps a percentage by this number, a plain number by the spec.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Limit *int32 `json:"limit,omitempty"`

	// The permits given out, by the name of the node.
	// +optional
	// +kubebuilder:validation:MaxProperties=20000
	Permits map[string]Permit `json:"permits,omitempty"`
}

// Permit allows one remediation to act on one node.
type Permit struct {
	// Name of the remediation that holds the permit.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Remediation string `json:"remediation"`
}

// RemediationBudgetList is a list of budgets.
//
// +kubebuilder:object:root=true
type RemediationBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RemediationBudget `json:"items"`
}
