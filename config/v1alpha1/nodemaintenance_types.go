package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeMaintenance takes a node out of service: it cordons the node, drains it if
// asked to, and uncordons it when it is deleted. A person creates one to work on
// a node. The controller creates one for the maintenance and reboot steps of
// policies. A node with several is uncordoned after the last.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nm,categories=nodemend
// +kubebuilder:selectablefield:JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.nodeName`
// +kubebuilder:printcolumn:name="Cordoned",type=string,JSONPath=`.status.conditions[?(@.type=="Cordoned")].reason`
// +kubebuilder:printcolumn:name="Drained",type=string,JSONPath=`.status.conditions[?(@.type=="Drained")].reason`
// +kubebuilder:printcolumn:name="Percent",type=integer,JSONPath=`.status.drain.percent`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.requestedBy`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Drained")].message`,priority=1
type NodeMaintenance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The node, the reason, and how the node is drained.
	// +required
	Spec NodeMaintenanceSpec `json:"spec"`

	// What was done so far.
	// +optional
	Status NodeMaintenanceStatus `json:"status,omitempty,omitzero"`
}

// NodeMaintenanceSpec says which node is taken out, why, and how. Which node, and for
// which remediation, never changes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.power) || has(self.drain)",message="power: Off needs drain: no machine is switched off with pods on it that could go",fieldPath=".power"
// +kubebuilder:validation:XValidation:rule="!has(self.outOfService) || !self.outOfService || has(self.power) || has(self.machineOff)",message="outOfService is for power: Off, or machineOff, only: nothing else proves that the node is off",fieldPath=".outOfService"
// +kubebuilder:validation:XValidation:rule="!has(self.machineOff) || has(self.outOfService) && self.outOfService && !has(self.remediation)",message="machineOff is for outOfService: true of a person's maintenance only",fieldPath=".machineOff"
// +kubebuilder:validation:XValidation:rule="self.nodeName == oldSelf.nodeName && has(self.nodeUID) == has(oldSelf.nodeUID) && (!has(self.nodeUID) || self.nodeUID == oldSelf.nodeUID) && has(self.remediation) == has(oldSelf.remediation) && (!has(self.remediation) || self.remediation == oldSelf.remediation)",message="nodeName, nodeUID and remediation of a maintenance never change: delete it and create another one",reason=FieldValueForbidden
type NodeMaintenanceSpec struct {
	// Name of the node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName"`

	// UID of the node, if the maintenance ends with that node. If it is left out, a
	// reinstalled node of the same name is cordoned again.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	NodeUID types.UID `json:"nodeUID,omitempty"`

	// Why the node is out of service. For people.
	//
	// Example: swap DIMM A1
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason"`

	// Who asked for it. For people.
	//
	// Example: jane@example.com
	// +optional
	// +kubebuilder:validation:MaxLength=256
	RequestedBy string `json:"requestedBy,omitempty"`

	// The remediation whose step this is. Absent for a person's maintenance.
	// +optional
	Remediation *RemediationReference `json:"remediation,omitempty"`

	// How the node is drained. If it is left out, the node is only cordoned.
	// +optional
	Drain *Drain `json:"drain,omitempty"`

	// Off: once the node is drained, its operating system is asked to shut down, and what
	// still runs 10 minutes later is switched off. The machine stays off until the
	// maintenance ends; then it is switched on again. The remote runner does both, by the
	// node's BMC: see status.power. It needs drain, and remoteRunner.maintenancePower of
	// the chart.
	// +optional
	// +kubebuilder:validation:Enum=Off
	Power PowerRequest `json:"power,omitempty"`

	// With power: Off, or machineOff: once the machine is proved to be off, the controller sets the taint
	// node.kubernetes.io/out-of-service on the node, by which Kubernetes ends the pods that
	// the drain could not end, and those that it leaves, and detaches the volumes, so that they
	// start elsewhere. The controller takes the taint away when the maintenance has ended, the
	// node is Ready with a new boot ID, and nothing of the boot before is left. With power: Off
	// it needs remoteRunner.outOfService of the chart, too, and with machineOff
	// controller.personsWord: without, nothing is freed.
	// +optional
	OutOfService bool `json:"outOfService,omitempty"`

	// The word of a person that the machine is off: the proof where nothing can read its
	// power. It counts for one boot of the node, until the node answers, and as long as no
	// switch that a remote runner has read says on. If it is wrong, volumes are written
	// twice. Its name is that of the user who writes it: admission refuses another one, the
	// account of a program, and who may not confirm nodemaintenances. It needs outOfService.
	// To give it: kubectl nodemend fence confirm NODE
	// +optional
	MachineOff *PersonsWord `json:"machineOff,omitempty"`

	// Lights the lamp by which people find the machine for as long as the maintenance
	// lasts. The remote runner does that, by the node's BMC: see status.identify.
	// +optional
	Identify bool `json:"identify,omitempty"`
}

