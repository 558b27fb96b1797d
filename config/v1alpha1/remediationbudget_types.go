package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// RemediationBudget limits how many of the selected nodes are acted on at
// once. A node that no budget selects is left alone. A node that several
// budgets select needs a permit of each.
//
// The API server enforces the limit: it refuses every write with more permits
// than allowed.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rbud,categories=nodemend
// +kubebuilder:printcolumn:name="Max Concurrent",type=string,JSONPath=`.spec.maxConcurrent`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.groups['-'].healthy`,priority=1
// +kubebuilder:printcolumn:name="Unavailable",type=integer,JSONPath=`.status.groups['-'].unavailable`,priority=1
// +kubebuilder:printcolumn:name="Min Healthy",type=string,JSONPath=`.spec.minHealthy`,priority=1
// +kubebuilder:printcolumn:name="Max Unavailable",type=string,JSONPath=`.spec.maxUnavailable`,priority=1
// +kubebuilder:printcolumn:name="Group By",type=string,JSONPath=`.spec.groupBy`,priority=1
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.groups) || self.status.groups.all(g, !(has(self.status.groups[g].permits) && self.status.groups[g].permits.size() > (type(self.spec.maxConcurrent) == int ? int(self.spec.maxConcurrent) : self.status.groups[g].?limit.orValue(0)) && ![oldSelf.?status.groups[?g].?permits.orValue({})].all(o, self.status.groups[g].permits.all(n, n in o))))",messageExpression="[self.status.groups.filter(g, has(self.status.groups[g].permits) && self.status.groups[g].permits.size() > (type(self.spec.maxConcurrent) == int ? int(self.spec.maxConcurrent) : self.status.groups[g].?limit.orValue(0)) && ![oldSelf.?status.groups[?g].?permits.orValue({})].all(o, self.status.groups[g].permits.all(n, n in o)))[0]].map(g, 'budget exhausted: %d permits asked in group %s, %d allowed'.format([self.status.groups[g].permits.size(), g, (type(self.spec.maxConcurrent) == int ? int(self.spec.maxConcurrent) : self.status.groups[g].?limit.orValue(0))]))[0]",message="budget exhausted"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.groups) || self.status.groups.all(g, !(has(self.status.groups[g].permits) && self.status.groups[g].permits.filter(n, self.status.groups[g].permits[n].?disruptive.orValue(false)).size() > self.status.groups[g].?disruptionLimit.orValue(has(self.spec.maxUnavailable) || has(self.spec.minHealthy) ? 0 : 500) && ![oldSelf.?status.groups[?g].?permits.orValue({})].all(o, self.status.groups[g].permits.all(n, !self.status.groups[g].permits[n].?disruptive.orValue(false) || o[?n].?disruptive.orValue(false)))))",messageExpression="[self.status.groups.filter(g, has(self.status.groups[g].permits) && self.status.groups[g].permits.filter(n, self.status.groups[g].permits[n].?disruptive.orValue(false)).size() > self.status.groups[g].?disruptionLimit.orValue(has(self.spec.maxUnavailable) || has(self.spec.minHealthy) ? 0 : 500) && ![oldSelf.?status.groups[?g].?permits.orValue({})].all(o, self.status.groups[g].permits.all(n, !self.status.groups[g].permits[n].?disruptive.orValue(false) || o[?n].?disruptive.orValue(false))))[0]].map(g, 'budget exhausted: %d permits for disruptive steps asked in group %s, %d allowed'.format([self.status.groups[g].permits.filter(n, self.status.groups[g].permits[n].?disruptive.orValue(false)).size(), g, self.status.groups[g].?disruptionLimit.orValue(has(self.spec.maxUnavailable) || has(self.spec.minHealthy) ? 0 : 500)]))[0]",message="budget exhausted"
// +kubebuilder:validation:XValidation:rule="self.metadata.name != 'nodemend-pause' || !has(self.spec.nodeSelector) || oldSelf.?spec.?nodeSelector.hasValue()",message="the budget nodemend-pause pauses the whole cluster: leave nodeSelector out, or give the budget another name",reason=FieldValueForbidden,fieldPath=".spec.nodeSelector",optionalOldSelf=true
type RemediationBudget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The limits.
	// +required
	Spec RemediationBudgetSpec `json:"spec"`

	// Permits in use, written by the controller.
	// +optional
	Status RemediationBudgetStatus `json:"status,omitempty,omitzero"`
}

