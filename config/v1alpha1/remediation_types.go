package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Remediation is one incident on one node, from its trigger to its outcome. The
// controller writes it, and people read it. If you delete it, actions that have
// not started are cancelled, and its incident starts no other remediation.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=rmd,categories=nodemend
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:selectablefield:JSONPath=`.status.state`
// +kubebuilder:selectablefield:JSONPath=`.status.blockedBy`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Condition",type=string,JSONPath=`.spec.trigger.type`
// +kubebuilder:printcolumn:name="Step",type=integer,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`
// +kubebuilder:printcolumn:name="Blocked By",type=string,JSONPath=`.status.blockedBy`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy.name`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].message`,priority=1
// +kubebuilder:printcolumn:name="Blocked Because",type=string,JSONPath=`.status.conditions[?(@.type=="Blocked")].message`,priority=1
type Remediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The trigger, and the policy as it was then.
	// +required
	Spec RemediationSpec `json:"spec"`

	// What was done so far.
	// +optional
	Status RemediationStatus `json:"status,omitempty,omitzero"`
}

// RemediationSpec is the node, the trigger and the policy. It never changes, so
// editing or deleting the policy cannot change a step that is running, or leave a
// node cordoned.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="a remediation's spec never changes",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="has(self.request) != has(self.match)",message="exactly one of match and request is required: it was started by a condition, or requested"
type RemediationSpec struct {
	// Name of the node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// UID of the node. A reinstalled node of the same name is another node.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	NodeUID types.UID `json:"nodeUID"`

	// The policy that started it.
	// +required
	Policy PolicyReference `json:"policy"`

	// The condition that started it, at that time. Of type Requested, if another program
	// has asked for it.
	// +required
	Trigger Trigger `json:"trigger"`

	// The NodemendRemediation that has asked for it. As long as that stands, the node
	// counts as sick; when it is deleted, the remediation ends. Absent if a condition has
	// started it.
	// +optional
	Request *Request `json:"request,omitempty"`

	// The policy's match at that time. Absent if it was requested.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Match []ConditionMatch `json:"match,omitempty"`

	// The policy's steps at that time.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Steps []Step `json:"steps"`

	// The policy's recovery at that time.
	// +required
	Recovery Recovery `json:"recovery"`
}

// Request names a NodemendRemediation, and who has made it.
type Request struct {
	// Namespace of the NodemendRemediation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// Name of the NodemendRemediation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// UID of the NodemendRemediation. One that was deleted and created again is another
	// request.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid"`

	// The objects that owned it when it was heeded: NodeHealthCheck, or a Machine. Steps
	// are not held by what these have marked the node with.
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +listType=atomic
	Owners []RequestOwner `json:"owners,omitempty"`
}

// RequestOwner is an object that owns a request.
type RequestOwner struct {
	// Group of its kind.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Group string `json:"group,omitempty"`

	// Kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// Name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// UID of the object.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid,omitempty"`
}

// PolicyReference names a policy.
type PolicyReference struct {
	// Name of the RemedyPolicy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// UID of the RemedyPolicy. A policy that was deleted and created again is another
	// policy.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid"`
}

// Trigger is a node condition as it was when the remediation started, or that it was
// requested.
type Trigger struct {
	// Type of the condition.
	// +required
	Type string `json:"type"`

	// Status of the condition.
	// +required
	Status corev1.ConditionStatus `json:"status"`

	// Reason of the condition.
	// +optional
	Reason string `json:"reason,omitempty"`

	// Message of the condition.
	// +optional
	Message string `json:"message,omitempty"`

	// When the condition got that status.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`

	// Since when the controller has seen that status, on its own clock. Only of an
	// entry of match with debounce.
	// +optional
	SeenSince *metav1.Time `json:"seenSince,omitempty"`
}

// Types of the conditions of a Remediation.
const (
	// RemediationProgressing is True while the remediation is under way, and
	// False once it has ended or is exhausted. Its reason says where it stands.
	RemediationProgressing = "Progressing"
	// RemediationBlocked is True while something holds the next action back.
	// Its reason names the gate.
	RemediationBlocked = "Blocked"
	// RemediationRecovered is True when every entry of match was clear, on
	// fresh evidence, for recovery.healthyFor.
	RemediationRecovered = "Recovered"
)

// ReasonStillRunning is a reason of the Blocked condition: an action that nobody reports on
// may still run, and holds its permits.
const ReasonStillRunning = "StillRunning"

// Reasons of the Progressing condition: where a remediation stands.
const (
	// ReasonWaiting: the next action has not started.
	ReasonWaiting = "Waiting"
	// ReasonStarting: an action is being given to the node's runner.
	ReasonStarting = "Starting"
	// ReasonActing: an action was given to the node's runner.
	ReasonActing = "Acting"
	// ReasonTakingOut: the node is being taken out of service for the step.
	ReasonTakingOut = "TakingOut"
	// ReasonInMaintenance: the node is out of service until it has recovered.
	ReasonInMaintenance = "InMaintenance"
	// ReasonVerifying: an action was executed, its effect is awaited.
	ReasonVerifying = "Verifying"
	// ReasonHealing: the node is clear, but not yet for recovery.healthyFor.
	ReasonHealing = "Healing"
	// ReasonExhausted: every step was executed and the fault is still there.
	// People have to look; if the node recovers, the remediation still ends.
	ReasonExhausted = "Exhausted"
	// ReasonStopped: the program that has requested it has told to stop. It ends with the
	// request.
	ReasonStopped = "Stopped"
	// ReasonRecovered: ended, an action was executed before it.
	ReasonRecovered = "Recovered"
	// ReasonRecoveredByItself: ended, no action was executed.
	ReasonRecoveredByItself = "RecoveredByItself"
	// ReasonNodeGone: ended, the node was deleted or replaced.
	ReasonNodeGone = "NodeGone"
	// ReasonDuplicate: ended, another remediation of the node and the policy was open
	// already.
	ReasonDuplicate = "Duplicate"
	// ReasonReleased: ended, a person has given the node back by deleting its
	// NodeMaintenance, or the program that has requested it no longer does.
	ReasonReleased = "Released"
	// ReasonDeleted: ended, a person has deleted the remediation. It is kept as
	// long as its incident lasts, so that the incident starts no other.
	ReasonDeleted = "Deleted"
)