// PersonsWord is the word of a person that a boot of a node is over: its machine is off,
// and stays so until pods and volumes are freed.
type PersonsWord struct {
	// PersonsWord.
	// +required
	// +kubebuilder:validation:Enum=PersonsWord
	Kind string `json:"kind"`

	// UID of the node.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	NodeUID types.UID `json:"nodeUID"`

	// Boot ID that the node had. The word is for no other boot.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID"`

	// Since when the condition Ready of the node was Unknown: its lastTransitionTime. A node
	// that has answered since has shown that the word was wrong, so it counts no more.
	// +required
	SilentSince metav1.Time `json:"silentSince"`

	// Name of the user whose word it is.
	//
	// Example: jane@example.com
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	By string `json:"by"`

	// When it was given, by the clock of who gave it. For people: nothing goes by it.
	// +required
	Time metav1.Time `json:"time"`

	// How it is known, in the person's own words.
	//
	// Example: both cords are drawn
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// KindPersonsWord is the kind of a proof that is a person's word.
const KindPersonsWord = "PersonsWord"

// PowerRequest is what a maintenance wants of the power of a machine.
type PowerRequest string

// PowerRequestOff wants it to be off.
const PowerRequestOff PowerRequest = "Off"

// RemediationReference names a remediation.
type RemediationReference struct {
	// Name of the Remediation.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// UID of the Remediation.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid"`
}

// Drain says how pods are evicted from a node. As with kubectl drain, pods of
// DaemonSets and mirror pods stay, and PodDisruptionBudgets are honoured.
type Drain struct {
	// Maximum duration of the drain. Then onTimeout applies.
	// +optional
	// +kubebuilder:default="1h"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') || !self.matches('^[0-9.hmnsu]+$')",message="must be at least 1s"
	Timeout Duration `json:"timeout,omitempty,omitzero"`

	// What happens to pods that are left after the timeout. Wait: the drain goes on,
	// and says so. Proceed: the node counts as drained, with the pods on it. Abort:
	// no more pods are evicted; a policy's step fails, and the node is uncordoned.
	// +optional
	// +kubebuilder:default=Wait
	// +kubebuilder:validation:Enum=Wait;Proceed;Abort
	OnTimeout OnTimeout `json:"onTimeout,omitempty"`

	// Seconds that each pod has to stop. If it is left out, the pod's own
	// terminationGracePeriodSeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	GracePeriodSeconds *int64 `json:"gracePeriodSeconds,omitempty"`

	// Also evicts pods with emptyDir volumes, whose data are lost. Otherwise such
	// pods stay, and the drain does not end.
	// +optional
	DeleteEmptyDirData bool `json:"deleteEmptyDirData,omitempty"`

	// Also evicts pods that no controller creates again. Otherwise such pods stay,
	// and the drain does not end.
	// +optional
	Force bool `json:"force,omitempty"`

	// Pods to evict, as with kubectl drain --pod-selector. If it is left out, all.
	// +optional
	PodSelector *PodSelector `json:"podSelector,omitempty"`

	// Pods that must not be disturbed. No pod of the node is evicted before they
	// have finished.
	//
	// Example: {matchLabels: {example.com/uninterruptible: "true"}}
	// +optional
	VetoedBy *PodSelector `json:"vetoedBy,omitempty"`
}

// PodSelector selects pods by their labels. All of its requirements must be met.
//
// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="must not be empty: give matchLabels or matchExpressions, or leave it out"
type PodSelector struct {
	// Labels with these values.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// Requirements on labels, by an operator and values.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=atomic
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"`
}

// LabelRequirement is a requirement on one label.
//
// +kubebuilder:validation:XValidation:rule="(self.operator in ['In', 'NotIn']) == (has(self.values) && self.values.size() > 0)",message="operator must be In or NotIn with values, or Exists or DoesNotExist without values"
type LabelRequirement struct {
	// Key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// Operator that compares the label with the values.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`

	// Values for In and NotIn.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Values []LabelValue `json:"values,omitempty"`
}

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// OnTimeout is what is done when a drain takes too long.
type OnTimeout string

const (
	// OnTimeoutWait goes on.
	OnTimeoutWait OnTimeout = "Wait"
	// OnTimeoutProceed takes the node as drained.
	OnTimeoutProceed OnTimeout = "Proceed"
	// OnTimeoutAbort stops evicting.
	OnTimeoutAbort OnTimeout = "Abort"
)

// Types of the conditions of a NodeMaintenance.
const (
	// MaintenanceCordoned is True while the node takes no new pods.
	MaintenanceCordoned = "Cordoned"
	// MaintenanceDrained is True once nothing is to be waited for any more.
	MaintenanceDrained = "Drained"
)

// Reasons of the Cordoned condition.
const (
	// ReasonCordoned: by nodemend, which will uncordon it.
	ReasonCordoned = "Cordoned"
	// ReasonCordonedByOthers: it was cordoned before, and is left so.
	ReasonCordonedByOthers = "CordonedByOthers"
	// ReasonNoSuchNode: there is no such node, or none any more.
	ReasonNoSuchNode = "NoSuchNode"
	// ReasonLeftToAnother: another program was told to stop and has not let go of the node,
	// which it may want uncordoned.
	ReasonLeftToAnother = "LeftToAnother"
)

// Reasons of the Drained condition.
const (
	// ReasonDrainWaits: the node is cordoned, and other nodes come first.
	ReasonDrainWaits = "Waiting"
	// ReasonDraining: pods are being evicted, or awaited.
	ReasonDraining = "Draining"
	// ReasonVetoed: a pod that vetoedBy selects is on the node.
	ReasonVetoed = "Vetoed"
	// ReasonDrainTimedOut: the time is over, and pods are left.
	ReasonDrainTimedOut = "TimedOut"
	// ReasonDrainAborted: the time is over, and nothing more is evicted.
	ReasonDrainAborted = "Aborted"
	// ReasonDrained: every pod that was to go is gone, or was told to go and does
	// not end.
	ReasonDrained = "Drained"
	// ReasonDrainNotWanted: the node is only cordoned.
	ReasonDrainNotWanted = "CordonOnly"
)

// NodeMaintenanceStatus is what was seen and done so far.
type NodeMaintenanceStatus struct {
	// UID of the node that the rest of the status is about.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	NodeUID types.UID `json:"nodeUID,omitempty"`

	// Progress of the drain.
	// +optional
	Drain *DrainStatus `json:"drain,omitempty"`

	// What whoever repairs the node has to know, by what the checks of the node said last
	// while something was broken. It stays while the node is off, and when it is well again.
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	Evidence []Evidence `json:"evidence,omitempty"`

	// The machine whose light or power is switched for the maintenance. The remote runner
	// keeps it here before it switches anything, for when the node is gone.
	// +optional
	Machine *Machine `json:"machine,omitempty"`

	// Whether the lamp shines by which people find the machine.
	// +optional
	Identify *IdentifyStatus `json:"identify,omitempty"`

	// How far the power of the machine is switched off, and on again.
	// +optional
	Power *MaintenancePowerStatus `json:"power,omitempty"`

	// Observations: Cordoned, Drained.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Machine is that of a node, and what its switch is found by.
type Machine struct {
	// The node's systemUUID.
	// +required
	// +kubebuilder:validation:MaxLength=36
	UUID string `json:"uuid"`

	// Labels of the node by which its switch was found.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations of the node by which its switch was found.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Annotations map[string]string `json:"annotations,omitempty"`
}

// IdentifyStatus is whether the lamp of a machine shines.
type IdentifyStatus struct {
	// On: the BMC has acknowledged that it shines. Off: it does not, and the message says
	// why if it should. Unknown: it may shine.
	// +required
	// +kubebuilder:validation:Enum="On";"Off";Unknown
	State LightState `json:"state"`

	// Why it is not as the maintenance wants it, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// Since when it is so, by the clock of the remote runner.
	// +required
	Since metav1.Time `json:"since"`
}

// LightState is whether a lamp shines.
type LightState string

const (
	// LightOn shines.
	LightOn LightState = "On"
	// LightOff does not.
	LightOff LightState = "Off"
	// LightUnknown may shine.
	LightUnknown LightState = "Unknown"
)

// MaintenancePowerStatus is how far a machine is switched off for a maintenance, and on
// again. What is switched is kept here before.
type MaintenancePowerStatus struct {
	// Waiting: nothing was switched, and the message says what it waits for. ShuttingDown:
	// the operating system may have been asked to shut down. Cutting: an off may have been
	// sent. Off: it is off by this maintenance, read twice. StillOn: the off was in vain,
	// and no other is sent. Restoring: it is switched on again, and is to boot. On: it is on
	// again, or somebody has booted it. WasOff: it was off when first read, so it is not
	// switched on, either. LeftOff: nobody may switch it on any more but people.
	// +required
	// +kubebuilder:validation:Enum=Waiting;ShuttingDown;Cutting;"Off";StillOn;Restoring;"On";WasOff;LeftOff
	Phase PowerPhase `json:"phase"`

	// Since when the phase lasts, by the clock of the remote runner.
	// +required
	Since metav1.Time `json:"since"`

	// ID of the remote runner that carries it out now. Another one goes on from here
	// when it has written its own.
	// +required
	// +kubebuilder:validation:MaxLength=253
	RunnerID string `json:"runnerID"`

	// Boot ID of the node that is shut down. No other boot is switched off.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	BootID string `json:"bootID,omitempty"`

	// With outOfService: what proves that this boot is over. It was read off for two minutes.
	// +optional
	Proof *PowerProof `json:"proof,omitempty"`

	// How often the power was read off again since the proof, while pods and volumes are to
	// be freed and nothing forbids that. Each of these readings began after the number
	// before it stood here: who sees it grow by two knows that the machine was off meanwhile.
	// +optional
	Held int32 `json:"held,omitempty"`

	// Why, or what is waited for. For people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// PowerPhase is how far a machine is switched off and on again for a maintenance.
type PowerPhase string

const (
	// PowerWaiting has switched nothing.
	PowerWaiting PowerPhase = "Waiting"
	// PowerShuttingDown may have asked the operating system to shut down.
	PowerShuttingDown PowerPhase = "ShuttingDown"
	// PowerCutting may have sent an off.
	PowerCutting PowerPhase = "Cutting"
	// PowerOff is off, by the maintenance.
	PowerOff PowerPhase = "Off"
	// PowerStillOn has sent offs in vain.
	PowerStillOn PowerPhase = "StillOn"
	// PowerRestoring switches on again.
	PowerRestoring PowerPhase = "Restoring"
	// PowerOn is on again.
	PowerOn PowerPhase = "On"
	// PowerWasOff was off already.
	PowerWasOff PowerPhase = "WasOff"
	// PowerLeftOff is for people.
	PowerLeftOff PowerPhase = "LeftOff"
)

// Evidence is what a condition of a node has told a technician. It is the node's word.
type Evidence struct {
	// Type of the node condition.
	//
	// Example: HardwareFailure
	// +required
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type"`

	// Reason of the condition.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// Since when the condition has its status.
	// +optional
	Since metav1.Time `json:"since,omitempty,omitzero"`

	// What is broken, in words.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// The server and its firmware, then each part: its slot, since when, what was read in
	// bytes, its serial number.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=256
	// +listType=atomic
	Details []string `json:"details,omitempty"`
}

// DrainStatus is the progress of a drain.
type DrainStatus struct {
	// When the drain started.
	// +required
	StartedAt metav1.Time `json:"startedAt"`

	// Number of pods to evict: the largest number seen at one time.
	// +optional
	Total int32 `json:"total"`

	// Number of pods that are left.
	// +optional
	Left int32 `json:"left"`

	// Pods that are gone, in percent of the total.
	// +optional
	Percent int32 `json:"percent"`

	// Pods that are left, and why. At most 32.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Pods []RemainingPod `json:"pods,omitempty"`
}

// RemainingPod is a pod that is still on a node that is being drained.
type RemainingPod struct {
	// Namespace of the pod.
	// +required
	Namespace string `json:"namespace"`

	// Name of the pod.
	// +required
	Name string `json:"name"`

	// Why it is still there, in one word.
	// +required
	Reason PodReason `json:"reason"`

	// Why it is still there, and what helps.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// PodReason is why a pod is still on a node.
type PodReason string

const (
	// PodEvictable says that it is about to be evicted.
	PodEvictable PodReason = "Evictable"
	// PodTerminating says that it was told to end and has time to do so.
	PodTerminating PodReason = "Terminating"
	// PodStuckTerminating says that its time to end is over. Nothing waits for it.
	PodStuckTerminating PodReason = "StuckTerminating"
	// PodDisruptionBudget says that a PodDisruptionBudget does not let it go now.
	PodDisruptionBudget PodReason = "DisruptionBudget"
	// PodLocalStorage says that it has emptyDir data, see drain.deleteEmptyDirData.
	PodLocalStorage PodReason = "LocalStorage"
	// PodUnmanaged says that no controller would create it again, see drain.force.
	PodUnmanaged PodReason = "Unmanaged"
	// PodVeto says that it keeps all pods of the node, see drain.vetoedBy.
	PodVeto PodReason = "Veto"
	// PodVetoed says that another pod keeps all pods of the node, see drain.vetoedBy.
	PodVetoed PodReason = "Vetoed"
	// PodEvictionFailed says that the API server refused the eviction.
	PodEvictionFailed PodReason = "EvictionFailed"
)

// NodeMaintenanceList is a list of maintenances.
//
// +kubebuilder:object:root=true
type NodeMaintenanceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeMaintenance `json:"items"`
}