// RemediationBudgetSpec holds the limits of a group of nodes.
type RemediationBudgetSpec struct {
	// Nodes that share this budget. If it is left out, all nodes.
	//
	// Example: {matchLabels: {pool: workers}}
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="must not be empty: give matchLabels or matchExpressions, or leave nodeSelector out to select all nodes"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn'] ? has(e.values) && e.values.size() > 0 : e.operator in ['Exists', 'DoesNotExist'] && (!has(e.values) || e.values.size() == 0))",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// Maximum number of nodes that are acted on or verified at once: a number, or a
	// percentage of the nodes of the group, "10%". A percentage is rounded down, to 1
	// at least (0% is 0). 0 stops all new actions. The maximum for a group is 500.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 100000 or a percentage from \"0%\" to \"100%\""
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`

	// Key of a node label. Nodes with the same value form a group, and so do the
	// nodes without the label. All limits apply to each group on its own. If it is
	// left out, all nodes are one group. At most 150 groups: nodes of further groups
	// are left alone.
	//
	// Example: topology.kubernetes.io/rack
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	GroupBy string `json:"groupBy,omitempty"`

	// Maximum number of unavailable nodes of a group, as a number or a percentage,
	// after a disruptive step has started. A node is unavailable if Nodemend reboots
	// it or keeps it out of service, if anybody has cordoned it, if it is being
	// deleted, or if it is not Ready. A percentage is rounded down, to 1 at least in
	// a group of two or more (0% is 0). If it is left out, there is no limit.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 100000 or a percentage from \"0%\" to \"100%\""
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// Minimum number of healthy nodes of a group after a disruptive step, as a number
	// or a percentage. Fewer healthy nodes are a storm: the cause is probably not in
	// the nodes. A percentage is rounded up, and leaves at least one node of a group
	// of two or more (100% does not). If it is left out, 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 100000 or a percentage from \"0%\" to \"100%\""
	MinHealthy *intstr.IntOrString `json:"minHealthy,omitempty"`

	// Minimum time between the end of a storm and the next disruptive step.
	// +optional
	// +kubebuilder:default="15m"
	StormCooldown *Duration `json:"stormCooldown,omitempty"`

	// Maximum number of reboots of one node within a time, by all policies together. A
	// step external counts as one, also for a former node of the same name. If it is
	// left out, there is no limit.
	// +optional
	MaxReboots *Rate `json:"maxReboots,omitempty"`

	// Times of the week at which disruptive steps may start. If it is left out, at
	// any time.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	AllowedWindows []Window `json:"allowedWindows,omitempty"`

	// Stops all policies on these nodes: no new action starts. A running action ends
	// normally, a policy's drain stops, and nodes that recover are uncordoned.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Who paused it, and why. For people.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	PauseReason string `json:"pauseReason,omitempty"`
}

// Window is a time of the week.
type Window struct {
	// Days on which it starts. If it is left out, every day.
	// +optional
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=Mon;Tue;Wed;Thu;Fri;Sat;Sun
	// +listType=set
	Days []string `json:"days,omitempty"`

	// Start, as hours and minutes.
	//
	// Example: "22:00"
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	Start string `json:"start"`

	// End, as hours and minutes. If it is not after the start, it is on the next day.
	//
	// Example: "05:00"
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	End string `json:"end"`

	// Time zone of start and end, a name of the IANA time zone database.
	//
	// Example: Europe/Berlin
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(UTC|[A-Za-z]+(/[A-Za-z0-9_+-]+)+)$`
	TimeZone string `json:"timeZone,omitempty"`
}

// UngroupedNodes is the name of the group of all nodes without the label that
// spec.groupBy names, and of all nodes if it names none.
const UngroupedNodes = "-"

// RemediationBudgetStatus is kept by the controller.
type RemediationBudgetStatus struct {
	// Generation of the spec for which the nodes were counted. No permit is given
	// before they were counted for the latest one.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// resourceVersion of a node. A controller that has not seen nodes up to this
	// version does not count them.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NodesVersion string `json:"nodesVersion,omitempty"`

	// Number of nodes that the budget selects.
	// +optional
	Nodes *int32 `json:"nodes,omitempty"`

	// Groups by the value of the label. "-" is the group of the nodes without it.
	// +optional
	// +kubebuilder:validation:MaxProperties=150
	Groups map[string]BudgetGroup `json:"groups,omitempty"`
}

// BudgetGroup is the state of one group of nodes.
type BudgetGroup struct {
	// Number of nodes.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`

	// Number of healthy nodes: Ready, not cordoned, not being deleted, and without
	// an open remediation of a policy in mode Enforce.
	// +optional
	Healthy int32 `json:"healthy,omitempty"`

	// Number of unavailable nodes that hold no permit for a disruptive step.
	// +optional
	Unavailable int32 `json:"unavailable,omitempty"`

	// Number of permits that spec.maxConcurrent allows, less those that are still
	// counted in another group, which their node has left. The API server caps a
	// percentage by this number, and a plain number by the spec.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Limit *int32 `json:"limit,omitempty"`

	// Number of permits for disruptive steps that spec.maxUnavailable and
	// spec.minHealthy allow, less those that are still counted in another group. Absent if there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DisruptionLimit *int32 `json:"disruptionLimit,omitempty"`

	// The storm that is going on, or whose cooldown is. Absent if there is none.
	// +optional
	Storm *Storm `json:"storm,omitempty"`

	// Permits in use, by the name of the node.
	// +optional
	// +kubebuilder:validation:MaxProperties=500
	Permits map[string]Permit `json:"permits,omitempty"`
}

// Storm says that fewer nodes of a group were healthy than spec.minHealthy.
type Storm struct {
	// Start of the storm.
	// +required
	Since metav1.Time `json:"since"`

	// When enough nodes were healthy again. Absent while they are not.
	// +optional
	CalmSince *metav1.Time `json:"calmSince,omitempty"`
}

// Permit allows one remediation to act on one node.
type Permit struct {
	// Name of the remediation that holds the permit.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the permit of this node is held by another remediation"
	Remediation string `json:"remediation"`

	// Whether the step makes an available node unavailable.
	// +optional
	Disruptive bool `json:"disruptive,omitempty"`

	// resourceVersion of the remediation for which the permit was taken. By it a
	// controller with an old view sees that a permit was taken again since.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`
}

// RemediationBudgetList is a list of budgets.
//
// +kubebuilder:object:root=true
type RemediationBudgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RemediationBudget `json:"items"`
}
