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
// +kubebuilder:printcolumn:name="Paused",type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Groups",type=string,JSONPath=`.status.groups`,priority=1
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.groups) || self.status.groups.all(g, !(has(self.status.groups[g].permits) && self.status.groups[g].permits.size() > (type(self.spec.maxConcurrent) == int ? int(self.spec.maxConcurrent) : self.status.groups[g].?limit.orValue(0)) && ![oldSelf.?status.groups[?g].?permits.orValue({})].all(o, self.status.groups[g].permits.all(n, n in o))))",messageExpression="[self.status.groups.filter(g, has(self.status.groups[g].permits) && self.status.groups[g].permits.size() > (type(self.spec.maxConcurrent) == int ? int(self.spec.maxConcurrent) : self.status.groups[g].?limit.orValue(0)) && ![oldSelf.?status.groups[?g].?permits.orValue({})].all(o, self.status.groups[g].permits.all(n, n in o)))[0]].map(g, 'budget exhausted: %d permits asked in group %s, %d allowed'.format([self.status.groups[g].permits.size(), g, (type(self.spec.maxConcurrent) == int ? int(self.spec.maxConcurrent) : self.status.groups[g].?limit.orValue(0))]))[0]",message="budget exhausted"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.groups) || self.status.groups.all(g, !(has(self.status.groups[g].permits) && self.status.groups[g].permits.filter(n, self.status.groups[g].permits[n].?disruptive.orValue(false)).size() > self.status.groups[g].?disruptionLimit.orValue(has(self.spec.maxUnavailable) || has(self.spec.minHealthy) ? 0 : 500) && ![oldSelf.?status.groups[?g].?permits.orValue({})].all(o, self.status.groups[g].permits.all(n, !self.status.groups[g].permits[n].?disruptive.orValue(false) || o[?n].?disruptive.orValue(false)))))",messageExpression="[self.status.groups.filter(g, has(self.status.groups[g].permits) && self.status.groups[g].permits.filter(n, self.status.groups[g].permits[n].?disruptive.orValue(false)).size() > self.status.groups[g].?disruptionLimit.orValue(has(self.spec.maxUnavailable) || has(self.spec.minHealthy) ? 0 : 500) && ![oldSelf.?status.groups[?g].?permits.orValue({})].all(o, self.status.groups[g].permits.all(n, !self.status.groups[g].permits[n].?disruptive.orValue(false) || o[?n].?disruptive.orValue(false))))[0]].map(g, 'budget exhausted: %d permits for disruptive steps asked in group %s, %d allowed'.format([self.status.groups[g].permits.filter(n, self.status.groups[g].permits[n].?disruptive.orValue(false)).size(), g, self.status.groups[g].?disruptionLimit.orValue(has(self.spec.maxUnavailable) || has(self.spec.minHealthy) ? 0 : 500)]))[0]",message="budget exhausted"
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
	// or a percentage of the nodes of the group, "10%". A percentage is rounded
	// down, but is at least 1 (0% is 0). 0 stops all new actions. In a group it
	// is never more than 500.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 100000 or a percentage from \"0%\" to \"100%\""
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`

	// Key of a node label. Each of its values is a group of nodes to which all
	// limits apply by itself; the nodes without the label are one more group.
	// Left out: all nodes are one group. There can be 150 groups; nodes of more are
	// left alone.
	//
	// Example: topology.kubernetes.io/rack
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	GroupBy string `json:"groupBy,omitempty"`

	// How many nodes of a group may be unavailable at once for a disruptive step
	// to make one more so: a number or a percentage. Unavailable are nodes that
	// are rebooted or kept out by Nodemend, cordoned by anybody, being deleted, or
	// not Ready. A percentage is rounded down, but is at least 1 in a group of two
	// or more (0% is 0). Left out: any number.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 100000 or a percentage from \"0%\" to \"100%\""
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// How many nodes of a group must be healthy after a disruptive step: a number
	// or a percentage. Fewer are a storm: something is wrong that is not the
	// nodes' fault. A percentage is rounded up, but spares at least one node of a
	// group of two or more (100% does not). Left out: 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 100000 : self.matches('^(100|[1-9]?[0-9])%$')",message="must be a number from 0 to 100000 or a percentage from \"0%\" to \"100%\""
	MinHealthy *intstr.IntOrString `json:"minHealthy,omitempty"`

	// How long a group must have had minHealthy again after a storm before the
	// next disruptive step.
	// +optional
	// +kubebuilder:default="15m"
	StormCooldown *Duration `json:"stormCooldown,omitempty"`

	// How many times one node may be rebooted in how long, by all policies
	// together. Left out: any number.
	// +optional
	MaxReboots *Rate `json:"maxReboots,omitempty"`

	// When disruptive steps may start. Left out: at any time.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	AllowedWindows []Window `json:"allowedWindows,omitempty"`

	// The off switch: while true no new action starts on these nodes. An action that
	// runs is finished, a drain for a policy stops, and nodes that heal are given back.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Why it is paused, and by whom: people read it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	PauseReason string `json:"pauseReason,omitempty"`
}

// Window is a time of the week.
type Window struct {
	// On which days it starts. Every day when left out.
	// +optional
	// +kubebuilder:validation:MaxItems=7
	// +kubebuilder:validation:items:Enum=Mon;Tue;Wed;Thu;Fri;Sat;Sun
	// +listType=set
	Days []string `json:"days,omitempty"`

	// When it starts, as hours and minutes.
	//
	// Example: "22:00"
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	Start string `json:"start"`

	// When it ends; on the next day if that is not after the start.
	//
	// Example: "05:00"
	// +required
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	End string `json:"end"`

	// A name of the IANA time zone database.
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
	// The generation of the spec by which the limits below were counted. Before the nodes
	// are counted for the latest one, no permit is given.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// The resourceVersion of a node up to which nodes have to be known to be counted
	// again: a controller that is behind does not count.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	NodesVersion string `json:"nodesVersion,omitempty"`

	// Number of nodes that the budget selects.
	// +optional
	Nodes *int32 `json:"nodes,omitempty"`

	// The groups by the value of the label; "-" is that of the nodes without it.
	// +optional
	// +kubebuilder:validation:MaxProperties=150
	Groups map[string]BudgetGroup `json:"groups,omitempty"`
}

// BudgetGroup is the state of one group of nodes.
type BudgetGroup struct {
	// Number of nodes.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`

	// How many of them are healthy: Ready, not cordoned, not being deleted, and
	// without an open remediation.
	// +optional
	Healthy int32 `json:"healthy,omitempty"`

	// How many of them are unavailable without a permit for a disruptive step.
	// +optional
	Unavailable int32 `json:"unavailable,omitempty"`

	// Number of permits that spec.maxConcurrent allows for that many nodes. The
	// API server caps a percentage by this number, a plain number by the spec.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Limit *int32 `json:"limit,omitempty"`

	// Number of permits for disruptive steps that spec.maxUnavailable and
	// spec.minHealthy leave. Absent: any number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DisruptionLimit *int32 `json:"disruptionLimit,omitempty"`

	// Since when there is, or has been, a storm; absent when none matters.
	// +optional
	Storm *Storm `json:"storm,omitempty"`

	// The permits given out, by the name of the node.
	// +optional
	// +kubebuilder:validation:MaxProperties=500
	Permits map[string]Permit `json:"permits,omitempty"`
}

// Storm says that fewer nodes of a group were healthy than spec.minHealthy.
type Storm struct {
	// When it began.
	// +required
	Since metav1.Time `json:"since"`

	// When enough nodes were healthy again; absent while they are not.
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

	// The resourceVersion of the remediation for which the permit was taken. A
	// controller with an old view can tell by it whether the permit that it wants to
	// return was taken anew.
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