// RemediationStatus is what was seen and done so far.
type RemediationStatus struct {
	// The step that is under way or next, counted from 1.
	// +optional
	Step int32 `json:"step,omitempty"`

	// The attempt of that step that is under way or next, counted from 1.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// Name of the NodeAction that is under way.
	// +optional
	Action string `json:"action,omitempty"`

	// Name of the NodeMaintenance that keeps the node out of service for this
	// remediation. Absent while the node is in service.
	// +optional
	Maintenance string `json:"maintenance,omitempty"`

	// Boot ID of the node when it was last seen.
	// +optional
	BootID string `json:"bootID,omitempty"`

	// When the controller saw that the node had booted. Reports of checks from before
	// are no evidence.
	// +optional
	BootedAt *metav1.Time `json:"bootedAt,omitempty"`

	// Whether the node was one of the control plane when it was last seen. Once it is gone,
	// nothing else tells.
	// +optional
	ControlPlane *bool `json:"controlPlane,omitempty"`

	// Number of actions that were started. It numbers the next one. An attempt that
	// was not executed is repeated with a new number.
	// +optional
	Actions int32 `json:"actions,omitempty"`

	// Latest value of the annotation nodemend.dev/retry that had an effect.
	// +optional
	Retried string `json:"retried,omitempty"`

	// What people have decided about it, as the controller has seen it, the oldest first.
	// Only the newest are kept.
	// +optional
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	Decisions []PersonsDecision `json:"decisions,omitempty"`

	// resourceVersion of the remediation for which a permit was taken and returned
	// unused. Writing it keeps every other controller from using that permit.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UnusedPermit string `json:"unusedPermit,omitempty"`

	// Finished actions, the oldest first. Of actions that were not executed, only the
	// newest are kept.
	// +optional
	// +kubebuilder:validation:MaxItems=200
	// +listType=atomic
	History []ActionRecord `json:"history,omitempty"`

	// When the remediation ended. Absent while it is open.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`

	// Types of conditions, of entries of match with debounce, that the controller has
	// seen healthy for debounce since a person has ended the remediation: reports of the
	// fault from then on are another incident. Only where it ended as Released or Deleted.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=316
	// +listType=set
	SeenHealthy []string `json:"seenHealthy,omitempty"`

	// Where it stands: the reason of the condition Progressing. To select by:
	// kubectl get remediations --field-selector status.state=Exhausted.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	State string `json:"state,omitempty"`

	// What holds it back: the reason of the condition Blocked while that is True. To select
	// by: kubectl get remediations --field-selector status.blockedBy=ApprovalRequired.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	BlockedBy string `json:"blockedBy,omitempty"`

	// Observations: Progressing, Blocked, Recovered.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// What people decide about a remediation.
const (
	// DecisionApproved: the steps up to a number are approved; up to 0: no longer.
	DecisionApproved = "Approved"
	// DecisionRetried: the remediation starts over with its first step.
	DecisionRetried = "Retried"
)

// PersonsDecision is the record of what a person has decided about a remediation.
type PersonsDecision struct {
	// What was decided: Approved or Retried.
	// +required
	// +kubebuilder:validation:Enum=Approved;Retried
	What string `json:"what"`

	// The step, counted from 1, up to which steps are approved. Absent: none is any
	// more.
	// +optional
	Step int32 `json:"step,omitempty"`

	// The user, whose name the API server has compared with that of the request. Absent:
	// no name was recorded, as with kubectl annotate.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	By string `json:"by,omitempty"`

	// When the controller saw it. A retry is seen when it is heeded.
	// +required
	At metav1.Time `json:"at"`
}

// ActionRecord is the record of one finished action.
type ActionRecord struct {
	// Name of the NodeAction, or of the NodeMaintenance for a maintenance.
	// +required
	Action string `json:"action"`

	// The step, counted from 1.
	// +required
	Step int32 `json:"step"`

	// The attempt of the step, counted from 1.
	// +required
	Attempt int32 `json:"attempt"`

	// The remedy: command, restartUnit, reboot, external, replace or maintenance.
	// +optional
	Remedy string `json:"remedy,omitempty"`

	// Outcome: the reason of the NodeAction's Finished condition.
	// +required
	Outcome string `json:"outcome"`

	// The message of the NodeAction's Finished condition.
	// +optional
	Message string `json:"message,omitempty"`

	// Whether the remedy was executed on the node, whatever its result.
	// +required
	Executed bool `json:"executed"`

	// Whether a person has started over since then (nodemend.dev/retry). Such an
	// action does not count as an attempt of its step any more.
	// +optional
	Former bool `json:"former,omitempty"`

	// When the action was created.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// The end of what the command printed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Output string `json:"output,omitempty"`

	// When the controller saw that it had finished. It does not depend on the node's
	// clock.
	// +required
	FinishedAt metav1.Time `json:"finishedAt"`
}

// RemediationList is a list of remediations.
//
// +kubebuilder:object:root=true
type RemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Remediation `json:"items"`
}
